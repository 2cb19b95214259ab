// Command allot runs the ledger and inspects it.
package main

import "github.com/allot-project/allot/cmd/internal/cli"

// program is the command line.
type program struct {
	Serve        serveCommand        `cmd:"" help:"Run the ledger."`
	Log          logCommand          `cmd:"" help:"Print the records of a ledger."`
	History      historyCommand      `cmd:"" help:"Print the history of a consumer, provider, project or user, or the effects of a command."`
	Why          whyCommand          `cmd:"" help:"Print the records that explain what a consumer holds of a provider."`
	WhyNot       whyNotCommand       `cmd:"" name:"why-not" help:"Explain why a request has no allocation candidates."`
	Rejected     rejectedCommand     `cmd:"" help:"Print rejected commands, with the reasons."`
	Redecide     redecideCommand     `cmd:"" help:"Decide a rejected command again, against the past or another moment."`
	WhatIf       whatIfCommand       `cmd:"" name:"what-if" help:"Show the outcome of some commands, without recording them."`
	Orphans      orphansCommand      `cmd:"" help:"List allocations without an owner, and owners without allocations."`
	Export       exportCommand       `cmd:"" help:"Write a log, or a range of it, to a file."`
	Import       importCommand       `cmd:"" help:"Begin a data folder with an exported log."`
	Backup       backupCommand       `cmd:"" help:"Bring an archive up to the end of a log, now."`
	Restore      restoreCommand      `cmd:"" help:"Begin a data folder with the log in an archive, up to any moment."`
	Init         initCommand         `cmd:"" help:"Permit a new ledger to begin in a data folder."`
	Repair       repairCommand       `cmd:"" help:"List the damage in a log's files, and mend it from an export, another server, or by a cut."`
	Replay       replayCommand       `cmd:"" help:"Rebuild everything from the log alone, and compare."`
	Verify       verifyCommand       `cmd:"" help:"Check a log, and compare snapshots and read models with it."`
	Checkpoint   checkpointCommand   `cmd:"" help:"Print a signed checkpoint of a server's log, and check that it extends an earlier one."`
	Holders      holdersCommand      `cmd:"" help:"Print the consumers that hold, or held, something of a provider, with their owners."`
	Prove        proveCommand        `cmd:"" help:"Print evidence that a record is in a server's log."`
	CheckProof   checkProofCommand   `cmd:"" name:"check-proof" help:"Check the evidence that allot prove printed, without the server."`
	SigningKey   signingKeyCommand   `cmd:"" name:"signing-key" help:"Make a key to sign checkpoints with."`
	Sign         signCommand         `cmd:"" help:"Sign a checkpoint of a log that no server uses."`
	Cluster      clusterCommand      `cmd:"" help:"Operate several servers of one ledger."`
	Claims       claimsCommand       `cmd:"" help:"Show and cancel claims that wait."`
	Preferences  preferencesCommand  `cmd:"" help:"Show and set preferences that claims refer to by name."`
	Limits       limitsCommand       `cmd:"" help:"Show and set how much projects may hold."`
	Policy       policyCommand       `cmd:"" help:"Print the policy rules, as a file to start from."`
	NATSPassword natsPasswordCommand `cmd:"" name:"nats-password" help:"Print the hash of a password, for a file of NATS users."`
	Get          getCommand          `cmd:"" help:"Print a provider, consumer, project, bare metal node or allocation."`
	List         listCommand         `cmd:"" help:"List providers, consumers, classes, traits, bare metal nodes or allocations."`
	Series       seriesCommand       `cmd:"" help:"Print the usage of a provider or project over time."`
	Top          topCommand          `cmd:"" help:"Show what a server does now: rates, latencies, refusals, and who holds most."`
	Doctor       doctorCommand       `cmd:"" help:"Say what would keep a server with these flags from serving well, and what to do."`

	cli.Common `embed:""`
}

func main() {
	followUse(taken{}) // little is in use
	cli.Main(name, description, &program{})
}

// What the program is called, and what it is.
const (
	name        = "allot"
	description = "An event-sourced allocation ledger that speaks OpenStack Placement and Ironic's allocations."
)
