package main

import (
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

// walkFlags calls a function for each flag of each command.
func walkFlags(node *kong.Node, do func(path string, flag *kong.Flag)) {
	for _, flag := range node.Flags {
		do(node.FullPath(), flag)
	}
	for _, child := range node.Children {
		walkFlags(child, do)
	}
}

// TestSecretFlags: no flag of any command takes a secret from the command line,
// and the refusal says how to give it, and not what was given.
func TestSecretFlags(t *testing.T) {
	secret := regexp.MustCompile(`password|secret|token|passphrase|credential`)
	file := regexp.MustCompile(`file|creds|-id$`)
	parser, err := newParser(&program{})
	if err != nil {
		t.Fatal(err)
	}
	asked, urls := 0, 0
	walkFlags(parser.Model.Node, func(path string, flag *kong.Flag) {
		if flag.Target.Kind() != reflect.String && flag.Target.Kind() != reflect.Slice {
			return
		}
		values := []string{"nats://me:hunter2@example:4222"}
		if secret.MatchString(flag.Name) && !file.MatchString(flag.Name) {
			if !flag.Tag.Has("secret") {
				t.Errorf("%s --%s seems to be secret, and has no tag that says so", path, flag.Name)
			}
			values = append(values, "hunter2")
		}
		if len(flag.Envs) == 0 && flag.Name != "help" {
			t.Errorf("%s --%s cannot be set in the environment", path, flag.Name)
		}
		for _, value := range values {
			if flag.Tag.Has("secret") {
				asked++
			}
			if !isSecret(flag, value) {
				t.Errorf("%s --%s takes %s", path, flag.Name, value)
			}
			urls++
		}
	})
	if asked < 10 || urls < 100 {
		t.Errorf("only %d values of secret flags, and %d URLs", asked, urls)
	}
}

// TestSecretsInTheFile: the file of --config takes every flag that can hold a secret,
// as the refusal says, also those of commands below others.
func TestSecretsInTheFile(t *testing.T) {
	parser, err := newParser(&program{})
	if err != nil {
		t.Fatal(err)
	}
	nested := 0
	walkFlags(parser.Model.Node, func(path string, flag *kong.Flag) {
		if !isSecret(flag, "nats://me:hunter2@example:4222") {
			return
		}
		if strings.Count(path, " ") > 1 {
			nested++
		}
		file := &configFile{values: map[string]any{flag.Name: "x"}, loaded: true}
		if err := file.Validate(parser.Model); err != nil {
			t.Errorf("%s --%s: %v", path, flag.Name, err)
		}
	})
	if nested < 5 {
		t.Errorf("only %d flags of commands below others", nested)
	}
	if err := (&configFile{values: map[string]any{"nonsense": "x"}, loaded: true}).Validate(parser.Model); err == nil {
		t.Error("the file takes keys that are no flags")
	}
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
		"password":           {[]string{"serve", "--keystone-password", "hunter2"}, "ALLOT_KEYSTONE_PASSWORD"},
		"URL":                {[]string{"serve", "--nats-url", "nats://me:hunter2@example"}, "ALLOT_NATS_URL"},
		"one of several":     {[]string{"serve", "--nats-probe", "nats://a,nats://me:hunter2@b"}, "ALLOT_NATS_PROBE"},
		"in the query":       {[]string{"import", "placement", "--from", "postgresql://h/db?user=u&password=hunter2"}, "ALLOT_PLACEMENT"},
		"not escaped":        {[]string{"import", "placement", "--from", "mysql://me:%hunter2@h/db"}, "ALLOT_PLACEMENT"},
		"of the comparison":  {[]string{"compare", "placement", "--with", "mysql://me:hunter2@h/db"}, "ALLOT_PLACEMENT"},
		"a name is none":     {[]string{"serve", "--nats-url", "nats://me@example"}, ""},
		"in the environment": {[]string{"serve"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("ALLOT_KEYSTONE_APPLICATION_CREDENTIAL_SECRET", "hunter2")
			parser, err := newParser(&program{})
			if err != nil {
				t.Fatal(err)
			}
			parsed, err := parser.Parse(row.args)
			if err != nil {
				t.Fatal(err)
			}
			err = refuseSecrets(parsed)
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
