package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/allot-project/allot/cmd/allot-migrate/contents"
	"github.com/allot-project/allot/cmd/allot-migrate/contents/jsonl"
)

// importJSONLCommand is "allot-migrate import jsonl".
type importJSONLCommand struct {
	File          string `arg:"" help:"File of JSON lines; docs/import-jsonl.md describes it." type:"existingfile"`
	contentsFlags `embed:""`
}

// Run imports the whole file.
func (c *importJSONLCommand) Run(ctx context.Context) error {
	return c.run(ctx, filepath.Base(c.File), func(context.Context) (rows *contents.Rows, err error) {
		in, err := os.Open(c.File)
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, in.Close()) }()
		rows, err = jsonl.Read(in, filepath.Base(c.File), time.Now().UnixNano())
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c.File, err)
		}
		return rows, nil
	})
}
