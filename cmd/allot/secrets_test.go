package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"github.com/allot-project/allot/cmd/internal/cli"
	"github.com/allot-project/allot/cmd/internal/launchtest"
	"github.com/allot-project/allot/ledger/ledgertest"
)

// TestFlags: no flag of any command takes a secret from the command line, or a number that
// it cannot mean.
func TestFlags(t *testing.T) {
	t.Parallel()
	launchtest.CheckFlags(t, name, description, &program{})
}

// TestSecretsRefused: the whole command line is looked at, and what the
// environment gives is taken.
func TestSecretsRefused(t *testing.T) {
	for name, row := range map[string]struct {
		args []string
		want string // "": taken
	}{
		"token":              {[]string{"get", "consumer", "x", "--token", "hunter2"}, "ALLOT_TOKEN"},
		"the default":        {[]string{"get", "consumer", "x", "--token", "admin"}, ""},
		"URL":                {[]string{"serve", "--nats-url", "nats://me:hunter2@example"}, "ALLOT_NATS_URL"},
		"a name is none":     {[]string{"serve", "--nats-url", "nats://me@example"}, ""},
		"in the environment": {[]string{"serve"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("ALLOT_NATS_URL", "nats://me:hunter2@example")
			parser, err := cli.NewParser(name, description, &program{})
			ledgertest.OK(t, err)
			parsed, err := parser.Parse(row.args)
			ledgertest.OK(t, err)
			err = cli.RefuseSecrets(parsed)
			switch {
			case row.want == "" && err != nil:
				t.Error(err)
			case row.want != "" && (err == nil || !strings.Contains(err.Error(), row.want)):
				t.Errorf("%v; want a refusal that names %s", err, row.want)
			case err != nil && strings.Contains(err.Error(), "hunter2"):
				t.Errorf("the refusal repeats the secret: %v", err)
			}
		})
	}
}

// TestConfig: a flag overrides the environment, which overrides the file.
func TestConfig(t *testing.T) {
	file := filepath.Join(t.TempDir(), "allot.yaml")
	launchtest.Write(t, file, "data: from-file\ncors-allowed-origin: [http://a.example, http://b.example]\n")
	t.Setenv("ALLOT_CONFIG", file)
	t.Setenv("ALLOT_DATA", "from-environment")
	for want, flags := range map[string][]string{"from-flag": {"--data", "from-flag"}, "from-environment": nil} {
		var p program
		parser, err := cli.NewParser(name, description, &p, kong.Resolvers(&cli.ConfigFile{}))
		ledgertest.OK(t, err)
		_, err = parser.Parse(append([]string{"serve"}, flags...))
		if got := p.Serve; err != nil || filepath.Base(got.Data) != want || len(got.CORSAllowedOrigin) != 2 {
			t.Errorf("%s: %v, %+v", want, err, got)
		}
	}
}
