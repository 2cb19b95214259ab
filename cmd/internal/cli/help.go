package cli

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"
	"github.com/muesli/roff"
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

// ManualCommand prints the program's man page.
type ManualCommand struct{}

// Run prints the man page, with the date of the source, so that the same source always gives the same page.
func (ManualCommand) Run(k *kong.Kong) error {
	var date time.Time
	if known := thisBuild().Date; known != nil {
		date = *known
	}
	page, name := manual{roff.NewDocument()}, k.Model.Name
	page.Heading(1, name, "Allot", date)
	page.section("Name", name+" - "+k.Model.Help)
	page.section("Synopsis", name+k.Model.Summary())
	page.section("Description", "The commands, each with an example. "+name+" COMMAND --help shows the flags of one, and --help-all those "+
		"that few need. Each flag can also be set as ALLOT_NAME in the environment, or as name: value in the file of --config. "+
		"The command line overrides the environment, and that the file.")
	group := ""
	for _, command := range k.Model.Leaves(true) {
		if of := command.ClosestGroup(); of != nil && of.Title != group {
			group = of.Title
			page.section(strings.TrimSuffix(group, ":"), "")
		}
		page.item(strings.TrimSuffix(name+" "+command.Summary(), " [flags]"), strings.Join(strings.Fields(command.Help+" "+command.Detail), " "))
	}
	for _, command := range k.Model.Leaves(true) {
		if hideUnusual(command.Flags) {
			page.section("Usual flags of "+command.FullPath(), "")
			for _, flag := range command.Flags {
				if !flag.Hidden {
					page.item(flag.Summary(), flag.Help)
				}
			}
		}
	}
	for _, part := range filesAndExits {
		if part[1] == "" {
			page.section(part[0], "")
		} else {
			page.item(part[0], part[1])
		}
	}
	_, err := fmt.Fprintln(os.Stdout, page)
	return err
}

// filesAndExits is what a man page says of files, and of how a program ends.
var filesAndExits = [][2]string{
	{"Files", ""},
	{"/etc/allot/allot.yaml", "Flags of the server that the package starts."},
	{"/var/lib/allot", "Its data folder: log, read models, snapshots and checkpoints."},
	{"/etc/openstack/clouds.yaml", "Account of the server in Keystone, by --keystone-cloud."},
	{"Exit status", ""},
	{"0", "It is done."},
	{"1", "It could not be done, nothing was found, or a comparison found differences."},
	{fmt.Sprint(wrongUsage), "The command line, or the file of --config, is wrong."},
}

// manual is a man page.
type manual struct{ *roff.Document }

func (m manual) section(title, text string) {
	m.Section(title)
	m.Text(text)
}

func (m manual) item(term, text string) {
	m.TaggedParagraph(-1)
	m.TextBold(term)
	m.EndSection()
	m.Text(text)
}
