// Command allot runs the ledger and inspects it.
package main

import (
	"github.com/alecthomas/kong"

	"github.com/allot-project/allot/cmd/allot/ask"
	"github.com/allot-project/allot/cmd/allot/operate"
	"github.com/allot-project/allot/cmd/allot/server"
	"github.com/allot-project/allot/cmd/internal/cli"
)

// program is the command line.
type program struct {
	ask.Commands `embed:""`

	Cluster      clusterCommands     `cmd:"" help:"Operate several servers of one ledger."`
	Serve        server.Command      `cmd:"" help:"Run the ledger."`
	Export       operate.Export      `cmd:"" help:"Write a log, or a range of it, to a file."`
	Import       operate.Import      `cmd:"" help:"Begin a data folder with an exported log."`
	Backup       operate.Backup      `cmd:"" help:"Bring an archive up to the end of a log, now."`
	Restore      operate.Restore     `cmd:"" help:"Begin a data folder with the log in an archive, up to any moment."`
	Init         operate.Init        `cmd:"" help:"Permit a new ledger to begin in a data folder."`
	Repair       operate.Repair      `cmd:"" help:"List the damage in a log's files, and mend it from an export, another server, or by a cut."`
	Replay       operate.Replay      `cmd:"" help:"Rebuild everything from the log alone, and compare."`
	Verify       operate.Verify      `cmd:"" help:"Check a log, and compare snapshots and read models with it."`
	Checkpoint   operate.Checkpoint  `cmd:"" help:"Print a signed checkpoint of a server's log, and check that it extends an earlier one."`
	Prove        operate.Prove       `cmd:"" help:"Print evidence that a record is in a server's log."`
	CheckProof   operate.CheckProof  `cmd:"" name:"check-proof" help:"Check the evidence that allot prove printed, without the server."`
	SigningKey   operate.SigningKey  `cmd:"" name:"signing-key" help:"Make a key to sign checkpoints with."`
	Sign         operate.Sign        `cmd:"" help:"Sign a checkpoint of a log that no server uses."`
	Policy       policyCommand       `cmd:"" help:"Print the policy rules, as a file to start from."`
	NATSPassword natsPasswordCommand `cmd:"" name:"nats-password" help:"Print the hash of a password, for a file of NATS users."`

	cli.Common `embed:""`
}

type clusterCommands struct {
	ask.Cluster `embed:""`

	Rejoin operate.Rejoin `cmd:"" help:"Let a server take part again whose log is lost."`
}

// Options adds the help texts of the questions, and what allot serve is told of the command line.
func (p *program) Options() []kong.Option {
	return []kong.Option{kong.PostBuild(ask.Describe), kong.Bind(&p.Common)}
}

func main() {
	cli.Main(name, description, &program{})
}

// What the program is called, and what it is.
const (
	name        = "allot"
	description = "An event-sourced allocation ledger that speaks OpenStack Placement and Ironic's allocations."
)
