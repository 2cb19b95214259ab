package client_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/commandstest"
	"github.com/allot-project/allot/commands/encoding"
)

// TestEncodingsAgree: a command has the same fingerprint in both encodings, so a
// retry may use the other one.
func TestEncodingsAgree(t *testing.T) {
	t.Parallel()
	seen := make(map[string]bool)
	rapid.Check(t, func(rt *rapid.T) {
		for range 50 {
			c := commandstest.RandomCommand(rt)
			if _, known := commands.Registry[commands.NameOf(c)]; known {
				seen[commands.NameOf(c)] = true
				checkEncodings(rt, c)
			}
		}
	})
	for name := range commands.Registry {
		if !seen[name] {
			t.Errorf("%s was never drawn", name)
		}
	}
}

func checkEncodings(rt *rapid.T, c commands.Command) {
	rt.Helper()
	want, err := commands.FingerprintOf(c)
	if err != nil {
		rt.Fatal(err)
	}
	for _, contentType := range []string{encoding.TypeJSON, encoding.TypeMsgpack} {
		data, err := encoding.Encode(c, contentType)
		if err != nil {
			rt.Fatalf("%s as %s: %v", commands.NameOf(c), contentType, err)
		}
		read := commands.Registry[commands.NameOf(c)]()
		if err := encoding.Decode(data, contentType, read); err != nil {
			rt.Fatalf("%s from %s: %v", commands.NameOf(c), contentType, err)
		}
		if got, err := commands.FingerprintOf(read); err != nil || got != want {
			rt.Errorf("%s is another one from %s: %+v, not %+v, %v", commands.NameOf(c), contentType, read, c, err)
		}
	}
}
