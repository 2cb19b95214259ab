package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/allot-project/allot/commands/importing"
	"github.com/allot-project/allot/commands/importing/placementdb"
)

// importPlacementCommand is "allot import placement".
type importPlacementCommand struct {
	contentsFlags `embed:""`
	addressFlags  `embed:""`
}

// addressFlags name a Placement.
type addressFlags struct {
	From     string `help:"Placement's database: mysql://USER@HOST/placement, postgresql://USER@HOST/placement or sqlite:PATH. Everybody can read a command line: give an address with a password as ALLOT_FROM in the environment, or in a file." placeholder:"ADDRESS"`
	FromFile string `help:"File with the address, or Placement's own placement.conf." type:"existingfile" placeholder:"FILE"`
}

// Run imports the whole database, as of one moment.
func (c *importPlacementCommand) Run(ctx context.Context) error {
	address, err := c.address(os.Args)
	if err != nil {
		return err
	}
	db, err := placementdb.Parse(address)
	if err != nil {
		return err
	}
	return c.run(ctx, func(ctx context.Context) (*importing.Rows, error) {
		show, end := progressBar("reading")
		defer end()
		return db.Read(ctx, show)
	})
}

// address returns the address. It refuses a password that everybody on the
// machine can read.
func (f *addressFlags) address(args []string) (string, error) {
	switch {
	case f.From != "" && f.FromFile != "":
		return "", errors.New("give only one of --from and --from-file")
	case f.FromFile != "":
		return addressIn(f.FromFile)
	case f.From == "":
		return "", errors.New("name the Placement with --from, ALLOT_FROM or --from-file")
	}
	shown := slices.ContainsFunc(args, func(arg string) bool { return strings.HasSuffix(arg, f.From) })
	if shown && placementdb.HasPassword(f.From) {
		return "", errors.New("the command line has a password, which everybody on this machine can read while the command runs: " +
			"give the address as ALLOT_FROM in the environment, or in a file with --from-file; and change the password if others use this machine")
	}
	return f.From, nil
}

// addressIn reads an address from a file of one line, or from placement.conf.
func addressIn(path string) (string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	section := ""
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		switch {
		case line == "" || strings.HasPrefix(line, "#") || strings.HasPrefix(line, ";"):
		case strings.HasPrefix(line, "["):
			section = line
		case section == "":
			return line, nil
		case section == "[placement_database]":
			if key, value, found := strings.Cut(line, "="); found && strings.TrimSpace(key) == "connection" {
				return strings.TrimSpace(value), nil
			}
		}
	}
	return "", fmt.Errorf("%s has neither an address in its first line nor [placement_database] connection", path)
}
