package main

import (
	"context"
	"testing"

	"github.com/alecthomas/kong"

	"github.com/allot-project/allot/cmd/internal/cli"
)

// TestNumbersFromAnywhere: the rule holds for the environment and for the file, too.
func TestNumbersFromAnywhere(t *testing.T) {
	for _, given := range []struct {
		what string
		args []string
		env  string
		file map[string]any
	}{
		{"command line", []string{"--cluster-lease=-3s"}, "", nil},
		{"environment", nil, "-3s", nil},
		{"file", nil, "", map[string]any{"cluster-lease": "-3s"}},
	} {
		t.Run(given.what, func(t *testing.T) {
			if given.env != "" {
				t.Setenv("ALLOT_CLUSTER_LEASE", given.env)
			}
			parser, err := cli.NewParser(name, description, &program{}, kong.BindTo(t.Context(), (*context.Context)(nil)),
				kong.Resolvers(cli.ConfigOf(given.file)))
			if err != nil {
				t.Fatal(err)
			}
			parsed, err := parser.Parse(append([]string{"serve"}, given.args...))
			if err != nil {
				t.Fatal(err)
			}
			if err := cli.RefuseNumbers(parsed); err == nil || err.Error() != "--cluster-lease -3s: it must be 1s or more" {
				t.Errorf("got %v", err)
			}
		})
	}
}
