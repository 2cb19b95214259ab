package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/allot-project/allot/commands/importing"
	"github.com/allot-project/allot/commands/importing/placementapi"
	"github.com/allot-project/allot/commands/importing/placementdb"
)

// importPlacementCommand is "allot import placement".
type importPlacementCommand struct {
	contentsFlags `embed:""`
	addressFlags  `embed:""`

	PlacementToken string `help:"Token for Placement's REST API, best given as OS_TOKEN in the environment." env:"OS_TOKEN"`
}

// addressFlags name a Placement.
type addressFlags struct {
	From     string `help:"Placement's database: mysql://USER@HOST/placement, postgresql://USER@HOST/placement or sqlite:PATH; or its REST API: http://HOST:8778. Everybody can read a command line: give an address with a password as ALLOT_FROM in the environment, or in a file." placeholder:"ADDRESS"`
	FromFile string `help:"File with the address, or Placement's own placement.conf." type:"existingfile" placeholder:"FILE"`
}

// Run imports everything: a database as of one moment, or what the REST API tells.
func (c *importPlacementCommand) Run(ctx context.Context) error {
	address, err := c.address(os.Args, "--from")
	if err != nil {
		return err
	}
	read, err := placementAt(address, c.PlacementToken)
	if err != nil {
		return err
	}
	return c.run(ctx, read)
}

// placementAt returns what reads the Placement at an address.
func placementAt(address, token string) (contents, error) {
	if scheme, _, found := strings.Cut(strings.ToLower(address), "://"); found && (scheme == "http" || scheme == "https") {
		source := &placementapi.Source{URL: address, Token: token}
		return func(ctx context.Context) (*importing.Rows, error) {
			show, end := progressBar("reading")
			defer end()
			return source.Read(ctx, show)
		}, nil
	}
	db, err := placementdb.Parse(address)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) (*importing.Rows, error) {
		show, end := progressBar("reading")
		defer end()
		return db.Read(ctx, show)
	}, nil
}

// address returns the address. It refuses a password that everybody on the
// machine can read.
func (f addressFlags) address(args []string, flag string) (string, error) {
	switch {
	case f.From != "" && f.FromFile != "":
		return "", fmt.Errorf("give only one of %s and %s-file", flag, flag)
	case f.FromFile != "":
		return addressIn(f.FromFile)
	case f.From == "":
		return "", fmt.Errorf("name the Placement with %s, ALLOT_%s or %s-file", flag, strings.ToUpper(flag[2:]), flag)
	}
	shown := slices.ContainsFunc(args, func(arg string) bool { return strings.HasSuffix(arg, f.From) })
	if shown && placementdb.HasPassword(f.From) {
		return "", fmt.Errorf("the command line has a password, which everybody on this machine can read while the command runs: "+
			"give the address as ALLOT_%s in the environment, or in a file with %s-file; and change the password if others use this machine",
			strings.ToUpper(flag[2:]), flag)
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
