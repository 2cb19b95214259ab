package writer_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/commandstest"
	"github.com/allot-project/allot/commands/writer"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/chain"
	"github.com/allot-project/allot/ledger/ledgertest"
	"github.com/allot-project/allot/ledger/memlog"
	"github.com/allot-project/allot/projector"
)

// gated is a ledger on a log whose appends end one by one, when the test says so.
type gated struct {
	*commandstest.Ledger
	log     *overtaken
	release chan struct{}
	base    uint64 // commits that were there when it began
}

func startGated(t *testing.T, change func(*writer.Options)) *gated {
	release := make(chan struct{})
	g := &gated{log: &overtaken{t: t, Log: &memlog.Log{Gate: func() { <-release }}}, release: release}
	shut := g.open()
	g.Ledger = commandstest.StartWith(t, t.TempDir(), g.log, change)
	shut()
	t.Cleanup(func() { g.stop(t) })
	g.base = commandstest.Must(g.log.Last(t.Context()))
	return g
}

// open lets all appends end, until it is shut again.
func (g *gated) open() (shut func()) {
	quit, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case g.release <- struct{}{}:
			case <-quit:
				return
			}
		}
	}()
	return func() { close(quit); <-stopped }
}

// stop ends the ledger, whose last appends are still held up.
func (g *gated) stop(t *testing.T) {
	defer g.open()()
	g.Stop(t)
}

// begin starts commands and returns a channel with the addresses of their records.
func (g *gated) begin(t *testing.T, n int) <-chan ledger.Address {
	told := make(chan ledger.Address, n)
	for i := range n {
		random := commandstest.NewID()
		c := &commands.CreateTrait{Name: fmt.Sprintf("CUSTOM_%X_%d", random[:4], i)}
		g.Writer.Start(submitted(c), func(outcome commands.Outcome, err error) {
			if err != nil || outcome.Rejection != nil {
				t.Errorf("%+v, %v", outcome, err)
			}
			told <- outcome.Address
		})
	}
	return told
}

// appended waits until the log has this many more commits.
func (g *gated) appended(t *testing.T, more uint64) {
	t.Helper()
	want, last := g.base+more, uint64(0)
	ledgertest.WaitFor(t, "commits in the log", func() bool {
		last, _ = g.log.Last(context.Background()) // it has no errors
		return last >= want
	}, func() any { return last })
	if last != want {
		t.Fatalf("the log has %d commits, want %d", last, want)
	}
}

// full is how many commands end a commit.
const full = 2048

// TestRunsAhead: commands that come while a commit is on its way share the next one. Behind a full commit another one
// is sent before the first is durable, but no more than that; nothing is answered before its turn.
func TestRunsAhead(t *testing.T) {
	synctest.Test(t, runsAhead)
}

func runsAhead(t *testing.T) {
	const commits = 5
	g := startGated(t, func(*writer.Options) {})
	first := g.begin(t, 1)
	g.appended(t, 1)
	told := g.begin(t, (commits-1)*full)
	g.release <- struct{}{}
	<-first
	for n := range commits - 2 {
		g.appended(t, 3+uint64(n))
		if len(told) > n*full {
			t.Errorf("%d commands are answered, but %d commits are durable", len(told), n+1)
		}
		synctest.Wait() // a writer that ran further ahead would do it now
		g.appended(t, 3+uint64(n))
		g.release <- struct{}{}
		for range full {
			if at := <-told; at.Sequence != g.base+2+uint64(n) {
				t.Fatalf("a command is at %v, want %d", at, g.base+2+uint64(n))
			}
		}
	}
}

// overtaken is a log into which another server writes a commit once, in the place of one that was sent.
type overtaken struct {
	*memlog.Log
	t    *testing.T
	next atomic.Bool
}

func (l *overtaken) Append(sequence uint64, encoded []byte, done func(error)) {
	if !l.next.CompareAndSwap(true, false) {
		l.Log.Append(sequence, encoded, done)
		return
	}
	l.Edit(func(entries [][]byte) [][]byte {
		before := ledger.Head{Sequence: sequence - 1, Digest: ledger.DigestOf(entries[sequence-2])}
		_, other := ledgertest.Commit(l.t, before, ledger.Record{
			CommandID: commandstest.NewID(), Command: "CreateTrait", Time: time.Now().UnixNano(), Actor: "another",
			Events: []ledger.Event{ledger.TraitCreated{Name: "CUSTOM_OF_ANOTHER"}},
		})
		return append(entries, other)
	})
	go done(ledger.ErrConflict)
}

// slowToTell is a log of warnings that takes its time.
type slowToTell struct{ slog.Handler }

func (slowToTell) Handle(context.Context, slog.Record) error {
	time.Sleep(20 * time.Millisecond)
	return nil
}

func (slowToTell) Enabled(context.Context, slog.Level) bool { return true }

// TestOneCommitUnderWay: where several servers can write, no commit is sent before the one before it
// is durable, and none between the refusal of an append and the moment in which the writer has noticed
// it. It would name the next sequence, so that the log would take it, and be linked to a commit that
// never came. A copy of the State is taken between commits, behind all that came before.
func TestOneCommitUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := startGated(t, func(o *writer.Options) {
			o.Leadership, o.Logger = alone{make(chan struct{})}, slog.New(slowToTell{})
		})
		first := g.begin(t, 1)
		g.appended(t, 1)
		told := g.begin(t, 2*full+1)
		forked := make(chan *ledger.State, 1)
		go func() { forked <- commandstest.Must(g.Writer.Fork(context.Background())) }()
		synctest.Wait() // a writer that ran ahead would do it now
		g.appended(t, 1)
		g.log.next.Store(true)
		defer g.open()()
		<-first
		var last ledger.Address
		for range 2*full + 1 {
			last = <-told
		}
		if at := (<-forked).Head().Sequence; at != last.Sequence {
			t.Errorf("a copy of the State is of sequence %d, and the commands before it go up to %s", at, last)
		}
		checkLog(t, g.log, nil)
	})
}

// TestConsumersChangeOnceInACommit: no consumer changes twice in one commit, whatever is submitted together, and the
// history has every record that changed one.
func TestConsumersChangeOnceInACommit(t *testing.T) {
	t.Parallel()
	flood := rapid.SliceOfN(
		rapid.OneOf(rapid.Custom(commandstest.RandomNodeCommand), rapid.Custom(commandstest.RandomCommand)), 1, 20,
	)
	rapid.Check(t, func(rt *rapid.T) {
		l := commandstest.StartTogether(t)
		defer l.Remove(t)
		l.Submit(t, commandstest.SomeThings()...)
		for range 3 {
			l.Submit(t, flood.Draw(rt, "commands")...)
		}
		checkOnce(rt, t, l.Ledger)
	})
}

func checkOnce(rt interface{ Fatalf(string, ...any) }, t *testing.T, l *commandstest.Ledger) {
	view := l.Views.View()
	changes := map[ledger.UUID][]ledger.Address{}
	err := chain.Read(t.Context(), l.Log, ledger.Head{}, view.Sequence(), func(c *ledger.Commit) error {
		for index, r := range c.Records {
			for _, event := range r.Events {
				topic := ledger.TopicOf(event)
				if topic.Of != ledger.OfConsumer {
					continue
				}
				list := changes[topic.ID]
				if n := len(list); n > 0 && list[n-1].Sequence == c.Sequence {
					rt.Fatalf(
						"consumer %s changes twice in commit %d: in records %d and %d (%s)", topic.ID, c.Sequence, list[n-1].Index,
						index, r.Command,
					)
				}
				changes[topic.ID] = append(list, ledger.Address{Sequence: c.Sequence, Index: index})
			}
		}
		return nil
	})
	if err != nil {
		rt.Fatalf("%v", err)
	}
	for consumer, want := range changes {
		slices.Reverse(want)
		got, err := view.History(projector.ConsumerHistory, consumer, 0, len(want)+1)
		if err != nil || !slices.Equal(got, want) {
			rt.Fatalf("the history of consumer %s is %v, %v, and not %v", consumer, got, err, want)
		}
	}
}

// TestUnnamedConsumers: a node command that removes a consumer does not name it. It shares no commit with the command
// that made the consumer, is not rejected for that, and no later command overtakes it.
func TestUnnamedConsumers(t *testing.T) {
	t.Parallel()
	l := commandstest.StartTogether(t)
	node, allocation, name, class := commandstest.NewID(), commandstest.NewID(), "n", "a"
	verb := func(target string) commands.Command {
		return &commands.SetNodeProvisionState{Node: node, Target: target}
	}
	request := &commands.RequestNodeAllocation{
		Allocation: allocation, NodeRequest: commands.NodeRequest{Name: name, ResourceClass: class},
	}
	choose := &commands.ChooseNode{Allocation: allocation, Seed: 1}
	for _, c := range []commands.Command{
		&commands.SetNodeProviders{On: true, Limit: 1},
		&commands.CreateNode{
			Node: node, NodeFields: commands.NodeFields{Name: &name, Driver: new("fake"), ResourceClass: &class},
			ProvisionState: ledger.NodeAvailable,
		},
		&commands.SetNodePowerState{Node: node, Target: "power off"}, request,
	} {
		l.Accept(t, c)
	}
	for i := range 3 {
		for k, outcome := range l.Submit(t, choose, verb("active"), verb("deleted"), request) {
			if outcome.Rejection != nil {
				t.Fatalf("round %d: command %d: %s", i, k, outcome.Rejection)
			}
		}
	}
	checkOnce(t, t, l.Ledger)

	provider := l.Provider(t, "p", commands.Inventory{Class: "VCPU", Total: 8})
	l.Accept(t, choose)
	l.Accept(t, verb("active"))
	l.Submit(t, verb("deleted"), commandstest.Allocate(allocation, provider, "VCPU", 1))
	checkOnce(t, t, l.Ledger)
}
