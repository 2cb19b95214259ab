// Command allot runs the ledger and looks into it.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/alecthomas/kong"
	"github.com/google/uuid"
	kongcompletion "github.com/jotaen/kong-completion"
)

// cli is the command line. Every flag can also be set as ALLOT_NAME in the
// environment or as "name: value" in the file that --config names.
type cli struct {
	Config string `help:"YAML file with flags as keys; the environment and the command line win over it." env:"ALLOT_CONFIG" type:"path"`

	Serve        serveCommand              `cmd:"" help:"Run the ledger."`
	Log          logCommand                `cmd:"" help:"Print the records of a ledger."`
	History      historyCommand            `cmd:"" help:"Print what happened to a consumer, provider, project or user, or what a command did."`
	Why          whyCommand                `cmd:"" help:"Print the records that led to what a consumer holds of a provider."`
	WhyNot       whyNotCommand             `cmd:"" name:"why-not" help:"Explain why a request has no allocation candidates."`
	Rejected     rejectedCommand           `cmd:"" help:"Print the commands that were rejected, and why."`
	Redecide     redecideCommand           `cmd:"" help:"Decide a rejected command again, as of then or of another moment."`
	WhatIf       whatIfCommand             `cmd:"" name:"what-if" help:"Find out what would be so after some commands, which are not recorded."`
	Orphans      orphansCommand            `cmd:"" help:"List allocations without an owner, and owners without allocations."`
	Export       exportCommand             `cmd:"" help:"Write a log, or a range of it, into a file."`
	Import       importCommand             `cmd:"" help:"Begin a data folder with a log that was exported."`
	Init         initCommand               `cmd:"" help:"Let a new ledger begin in a data folder that is not empty."`
	Repair       repairCommand             `cmd:"" help:"Say what is wrong with a log's files, and put them right from an export, another server, or by a cut."`
	Replay       replayCommand             `cmd:"" help:"Make everything again from the log alone, and compare."`
	Verify       verifyCommand             `cmd:"" help:"Check a log, and snapshots and read models against it."`
	Checkpoint   checkpointCommand         `cmd:"" help:"Print a signed checkpoint of a server's log, and check what was added since an earlier one."`
	Holders      holdersCommand            `cmd:"" help:"Print who holds, or held, something of a provider, with owners."`
	Prove        proveCommand              `cmd:"" help:"Print evidence that a record is in a server's log."`
	CheckProof   checkProofCommand         `cmd:"" name:"check-proof" help:"Check such evidence, without the server."`
	SigningKey   signingKeyCommand         `cmd:"" name:"signing-key" help:"Make a key to sign checkpoints with."`
	Sign         signCommand               `cmd:"" help:"Sign a checkpoint of a log that no server uses."`
	Cluster      clusterCommand            `cmd:"" help:"Look after servers that serve one ledger together."`
	Bench        benchCommands             `cmd:"" help:"Measure this machine: commands, or claims, durable, in one run."`
	Limits       limitsCommand             `cmd:"" help:"Show and set how much projects may hold."`
	Policy       policyCommand             `cmd:"" help:"Print the policy rules, as a file to start from."`
	NATSPassword natsPasswordCommand       `cmd:"" name:"nats-password" help:"Print the hash of a password, for a file of NATS users."`
	Get          getCommand                `cmd:"" help:"Print a provider, consumer, project, bare metal node or allocation."`
	List         listCommand               `cmd:"" help:"List providers, consumers, classes, traits, bare metal nodes or allocations."`
	Series       seriesCommand             `cmd:"" help:"Print the usage of a provider or project over time."`
	Doctor       doctorCommand             `cmd:"" help:"Say what would keep a server with these flags from serving well, and what to do."`
	Completion   kongcompletion.Completion `cmd:"" help:"Print what makes a shell complete this program's commands and flags."`
	Manual       manualCommand             `cmd:"" help:"Print the man page."`
	Version      versionCommand            `cmd:"" help:"Print the version, and which commit it was built from."`
}

// gcPercent lets garbage grow to twice what is in use before it is collected,
// unless GOGC says otherwise: requests over NATS gain a tenth, for memory.
const gcPercent = 200

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	uuid.EnableRandPool() // no id is a secret
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	var args cli
	parser := kong.Must(&args,
		kong.Name("allot"),
		kong.Description("An event-sourced allocation ledger that speaks OpenStack Placement and Ironic's allocations."),
		kong.UsageOnError(),
		kong.DefaultEnvars("ALLOT"),
		kong.BindTo(ctx, (*context.Context)(nil)),
		kong.Resolvers(&configFile{}),
	)
	kongcompletion.Register(parser) // ends the program if a shell asks for completions
	selected, err := parser.Parse(os.Args[1:])
	parser.FatalIfErrorf(err)
	if err := selected.Run(); err != nil {
		fmt.Fprintln(os.Stderr, "allot:", err)
		stop()
		os.Exit(1)
	}
}
