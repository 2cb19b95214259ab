package main

import (
	"context"
	"fmt"
	"os"
	"strings"
)

// importPlacementCommand is "allot-migrate import placement".
type importPlacementCommand struct {
	contentsFlags  `embed:""`
	placementLogin `embed:""`
	From           string `help:"Placement's database: mysql://USER@HOST/placement, postgresql://USER@HOST/placement or sqlite:PATH; or its REST API: http://HOST:8778. An address with a password belongs in the environment, or in a file." env:"ALLOT_PLACEMENT" placeholder:"ADDRESS"`
	FromFile       string `help:"File with the address, or Placement's own placement.conf." env:"ALLOT_PLACEMENT_FILE" type:"existingfile" placeholder:"FILE"`
}

// Run imports everything: a database as of one moment, or what the REST API tells.
func (c *importPlacementCommand) Run(ctx context.Context) error {
	address, err := placementAddress.given("--from", c.From, c.FromFile)
	if err != nil {
		return err
	}
	read, err := c.contentsAt(address)
	if err != nil {
		return err
	}
	return c.run(ctx, "a Placement", read)
}

// addressOf says where the address of a service is given.
type addressOf struct {
	what     string // the service
	variable string // that may hold the address; the one of a file has "_FILE" after it
	section  string // of the service's own configuration, that has "connection"
}

var (
	placementAddress = addressOf{"Placement", "ALLOT_PLACEMENT", "[placement_database]"}
	ironicAddress    = addressOf{"Ironic", "ALLOT_IRONIC", "[database]"}
	databaseAddress  = addressOf{"database", "ALLOT_EXPORT_PLACEMENT", "[placement_database]"}
)

// given returns the address that a flag gives, or the file of the flag with "-file"
// after its name.
func (a addressOf) given(flag, address, file string) (string, error) {
	switch {
	case address != "" && file != "":
		return "", fmt.Errorf("give only one of %s and %s-file, or of %s and %s_FILE", flag, flag, a.variable, a.variable)
	case file != "":
		return a.in(file)
	case address == "":
		return "", fmt.Errorf("name the %s with %s, %s or %s-file", a.what, flag, a.variable, flag)
	}
	return address, nil
}

// in reads an address from a file of one line, or from the service's configuration.
func (a addressOf) in(path string) (string, error) {
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
		case section == a.section:
			if key, value, found := strings.Cut(line, "="); found && strings.TrimSpace(key) == "connection" {
				return strings.TrimSpace(value), nil
			}
		}
	}
	return "", fmt.Errorf("%s has neither an address in its first line nor %s connection", path, a.section)
}
