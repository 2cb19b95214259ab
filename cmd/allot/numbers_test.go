package main

import (
	"context"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"
)

// TestNumberFlags: no flag of any command takes a number that it cannot mean. The
// refusal names the flag. Where 0 is taken, the help says what it means.
func TestNumberFlags(t *testing.T) {
	parser, err := newParser(&program{}, kong.BindTo(t.Context(), (*context.Context)(nil)))
	if err != nil {
		t.Fatal(err)
	}
	refused, zeros := 0, 0
	walkFlags(parser.Model.Node, func(path string, flag *kong.Flag) {
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
		case value.CanUint():
			return // the parser takes no negative ones
		default:
			return
		}
		refused++
		if err := checkNumber(flag, value); err == nil || !strings.Contains(err.Error(), "--"+flag.Name) {
			t.Errorf("%s --%s takes %v: %v", path, flag.Name, value, err)
		}
		value.SetZero()
		if err := checkNumber(flag, value); err != nil {
			return
		}
		zeros++
		if !strings.Contains(flag.Help, "0:") && flag.Default != "0" && flag.Default != "" {
			t.Errorf("%s --%s takes 0, and does not say what that means", path, flag.Name)
		}
	})
	if refused < 40 || zeros < 10 {
		t.Errorf("only %d flags with numbers, of which %d take 0", refused, zeros)
	}
}

// TestNumbersFromAnywhere: the rule holds for the environment and for the file, too.
func TestNumbersFromAnywhere(t *testing.T) {
	for _, given := range []struct {
		what string
		args []string
		env  string
		file map[string]any
	}{
		{"command line", []string{"--watch-every=-3s"}, "", nil},
		{"environment", nil, "-3s", nil},
		{"file", nil, "", map[string]any{"watch-every": "-3s"}},
	} {
		t.Run(given.what, func(t *testing.T) {
			if given.env != "" {
				t.Setenv("ALLOT_WATCH_EVERY", given.env)
			}
			parser, err := newParser(&program{}, kong.BindTo(t.Context(), (*context.Context)(nil)),
				kong.Resolvers(&configFile{values: given.file, loaded: true}))
			if err != nil {
				t.Fatal(err)
			}
			parsed, err := parser.Parse(append([]string{"serve"}, given.args...))
			if err != nil {
				t.Fatal(err)
			}
			if err := refuseNumbers(parsed); err == nil || err.Error() != "--watch-every -3s: it must be 10ms or more" {
				t.Errorf("got %v", err)
			}
		})
	}
}
