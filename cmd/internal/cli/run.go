package cli

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

// Common is what each program's command line has. Every flag can also be set as ALLOT_NAME
// in the environment or as "name: value" in the file that --config names.
type Common struct {
	Config  string  `help:"YAML file with flags as keys. The environment and the command line override it." env:"ALLOT_CONFIG" type:"path"`
	HelpAll helpAll `help:"Show context-sensitive help, with all flags."`

	Completion kongcompletion.Completion `cmd:"" help:"Print a script for shell completion."`
	Manual     ManualCommand             `cmd:"" help:"Print the man page."`
	Version    VersionCommand            `cmd:"" help:"Print the version, and the commit that it was built from."`
}

// Main parses the command line of a program, and runs the command.
func Main(name, description string, args any) {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	uuid.EnableRandPool() // no id is a secret
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
	}
	selected, err := parser.Parse(given)
	parser.FatalIfErrorf(err)
	if err = cmp.Or(RefuseSecrets(selected), RefuseNumbers(selected)); err == nil {
		err = selected.Run()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, name+":", err)
		stop()
		os.Exit(1)
	}
}

// NewParser returns what reads the command line. A program with options of its own for
// that has a method Options.
func NewParser(name, description string, args any, options ...kong.Option) (*kong.Kong, error) {
	if own, has := args.(interface{ Options() []kong.Option }); has {
		options = append(options, own.Options()...)
	}
	return kong.New(args, append(options,
		kong.Name(name), kong.Description(description),
		kong.Help(printHelp),
		kong.ShortUsageOnError(), // some commands have many flags
		kong.DefaultEnvars("ALLOT"),
	)...)
}
