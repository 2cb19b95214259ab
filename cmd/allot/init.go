package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/blocks"
)

// initCommand is "allot init": leave to begin a ledger in a folder that is not
// empty.
type initCommand struct {
	Data     string `help:"Data folder." default:"data" type:"path"`
	External bool   `help:"The log will not be in the folder, but in the NATS server that --nats-url of allot serve names."`
}

// Run refuses a folder in which there is, or was, a ledger.
func (c *initCommand) Run(context.Context) (err error) {
	d, err := openDataFolder(c.Data)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.close()) }()
	for _, name := range []string{logFolder, readModelFolder, snapshotsFolder, checkpointsFolder} {
		found, err := d.has(name)
		if err != nil {
			return err
		}
		if found {
			return fmt.Errorf(
				"%s is a ledger's: a new one cannot begin beside it. Move it away, or name another folder", d.path(name),
			)
		}
	}
	d.external = c.External
	begin := blocks.Beginning{Ledger: ledger.UUID(uuid.New())}
	if err := d.files().MayBegin(begin); err != nil {
		return err
	}
	fmt.Printf("the ledger %s begins in %s with: allot serve --data %s\n", begin.Ledger, c.Data, c.Data)
	return nil
}
