// Command allot-migrate brings the contents of a Placement or an Ironic into a ledger, and back.
package main

import "github.com/allot-project/allot/cmd/internal/cli"

type program struct {
	Import  importCommand  `cmd:"" help:"Begin a data folder with the contents of a Placement, of an Ironic, or of a file of JSON lines."`
	Compare compareCommand `cmd:"" help:"Compare a running server with a Placement."`
	Shadow  shadowCommand  `cmd:"" help:"Stand in front of a Placement and an Allot: one answers, the other follows, and their answers are compared."`
	Export  exportCommand  `cmd:"" help:"Write the contents of a running server into a database of Placement."`

	cli.Common `embed:""`
}

func main() { cli.Main(name, description, &program{}) }

// What the program is called, and what it is.
const (
	name        = "allot-migrate"
	description = "Brings the contents of a Placement or an Ironic into a ledger of Allot, compares them, and brings them back."
)
