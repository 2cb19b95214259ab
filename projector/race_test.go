//go:build race

package projector_test

import (
	"flag"

	_ "pgregory.net/rapid" // whose flag it is
)

// init lets the properties of read models hold in fewer random worlds, see
// ledgertest.Raced.
func init() {
	if err := flag.Set("rapid.checks", "25"); err != nil {
		panic(err)
	}
}
