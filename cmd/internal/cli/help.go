package cli

import "github.com/alecthomas/kong"

// helpAll is the flag that shows every flag of a command.
type helpAll bool

// IgnoreDefault implements kong.IgnoreDefault.
func (helpAll) IgnoreDefault() {}

// BeforeReset prints the help, as kong's own --help does.
func (helpAll) BeforeReset(ctx *kong.Context) error {
	if err := kong.DefaultHelpPrinter(kong.HelpOptions{ValueFormatter: kong.DefaultHelpValueFormatter}, ctx); err != nil {
		return err
	}
	ctx.Exit(0)
	return nil
}

// printHelp leaves out what few need, where a command has flags that say that they are usual.
func printHelp(options kong.HelpOptions, ctx *kong.Context) error {
	if command := ctx.Selected(); command != nil {
		hideUnusual(command.Flags)
	}
	return kong.DefaultHelpPrinter(options, ctx)
}

func hideUnusual(flags []*kong.Flag) {
	some := false
	for _, flag := range flags {
		some = some || flag.Tag.Has("usual")
	}
	for _, flag := range flags {
		flag.Hidden = flag.Hidden || some && !flag.Tag.Has("usual")
	}
}
