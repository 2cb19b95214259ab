// Command allot-bench measures a machine: commands and claims, durable, each in one run.
package main

import "github.com/allot-project/allot/cmd/internal/cli"

type program struct {
	Commands benchCommand      `cmd:"" default:"withargs" help:"Measure commands over NATS." example:"commands --duration 6s"`
	Claim    benchClaimCommand `cmd:"" help:"Measure claims over NATS, and beside them candidates and then allocate." example:"claim"`
	Floods   floodsCommand     `cmd:"" help:"Measure how others are served beside hostile clients with a login." example:"floods"`

	cli.Common `embed:""`
}

func main() { cli.Main(name, description, &program{}) }

// What the program is called, and what it is.
const (
	name        = "allot-bench"
	description = "Measures what Allot does on this machine, on ledgers of its own."
)
