package cli

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/kong"
)

// RefuseSecrets refuses secrets among the arguments of a command, which every user of the machine can read:
// values of flags with the tag "secret", unless they are the default, and URLs with a password in them.
func RefuseSecrets(parsed *kong.Context) error {
	for _, step := range parsed.Path {
		if step.Flag == nil || step.Resolved {
			continue
		}
		flag := step.Flag
		if !IsSecret(flag, parsed.FlagValue(flag)) {
			continue
		}
		return fmt.Errorf("--%s holds a secret, and every user of this machine can read the arguments of a command: give it as %s "+
			"in the environment, or as %q in the file of --config", flag.Name, strings.Join(flag.Envs, " or "), flag.Name+": ...")
	}
	return nil
}

// IsSecret reports whether a flag with a value holds a secret.
func IsSecret(flag *kong.Flag, value any) bool {
	if flag.Tag.Has("secret") {
		return fmt.Sprint(value) != flag.Default
	}
	list, isList := value.([]string)
	if !isList {
		list = []string{fmt.Sprint(value)}
	}
	return slices.ContainsFunc(list, hasPassword)
}

// hasPassword reports whether a URL holds a password. A URL that cannot be parsed
// often has one with characters that should be escaped.
func hasPassword(text string) bool {
	_, rest, isURL := strings.Cut(text, "://")
	if !isURL {
		return false
	}
	target, err := url.Parse(text)
	if err != nil {
		user, _, _ := strings.Cut(rest, "@")
		return strings.Contains(user, ":") && user != rest
	}
	_, has := target.User.Password()
	return has || target.Query().Has("password")
}

// RefuseNumbers refuses numbers and times that a flag cannot mean, wherever they come from: the command line,
// the environment, or the file of --config. A number is 0 or more, or at least what the flag's tag "least"
// says. Without this rule each part of the program would meet them, and some would take -1 for something.
func RefuseNumbers(parsed *kong.Context) error {
	for _, flag := range parsed.Flags() {
		if err := CheckNumber(flag, reflect.Indirect(reflect.ValueOf(parsed.FlagValue(flag)))); err != nil {
			return err
		}
	}
	return nil
}

// CheckNumber refuses a value that a flag cannot mean.
func CheckNumber(flag *kong.Flag, value reflect.Value) error {
	least := cmp.Or(flag.Tag.Get("least"), "0")
	tooSmall := false
	switch {
	case !value.IsValid(): // not given
	case value.Type() != reflect.TypeFor[time.Duration]() && value.Type().PkgPath() != "": // its type has rules of its own
	case value.Type() == reflect.TypeFor[time.Duration]():
		bound, err := time.ParseDuration(least)
		if err != nil {
			panic(err) // a mistake in the tag, which every test would find
		}
		tooSmall = time.Duration(value.Int()) < bound
	case value.CanInt():
		tooSmall = value.Int() < number(least)
	case value.CanUint():
		tooSmall = value.Uint() < uint64(number(least))
	case value.CanFloat():
		tooSmall = !(value.Float() >= float64(number(least))) // also what is not a number
	}
	if tooSmall {
		return fmt.Errorf("--%s %v: it must be %s or more", flag.Name, value, least)
	}
	return nil
}

func number(text string) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		panic(err) // a mistake in the tag, which every test would find
	}
	return n
}

// Moment is a sequence or an RFC 3339 time; empty: the flag was not given.
type Moment string

// UnmarshalText takes any text but none: a script whose variable is unset does not mean the present.
func (m *Moment) UnmarshalText(text []byte) error {
	if *m = Moment(text); *m == "" {
		return errors.New("it is empty: leave it out, or name a moment")
	}
	return nil
}
