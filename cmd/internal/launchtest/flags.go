package launchtest

import (
	"context"
	"errors"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"

	"github.com/allot-project/allot/cmd/internal/cli"
	"github.com/allot-project/allot/ledger/ledgertest"
)

// CheckFlags requires that no flag of any command of a program takes a secret from the command
// line, or a number that it cannot mean, that the file of --config takes every flag that can
// hold a secret, and that each command has an example that can be parsed.
func CheckFlags(t *testing.T, name, description string, args any) {
	t.Helper()
	parser, err := cli.NewParser(name, description, args, kong.BindTo(t.Context(), (*context.Context)(nil)))
	ledgertest.OK(t, err)
	checked := 0
	for _, command := range parser.Model.Leaves(false) {
		checkExample(t, parser, command)
		for _, flag := range slices.Concat(command.AllFlags(false)...) {
			path := command.FullPath()
			checkSecret(t, path, flag)
			if cli.IsSecret(flag, secretURL) {
				checked++
				if err := cli.ConfigOf(map[string]any{flag.Name: "x"}).Validate(parser.Model); err != nil {
					t.Errorf("%s --%s: %v", path, flag.Name, err)
				}
			}
			checkNumbers(t, path, flag)
		}
	}
	if checked < 20 {
		t.Errorf("only %d flags take URLs with secrets", checked)
	}
}

// checkExample parses a command's example. The files that it names need not be there.
func checkExample(t *testing.T, parser *kong.Kong, command *kong.Node) {
	t.Helper()
	_, example, _ := strings.Cut(command.Detail, parser.Model.Name+" ")
	parts := strings.Split(example, "'") // what is between quotes is one argument
	args := strings.Fields(parts[0])
	if len(parts) > 1 {
		args = append(args, parts[1])
	}
	trace, err := kong.Trace(parser, args)
	if err != nil || trace.Selected() != command ||
		trace.Error != nil && !strings.Contains(trace.Error.Error(), "no such file") {
		t.Errorf("%s: its example is %q: %v", command.FullPath(), example, errors.Join(err, trace.Error))
	}
}

const secretURL = "nats://me:hunter2@example:4222"

var (
	secretName = regexp.MustCompile(`password|secret|token|passphrase|credential`)
	fileName   = regexp.MustCompile(`file|creds|-id$`)
)

// checkSecret: a flag takes no secret, and can be set in the environment.
func checkSecret(t *testing.T, path string, flag *kong.Flag) {
	t.Helper()
	if flag.Target.Kind() != reflect.String && flag.Target.Kind() != reflect.Slice {
		return
	}
	values := []string{secretURL}
	if secretName.MatchString(flag.Name) && !fileName.MatchString(flag.Name) {
		if !flag.Tag.Has("secret") {
			t.Errorf("%s --%s seems to be secret, and has no tag that says so", path, flag.Name)
		}
		values = append(values, "hunter2")
	}
	if len(flag.Envs) == 0 && flag.Name != "help" {
		t.Errorf("%s --%s cannot be set in the environment", path, flag.Name)
	}
	for _, value := range values {
		if !cli.IsSecret(flag, value) {
			t.Errorf("%s --%s takes %s", path, flag.Name, value)
		}
	}
}

// checkNumbers: a flag takes no number that it cannot mean. The refusal names the flag. Where
// 0 is taken, the help says what it means.
func checkNumbers(t *testing.T, path string, flag *kong.Flag) {
	t.Helper()
	target := flag.Target.Type()
	if target.Kind() == reflect.Pointer {
		target = target.Elem()
	}
	value := reflect.New(target).Elem()
	switch {
	case target.PkgPath() != "" && target != reflect.TypeFor[time.Duration]():
		return // its type has rules of its own
	case value.CanInt():
		value.SetInt(-1)
	case value.CanFloat():
		value.SetFloat(-1)
	default:
		return // the parser takes no negative ones
	}
	if err := cli.CheckNumber(flag, value); err == nil || !strings.Contains(err.Error(), "--"+flag.Name) {
		t.Errorf("%s --%s takes %v: %v", path, flag.Name, value, err)
	}
	value.SetZero()
	if err := cli.CheckNumber(flag, value); err != nil {
		return
	}
	if !strings.Contains(flag.Help, "0:") && flag.Default != "0" && flag.Default != "" {
		t.Errorf("%s --%s takes 0, and does not say what that means", path, flag.Name)
	}
}
