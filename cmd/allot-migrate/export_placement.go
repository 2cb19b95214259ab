package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/allot-project/allot/cmd/allot-migrate/contents"
	"github.com/allot-project/allot/cmd/allot-migrate/contents/placementdb"
	"github.com/allot-project/allot/cmd/internal/cli"
	"github.com/allot-project/allot/ledger/durable"
)

type exportCommand struct {
	Placement exportPlacementCommand `cmd:"" help:"Write the contents of a running server into a database that Placement can serve." example:"export placement --to contents.sql"`
}

// exportPlacementCommand is "allot-migrate export placement": it writes the contents of a
// running server into a database that Placement can serve.
type exportPlacementCommand struct {
	Server  cli.Server `embed:""`
	To      string     `help:"The database, with Placement's tables and without contents: mysql://USER@HOST/placement, postgresql://USER@HOST/placement or sqlite:PATH; or FILE.sql, a file of statements. An address with a password belongs in the environment, or in a file." env:"ALLOT_EXPORT_PLACEMENT" placeholder:"ADDRESS"`
	ToFile  string     `help:"File with the address, or Placement's own placement.conf." env:"ALLOT_EXPORT_PLACEMENT_FILE" type:"existingfile" placeholder:"FILE"`
	Dialect string     `help:"Kind of the database that takes the statements of FILE.sql: mysql, postgresql or sqlite." enum:"mysql,postgresql,sqlite" default:"mysql"`
}

// Run reads everything before it writes anything.
func (c *exportPlacementCommand) Run(ctx context.Context) error {
	to, err := databaseAddress.given("--to", c.To, c.ToFile)
	if err != nil {
		return err
	}
	write, err := c.writer(ctx, to)
	if err != nil {
		return err
	}
	rows, err := contentsFrom(c.Server)(ctx)
	if err != nil {
		return err
	}
	if rows, err = contents.ForPlacement(rows); err != nil {
		return err
	}
	if err := write(rows); err != nil {
		return err
	}
	fmt.Printf("wrote %d providers, %d inventories, %d consumers and %d allocations\n",
		len(rows.Providers), len(rows.Inventories), len(rows.Consumers), len(rows.Allocations))
	return nil
}

// writer returns what writes rows to the target, which is looked at first.
func (c *exportPlacementCommand) writer(ctx context.Context, to string) (func(*contents.Rows) error, error) {
	if !strings.Contains(to, ":") && strings.HasSuffix(to, ".sql") {
		if _, err := os.Stat(to); !errors.Is(err, os.ErrNotExist) {
			return nil, errors.Join(fmt.Errorf("%s exists: name another file", to), err)
		}
		return func(rows *contents.Rows) error { return writeStatements(to, rows, placementdb.Dialect(c.Dialect)) }, nil
	}
	db, err := placementdb.Parse(to)
	if err != nil {
		return nil, err
	}
	return func(rows *contents.Rows) error {
		show, end := cli.ProgressBar("writing")
		defer end()
		return db.Write(ctx, rows, show)
	}, nil
}

// writeStatements writes a file that takes effect whole or not at all.
func writeStatements(path string, rows *contents.Rows, dialect placementdb.Dialect) error {
	return durable.ReplaceWith(path, func(file *os.File) error {
		out := bufio.NewWriterSize(file, 1<<20)
		// A writer that failed takes nothing more, and Flush says why.
		put := func(text string) { _, _ = out.WriteString(text) }
		put("-- Contents for a Placement, written by allot-migrate export placement. Load them after\n" +
			"-- placement-manage db sync, and before Placement is first started on the database.\nBEGIN;\n")
		for statement := range placementdb.Statements(rows, dialect) {
			put(statement)
			put(";\n")
		}
		put("COMMIT;\n")
		return out.Flush()
	})
}
