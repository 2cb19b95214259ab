package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/alecthomas/kong"
	"github.com/google/uuid"
	kongcompletion "github.com/jotaen/kong-completion"
)

// Common is what each program's command line has. Every flag can also be set as ALLOT_NAME
// in the environment or as "name: value" in the file that --config names.
type Common struct {
	Config  string           `help:"YAML file with flags as keys; ALLOT_NAME in the environment and the command line override it." type:"path" placeholder:"FILE"`
	HelpAll helpAll          `help:"Show help with all flags." env:"-"`
	Short   kong.VersionFlag `name:"version" help:"Print the version." env:"-" hidden:""`

	Completion CompletionCommand `cmd:"" group:"About the program:" help:"Print a script for shell completion." example:"completion bash"`
	Manual     ManualCommand     `cmd:"" group:"About the program:" help:"Print the man page." example:"manual"`
	Version    VersionCommand    `cmd:"" group:"About the program:" help:"Print the version, and the commit that it was built from." example:"version --json"`
}

// CompletionCommand prints what makes a shell complete the words of a command line.
type CompletionCommand struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"bash, zsh or fish."`
}

// Run prints the script.
func (c *CompletionCommand) Run(ctx *kong.Context) error {
	return (&kongcompletion.Completion{Shell: c.Shell, Code: true}).Run(ctx)
}

// Main parses the command line of a program, and runs the command.
func Main(name, description string, args any) {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	context.AfterFunc(ctx, stop) // a second signal ends the program at once
	uuid.EnableRandPool()        // no id is a secret
	parser, err := NewParser(
		name, description, args, kong.BindTo(ctx, (*context.Context)(nil)), kong.Resolvers(&ConfigFile{}),
	)
	if err != nil {
		panic(err) // a mistake in the flags, which every test would find
	}
	kongcompletion.Register(parser) // ends the program if a shell asks for completions
	given := os.Args[1:]
	if len(given) == 0 {
		given = []string{"--help"}
	} else if given[0] == "help" {
		given = append(given[1:], "--help")
	}
	selected, err := parser.Parse(given)
	if err == nil {
		err = cmp.Or(RefuseSecrets(selected), RefuseNumbers(selected))
	}
	if err == nil {
		err = selected.Run()
	}
	if err != nil {
		os.Exit(tell(os.Stderr, name, err))
	}
}

// wrongUsage is the exit status for a command line that is wrong.
const wrongUsage = 80

// tell says what is wrong, and returns the exit status.
func tell(to io.Writer, name string, err error) int {
	_, _ = fmt.Fprintf(to, "%s: %s\n", name, Words(err)) // there is no other place to say it
	var usage *kong.ParseError
	if !errors.As(err, &usage) {
		return 1
	}
	if command := usage.Context.Selected(); command != nil {
		name = command.FullPath()
	}
	_, _ = fmt.Fprintf(to, "%s --help shows what it takes\n", name)
	return wrongUsage
}

// NewParser returns what reads the command line. A program with options of its own for
// that has a method Options.
func NewParser(name, description string, args any, options ...kong.Option) (*kong.Kong, error) {
	if own, has := args.(interface{ Options() []kong.Option }); has {
		options = append(options, own.Options()...)
	}
	return kong.New(args, append(options,
		kong.Name(name), kong.Description(description),
		kong.Help(printHelp), kong.PostBuild(addExamples), kong.DefaultEnvars("ALLOT"),
		kong.Vars{"version": name + " " + Version()},
	)...)
}
