package processes_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/commandstest"
	"github.com/allot-project/allot/ledger/memlog"
)

// BenchmarkAllocateBesideWaiting allocates what no claim waits for, and releases it
// again or not, with more and more claims that wait.
func BenchmarkAllocateBesideWaiting(b *testing.B) {
	for _, releases := range []bool{false, true} {
		for _, waiting := range []int{0, 100, commands.MaxWaitingClaims} {
			b.Run(fmt.Sprint("releases=", releases, "/waiting=", waiting), func(b *testing.B) {
				benchmarkBesideWaiting(b, waiting, releases)
			})
		}
	}
}

func benchmarkBesideWaiting(b *testing.B, waiting int, releases bool) {
	l := startWaiting(b, b.TempDir(), &memlog.Log{}, time.Now, false)
	host := l.Provider(b, "host", commands.Inventory{Class: "MEMORY_MB", Total: 1 << 30})
	for i := range waiting {
		// No two are alike: what one is told says nothing of the others.
		c := waits(fmt.Sprint("p", i%(2*commands.MaxWaitingClaims/commands.MaxWaitingOfProject)), int64(1+i), 3600, 0)
		l.claim(b, c)
	}
	carryOut := func(c commands.Command) {
		o, err := l.Writer.Submit(context.Background(), commands.Submission{ID: commandstest.NewID(), Actor: "test", Command: c})
		if err != nil || o.Rejection != nil {
			b.Fatal(o.Rejection, err)
		}
	}
	for b.Loop() {
		consumer := commandstest.NewID()
		carryOut(commandstest.Allocate(consumer, host, "MEMORY_MB", 1))
		if releases {
			carryOut(&commands.ReleaseConsumer{Consumer: consumer})
		}
	}
}
