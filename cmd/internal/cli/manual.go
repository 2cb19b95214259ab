package cli

import (
	"fmt"
	"os"
	"time"

	"github.com/alecthomas/kong"
	mangokong "github.com/alecthomas/mango-kong"
	"github.com/muesli/mango"
	"github.com/muesli/roff"
)

// ManualCommand prints the program's man page.
type ManualCommand struct{}

// Run prints the man page.
func (ManualCommand) Run(k *kong.Kong) error {
	_, err := fmt.Fprintln(os.Stdout, mangokong.NewManPage(1, k.Model).Build(dated{roff.NewDocument(), thisBuild().Date}))
	return err
}

// dated is a man page with the date of the source, so that the same source always
// gives the same page.
type dated struct {
	mango.Builder
	date *time.Time // nil: unknown
}

// Heading implements mango.Builder.
func (d dated) Heading(section uint, title, description string, _ time.Time) {
	var date time.Time
	if d.date != nil {
		date = *d.date
	}
	d.Builder.Heading(section, title, description, date)
}
