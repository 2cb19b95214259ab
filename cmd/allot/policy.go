package main

import (
	"fmt"

	"github.com/allot-project/allot/api/policy"
)

// policyCommand is "allot policy": it prints a policy file to start from.
type policyCommand struct {
	Open bool `help:"Print rules that permit everything to everybody, for a server behind a proxy that decides."`
}

// Run prints every rule of the policy.
func (c *policyCommand) Run() error {
	for _, name := range policy.Names() {
		text := policy.Default(name)
		if c.Open {
			text = "@"
		}
		if _, err := fmt.Printf("%q: %q\n", name, text); err != nil {
			return err
		}
	}
	return nil
}
