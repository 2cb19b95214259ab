package operate

import (
	"context"
	"errors"
	"fmt"

	"github.com/allot-project/allot/cmd/internal/datafolder"
)

// Rejoin is "allot cluster rejoin": it lets a server of a cluster take part again whose log is lost.
type Rejoin struct {
	Data string `help:"Data folder." default:"data" type:"path"`
}

// Run refuses a folder that holds a log.
func (c *Rejoin) Run(context.Context) (err error) {
	d, err := datafolder.Open(c.Data)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	found, err := d.Has(datafolder.Log + "/jetstream")
	if err != nil {
		return err
	}
	if found {
		return fmt.Errorf("%s holds a log, which is not lost: nothing was changed", d.Path(datafolder.Log))
	}
	if err := d.MayRejoin(); err != nil {
		return err
	}
	fmt.Printf("the server of %s may take part again: start it as before, and the others fill its log\n", c.Data)
	return nil
}
