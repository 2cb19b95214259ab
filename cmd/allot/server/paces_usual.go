//go:build !allot_paces

package server

// paceFlags are there in the programs of tests alone.
type paceFlags struct{}

func (paceFlags) paces() paces { return usual }
