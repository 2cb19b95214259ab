// Command allot runs the ledger and inspects it.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/alecthomas/kong"
	"golang.org/x/crypto/bcrypt"

	"github.com/allot-project/allot/api/policy"
	"github.com/allot-project/allot/cmd/allot/ask"
	"github.com/allot-project/allot/cmd/allot/operate"
	"github.com/allot-project/allot/cmd/allot/server"
	"github.com/allot-project/allot/cmd/internal/cli"
)

type program struct {
	ask.Commands `embed:""`

	Serve        server.Command      `cmd:"" group:"Run a server and its cluster:" help:"Run the ledger." example:"serve --data /var/lib/allot --metrics 127.0.0.1:9187"`
	Cluster      clusterCommands     `cmd:"" group:"Run a server and its cluster:" help:"Operate several servers of one ledger."`
	Init         operate.Init        `cmd:"" group:"Run a server and its cluster:" help:"Permit a new ledger to begin in a data folder." example:"init --data /var/lib/allot"`
	Policy       policyCommand       `cmd:"" group:"Run a server and its cluster:" help:"Print the policy rules, as a file to start from." example:"policy --open"`
	NATSPassword natsPasswordCommand `cmd:"" name:"nats-password" group:"Run a server and its cluster:" help:"Print the hash of a password, for a file of NATS users." example:"nats-password"`
	Export       operate.Export      `cmd:"" group:"Keep and move the log:" help:"Write a log, or a range of it, to a file." example:"export ledger.allot --data /var/lib/allot"`
	Import       operate.Import      `cmd:"" group:"Keep and move the log:" help:"Begin a data folder with an exported log." example:"import ledger.allot --data /var/lib/allot"`
	Backup       operate.Backup      `cmd:"" group:"Keep and move the log:" help:"Bring an archive up to the end of a log, now." example:"backup --url http://127.0.0.1:8778 --to s3://backups/allot"`
	Restore      operate.Restore     `cmd:"" group:"Keep and move the log:" help:"Begin a data folder with the log in an archive, up to any moment." example:"restore --from s3://backups/allot --data /var/lib/allot"`
	Repair       operate.Repair      `cmd:"" group:"Keep and move the log:" help:"List the damage in a log's files, and mend it from copies of the log, or by a cut." example:"repair --data /var/lib/allot --archive ledger.allot"`
	Replay       operate.Replay      `cmd:"" group:"Prove that all is as it was:" help:"Rebuild everything from the log alone, and compare." example:"replay --archive ledger.allot --compare"`
	Verify       operate.Verify      `cmd:"" group:"Prove that all is as it was:" help:"Check a log, and compare snapshots and read models with it." example:"verify --data /var/lib/allot"`
	Checkpoint   operate.Checkpoint  `cmd:"" group:"Prove that all is as it was:" help:"Print a signed checkpoint of a server's log, and check that it extends an earlier one." example:"checkpoint --out today"`
	Prove        operate.Prove       `cmd:"" group:"Prove that all is as it was:" help:"Print evidence that a record is in a server's log." example:"prove 99.0"`
	CheckProof   operate.CheckProof  `cmd:"" name:"check-proof" group:"Prove that all is as it was:" help:"Check the evidence that allot prove printed, without the server." example:"check-proof evidence --public-key key.pub"`
	SigningKey   operate.SigningKey  `cmd:"" name:"signing-key" group:"Prove that all is as it was:" help:"Make a key to sign checkpoints with." example:"signing-key allot.example key"`
	Sign         operate.Sign        `cmd:"" group:"Prove that all is as it was:" help:"Sign a checkpoint of a log that no server uses." example:"sign --data /var/lib/allot --signing-key key"`

	cli.Common `embed:""`
}

type clusterCommands struct {
	ask.Cluster `embed:""`

	Heal   operate.Heal   `cmd:"" help:"Let a cluster begin again whose log is damaged or lost on most servers, with what all copies have together." example:"cluster heal --data /var/lib/allot --archive /copy/of/server-2 --archive /copy/of/server-3"`
	Rejoin operate.Rejoin `cmd:"" help:"Let a server take part again whose log is lost." example:"cluster rejoin --data /var/lib/allot"`
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

// natsPasswordCommand is "allot nats-password": it prints the hash of a password, for a file of users.
type natsPasswordCommand struct{}

// minPassword is the length of the shortest password that is accepted, in characters.
const minPassword = 8

// Run hashes the password that it reads from standard input.
func (natsPasswordCommand) Run(context.Context) error {
	line, err := bufio.NewReader(os.Stdin).ReadString('\n')
	password := strings.TrimRight(line, "\r\n")
	if password == "" && err != nil {
		return errors.New("give the password on standard input")
	}
	if len(password) < minPassword {
		return fmt.Errorf("the password is shorter than %d characters", minPassword)
	}
	hash, err := bcrypt.GenerateFromPassword([]byte(password), bcrypt.DefaultCost)
	if err != nil {
		return err
	}
	fmt.Println(string(hash))
	return nil
}

type policyCommand struct {
	Open bool `help:"Print rules that permit everything to everybody, for a server behind a proxy that decides."`
}

// Run prints every rule of the policy.
func (c *policyCommand) Run() error {
	for _, name := range policy.Names() {
		text := policy.Default(name)
		if c.Open {
			text = "@"
		}
		if _, err := fmt.Printf("%q: %q\n", name, text); err != nil {
			return err
		}
	}
	return nil
}
