package main

import (
	"context"
	"fmt"
	"os"
	"strings"
)

// importPlacementCommand is "allot import placement".
type importPlacementCommand struct {
	contentsFlags  `embed:""`
	placementLogin `embed:""`
	From           string `help:"Placement's database: mysql://USER@HOST/placement, postgresql://USER@HOST/placement or sqlite:PATH; or its REST API: http://HOST:8778. An address with a password belongs in the environment, or in a file." env:"ALLOT_PLACEMENT" placeholder:"ADDRESS"`
	FromFile       string `help:"File with the address, or Placement's own placement.conf." env:"ALLOT_PLACEMENT_FILE" type:"existingfile" placeholder:"FILE"`
}

// Run imports everything: a database as of one moment, or what the REST API tells.
func (c *importPlacementCommand) Run(ctx context.Context) error {
	address, err := givenAddress("--from", c.From, c.FromFile)
	if err != nil {
		return err
	}
	read, err := c.contentsAt(address)
	if err != nil {
		return err
	}
	return c.run(ctx, read)
}

// givenAddress returns the address that a flag gives, or the file of the flag with
// "-file" after its name.
func givenAddress(flag, address, file string) (string, error) {
	switch {
	case address != "" && file != "":
		return "", fmt.Errorf("give only one of %s and %s-file, or of ALLOT_PLACEMENT and ALLOT_PLACEMENT_FILE", flag, flag)
	case file != "":
		return addressIn(file)
	case address == "":
		return "", fmt.Errorf("name the Placement with %s, ALLOT_PLACEMENT or %s-file", flag, flag)
	}
	return address, nil
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
