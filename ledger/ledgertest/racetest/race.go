//go:build race

package racetest

import (
	"flag"

	_ "pgregory.net/rapid" // whose flag it is
)

func init() {
	if err := flag.Set("rapid.checks", "10"); err != nil {
		panic(err)
	}
}
