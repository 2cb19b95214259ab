// Command allot runs the ledger and inspects it.
package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/alecthomas/kong"
	"github.com/google/uuid"
	kongcompletion "github.com/jotaen/kong-completion"
)

// cli is the command line. Every flag can also be set as ALLOT_NAME in the
// environment or as "name: value" in the file that --config names.
type cli struct {
	Config string `help:"YAML file with flags as keys. The environment and the command line override it." env:"ALLOT_CONFIG" type:"path"`

	Serve        serveCommand              `cmd:"" help:"Run the ledger."`
	Log          logCommand                `cmd:"" help:"Print the records of a ledger."`
	History      historyCommand            `cmd:"" help:"Print the history of a consumer, provider, project or user, or the effects of a command."`
	Why          whyCommand                `cmd:"" help:"Print the records that explain what a consumer holds of a provider."`
	WhyNot       whyNotCommand             `cmd:"" name:"why-not" help:"Explain why a request has no allocation candidates."`
	Rejected     rejectedCommand           `cmd:"" help:"Print rejected commands, with the reasons."`
	Redecide     redecideCommand           `cmd:"" help:"Decide a rejected command again, against the past or another moment."`
	WhatIf       whatIfCommand             `cmd:"" name:"what-if" help:"Show the outcome of some commands, without recording them."`
	Orphans      orphansCommand            `cmd:"" help:"List allocations without an owner, and owners without allocations."`
	Export       exportCommand             `cmd:"" help:"Write a log, or a range of it, to a file, or the contents into a database of Placement."`
	Import       importCommand             `cmd:"" help:"Begin a data folder with an exported log, a Placement's contents, or a file of JSON lines."`
	Backup       backupCommand             `cmd:"" help:"Bring an archive up to the end of a log, now."`
	Restore      restoreCommand            `cmd:"" help:"Begin a data folder with the log in an archive, up to any moment."`
	Shadow       shadowCommand             `cmd:"" help:"Stand in front of a Placement and an Allot: one answers, the other follows, and their answers are compared."`
	Compare      compareCommand            `cmd:"" help:"Compare a running server with something else."`
	Init         initCommand               `cmd:"" help:"Permit a new ledger to begin in a data folder."`
	Repair       repairCommand             `cmd:"" help:"List the damage in a log's files, and mend it from an export, another server, or by a cut."`
	Replay       replayCommand             `cmd:"" help:"Rebuild everything from the log alone, and compare."`
	Verify       verifyCommand             `cmd:"" help:"Check a log, and compare snapshots and read models with it."`
	Checkpoint   checkpointCommand         `cmd:"" help:"Print a signed checkpoint of a server's log, and check that it extends an earlier one."`
	Holders      holdersCommand            `cmd:"" help:"Print the consumers that hold, or held, something of a provider, with their owners."`
	Prove        proveCommand              `cmd:"" help:"Print evidence that a record is in a server's log."`
	CheckProof   checkProofCommand         `cmd:"" name:"check-proof" help:"Check the evidence that allot prove printed, without the server."`
	SigningKey   signingKeyCommand         `cmd:"" name:"signing-key" help:"Make a key to sign checkpoints with."`
	Sign         signCommand               `cmd:"" help:"Sign a checkpoint of a log that no server uses."`
	Cluster      clusterCommand            `cmd:"" help:"Operate several servers of one ledger."`
	Bench        benchCommands             `cmd:"" help:"Measure this machine: commands, or claims, durable, in one run."`
	Preferences  preferencesCommand        `cmd:"" help:"Show and set preferences that claims refer to by name."`
	Limits       limitsCommand             `cmd:"" help:"Show and set how much projects may hold."`
	Policy       policyCommand             `cmd:"" help:"Print the policy rules, as a file to start from."`
	NATSPassword natsPasswordCommand       `cmd:"" name:"nats-password" help:"Print the hash of a password, for a file of NATS users."`
	Get          getCommand                `cmd:"" help:"Print a provider, consumer, project, bare metal node or allocation."`
	List         listCommand               `cmd:"" help:"List providers, consumers, classes, traits, bare metal nodes or allocations."`
	Series       seriesCommand             `cmd:"" help:"Print the usage of a provider or project over time."`
	Top          topCommand                `cmd:"" help:"Show what a server does now: rates, latencies, refusals, and who holds most."`
	Doctor       doctorCommand             `cmd:"" help:"Say what would keep a server with these flags from serving well, and what to do."`
	Completion   kongcompletion.Completion `cmd:"" help:"Print a script for shell completion."`
	Manual       manualCommand             `cmd:"" help:"Print the man page."`
	Version      versionCommand            `cmd:"" help:"Print the version, and the commit that it was built from."`
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	uuid.EnableRandPool() // no id is a secret
	parser, err := newParser(&cli{}, kong.BindTo(ctx, (*context.Context)(nil)), kong.Resolvers(&configFile{}))
	if err != nil {
		panic(err) // a mistake in the flags, which every test would find
	}
	kongcompletion.Register(parser) // ends the program if a shell asks for completions
	args := os.Args[1:]
	if len(args) == 0 {
		args = []string{"--help"}
	}
	selected, err := parser.Parse(args)
	parser.FatalIfErrorf(err)
	if err = cmp.Or(refuseSecrets(selected), refuseNumbers(selected)); err == nil {
		err = selected.Run()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "allot:", err)
		stop()
		os.Exit(1)
	}
}

// newParser returns what reads the command line.
func newParser(args *cli, options ...kong.Option) (*kong.Kong, error) {
	return kong.New(args, append(options,
		kong.Name("allot"),
		kong.Description("An event-sourced allocation ledger that speaks OpenStack Placement and Ironic's allocations."),
		kong.ShortUsageOnError(), // serve has some hundred flags
		kong.DefaultEnvars("ALLOT"),
	)...)
}
