package cli

import (
	"cmp"
	"fmt"
	"reflect"
	"strconv"
	"time"

	"github.com/alecthomas/kong"
)

// RefuseNumbers refuses numbers and times that a flag cannot mean, wherever they
// come from: the command line, the environment, or the file of --config. A number
// is 0 or more, or at least what the flag's tag "least" says. Without this rule
// each part of the program would meet them, and some would take -1 for something.
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
