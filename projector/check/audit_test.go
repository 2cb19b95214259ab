package check_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/commandstest"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/memlog"
	"github.com/allot-project/allot/projector"
	"github.com/allot-project/allot/projector/candidates"
	"github.com/allot-project/allot/projector/check"
)

// filled is a ledger with some history and snapshots on the way.
func filled(t *testing.T) *commandstest.Ledger {
	l := commandstest.Start(t, t.TempDir(), &memlog.Log{})
	random := rand.New(rand.NewPCG(1, 2))
	provider := l.Provider(t, "p", commands.Inventory{Class: "VCPU", Total: 10_000})
	var held []ledger.UUID
	for i := range 300 {
		if len(held) > 0 && random.IntN(3) == 0 {
			l.Accept(t, &commands.ReleaseConsumer{Consumer: held[0]})
			held = held[1:]
			continue
		}
		held = append(held, commandstest.NewID())
		l.Accept(t, commandstest.Allocate(held[len(held)-1], provider, "VCPU", 1+random.Int64N(9)))
		if i%100 == 50 {
			save(t, l)
		}
	}
	return l
}

func save(t *testing.T, l *commandstest.Ledger) {
	t.Helper()
	state, err := l.Writer.Fork(t.Context())
	if err == nil {
		err = l.Snapshots.Save(state)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func config(l *commandstest.Ledger) check.AuditorConfig {
	return check.AuditorConfig{
		Log: l.Log, Snapshots: l.Snapshots, Views: l.Views, Fork: l.Writer.Fork, Every: time.Millisecond,
		Now: time.Now, Logger: slog.New(slog.DiscardHandler),
	}
}

// TestGoodLedger: an audit of a good ledger finds nothing, whatever goes on
// meanwhile.
func TestGoodLedger(t *testing.T) {
	l := filled(t)
	a := check.StartAuditor(config(l))
	defer a.Stop()
	seen := make(map[uint64]bool)
	for deadline := time.Now().Add(5 * time.Minute); len(seen) < 4; {
		if time.Now().After(deadline) {
			t.Fatalf("%d audits", len(seen))
		}
		l.Accept(
			t,
			&commands.CreateTrait{
				Name: "CUSTOM_" + strings.ReplaceAll(strings.ToUpper(commandstest.NewID().String()), "-", "_"),
			},
		)
		if r := a.Last(); r != nil {
			if !r.Good() || r.From == 0 || r.Records == 0 {
				t.Fatalf("%+v", r)
			}
			seen[r.Sequence] = true
		}
	}
}

// forged is a log whose contents were changed.
type forged struct {
	ledger.Log
	sequence uint64
}

func (f *forged) Read(ctx context.Context, from, to uint64, yield func(ledger.Entry) error) error {
	return f.Log.Read(ctx, from, to, func(e ledger.Entry) error {
		if e.Sequence == f.sequence {
			e.Data = append([]byte(nil), e.Data...)
			e.Data[len(e.Data)-2] ^= 1
		}
		return yield(e)
	})
}

// TestDifferences: an audit finds a State, read models or a log that differ.
func TestDifferences(t *testing.T) {
	l := filled(t)
	last := l.Views.View().Sequence()
	other := filled(t)
	for name, change := range map[string]func(*check.AuditorConfig){
		"a commit has changed": func(c *check.AuditorConfig) { c.Log = &forged{l.Log, last - 3} },
		"the writer's State is another": func(c *check.AuditorConfig) {
			c.Fork = func(ctx context.Context) (*ledger.State, error) {
				state, err := l.Writer.Fork(ctx)
				if err != nil {
					return nil, err
				}
				head := state.Head()
				state.Begin()
				err = state.Apply(head.Sequence, &ledger.Record{Time: state.LastTime(), Events: []ledger.Event{ledger.TraitCreated{Name: "CUSTOM_GHOST"}}})
				state.Advance(head)
				return state, err
			}
		},
		"the read models are of another log": func(c *check.AuditorConfig) { c.Views = other.Views },
		"the index is another": func(c *check.AuditorConfig) {
			c.World = func() (*candidates.World, projector.View) {
				world, _ := other.Views.World()
				return world, l.Views.View()
			}
		},
		"the snapshots are of another log": func(c *check.AuditorConfig) { c.Snapshots = other.Snapshots },
	} {
		cfg := config(l)
		change(&cfg)
		r, err := check.Audit(t.Context(), cfg)
		if err != nil || r.Good() {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
		t.Log(fmt.Sprint(name, ": ", r.Fault))
	}
	if r, err := check.Audit(t.Context(), config(l)); err != nil || !r.Good() || r.Sequence != last {
		t.Errorf("%+v, %v", r, err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if r, err := check.Audit(ended, config(l)); err == nil {
		t.Errorf("after the end: %+v", r)
	}
}
