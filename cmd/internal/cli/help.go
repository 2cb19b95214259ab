package cli

import (
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// helpAll is the flag that shows every flag of a command.
type helpAll bool

// IgnoreDefault implements kong.IgnoreDefault.
func (helpAll) IgnoreDefault() {}

// BeforeReset prints the help, as kong's own --help does.
func (helpAll) BeforeReset(ctx *kong.Context) error {
	if err := kong.DefaultHelpPrinter(helpOptions, ctx); err != nil {
		return err
	}
	ctx.Exit(0)
	return nil
}

// helpOptions leave out the names in the environment that follow from those of the flags.
var helpOptions = kong.HelpOptions{
	Compact: true, NoExpandSubcommands: true, ValueFormatter: func(value *kong.Value) string {
		if slices.ContainsFunc(value.Tag.Envs, func(name string) bool { return !strings.HasPrefix(name, "ALLOT_") }) {
			return kong.DefaultHelpValueFormatter(value)
		}
		return value.Help
	},
}

// printHelp leaves out what few need, where a command has flags that say that they are usual.
func printHelp(_ kong.HelpOptions, ctx *kong.Context) error {
	options := helpOptions
	if command := ctx.Selected(); command == nil {
		options.FlagsLast = true
	} else if hideUnusual(command.Flags) {
		command.Help += " These are the usual flags; --help-all shows all."
	}
	return kong.DefaultHelpPrinter(options, ctx)
}

func hideUnusual(flags []*kong.Flag) (some bool) {
	some = slices.ContainsFunc(flags, usual)
	for _, flag := range flags {
		flag.Hidden = flag.Hidden || some && !usual(flag)
	}
	return some
}

func usual(flag *kong.Flag) bool { return flag.Tag.Has("usual") }

// addExamples adds the examples in the tags of commands to their help.
func addExamples(parser *kong.Kong) error {
	for _, command := range parser.Model.Leaves(false) {
		if example := command.Tag.Get("example"); example != "" {
			command.Detail = "Example:\n\n  " + parser.Model.Name + " " + example
		}
	}
	return nil
}
