// Command allot-bench measures a machine: commands, claims, devices, and a long history, durable, each in
// one run.
package main

import "github.com/allot-project/allot/cmd/internal/cli"

type program struct {
	Commands benchCommand        `cmd:"" default:"withargs" help:"Measure commands in the process and over NATS." example:"commands --duration 6s"`
	Claim    benchClaimCommand   `cmd:"" help:"Measure claims over NATS, and beside them candidates and then allocate." example:"claim"`
	History  benchHistoryCommand `cmd:"" help:"Measure a long history: bytes in each store, and questions about its past." example:"history"`
	Devices  benchDevicesCommand `cmd:"" help:"Measure requests for like devices, and searches and claims among few and many providers." example:"devices"`
	Floods   floodsCommand       `cmd:"" help:"Measure how others are served beside hostile clients with a login." example:"floods"`

	cli.Common `embed:""`
}

func main() { cli.Main(name, description, &program{}) }

// What the program is called, and what it is.
const (
	name        = "allot-bench"
	description = "Measures what Allot does on this machine, on ledgers of its own."
)
