package cli

import (
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/alecthomas/kong"
	"github.com/muesli/roff"
)

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
