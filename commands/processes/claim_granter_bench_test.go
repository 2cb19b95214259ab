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

// BenchmarkAllocateBesideWaiting allocates what no claim waits for, with more and more
// claims that wait.
func BenchmarkAllocateBesideWaiting(b *testing.B) {
	for _, waiting := range []int{0, 100, commands.MaxWaitingClaims} {
		b.Run(fmt.Sprint("waiting=", waiting), func(b *testing.B) {
			l := startWaiting(b, b.TempDir(), &memlog.Log{}, time.Now, false)
			host := l.Provider(b, "host", commands.Inventory{Class: "MEMORY_MB", Total: 1 << 30})
			for i := range waiting {
				l.claim(b, waits(fmt.Sprint("p", i%(2*commands.MaxWaitingClaims/commands.MaxWaitingOfProject)), 1, 3600, 0))
			}
			for b.Loop() {
				o, err := l.Writer.Submit(context.Background(), commands.Submission{
					ID: commandstest.NewID(), Actor: "test", Command: commandstest.Allocate(commandstest.NewID(), host, "MEMORY_MB", 1),
				})
				if err != nil || o.Rejection != nil {
					b.Fatal(o.Rejection, err)
				}
			}
		})
	}
}
