//go:build !allot_paces

package main

// paceFlags are there in the programs of tests alone.
type paceFlags struct{}

func (paceFlags) paces() paces { return usual }
