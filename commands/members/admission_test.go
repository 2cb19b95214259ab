package members

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/commandstest"
	"github.com/allot-project/allot/ledger/embedded"
	"github.com/allot-project/allot/ledger/jetstream"
	"github.com/allot-project/allot/ledger/ledgertest"
	"github.com/allot-project/allot/ledger/logtest"
)

// TestSafeWithout: a replica without a log gets a vote only when all other
// servers of a stream are known to hold all of it.
func TestSafeWithout(t *testing.T) {
	const waited = 10 * time.Second
	one := admission{Name: "c", Waited: waited, Rejoins: true}
	// others are a, which leads, b and c, which asks. Each row changes something.
	type others struct {
		jetstream.Peers
		b       *jetstream.Peer
		members map[string]Member
	}
	fine := func(name string) jetstream.Peer {
		return jetstream.Peer{Name: name, Current: true, Active: time.Second}
	}
	good := func() *others {
		list := []jetstream.Peer{fine("b"), {Name: "c", Offline: true, Lag: 1000}}
		whole := map[string]Member{"a": {Whole: true}, "b": {Whole: true}}
		return &others{jetstream.Peers{Leader: "a", Others: list}, &list[0], whole}
	}
	for name, c := range map[string]struct {
		change func(*others)
		want   string // what is missing; empty: it is safe
	}{
		"all hold all of it":    {func(*others) {}, ""},
		"it is no voter":        {func(o *others) { o.Others, o.members = o.Others[:1], nil }, ""},
		"no server leads":       {func(o *others) { o.Leader = "" }, "no server leads"},
		"its namesake runs":     {func(o *others) { o.members["c"] = Member{} }, "is called c"},
		"it leads itself":       {func(o *others) { o.Leader, o.Others[1] = "c", fine("a") }, "seems to lead"},
		"another one is away":   {func(o *others) { o.b.Offline = true }, "b is away"},
		"another one lags":      {func(o *others) { o.b.Lag = 3 }, "b lags by 3"},
		"is not current":        {func(o *others) { o.b.Current = false }, "b lags"},
		"not heard of since":    {func(o *others) { o.b.Active = waited }, "b has not been heard of"},
		"was never heard of":    {func(o *others) { o.b.Active = 0 }, "b has not been heard of"},
		"is catching up":        {func(o *others) { o.members["b"] = Member{} }, "b is catching up"},
		"does not answer":       {func(o *others) { delete(o.members, "b") }, "b does not answer"},
		"leader is catching up": {func(o *others) { o.members["a"] = Member{} }, "a is catching up"},
		"one of five lags": {func(o *others) {
			o.Others, o.members["d"] = append(o.Others, fine("d")), Member{Whole: true}
			o.Others[2].Lag = 1
		}, "d lags by 1"},
	} {
		o := good()
		c.change(o)
		err := safeWithout(o.Peers, one, o.members)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v", name, err)
		}
	}
	o := good()
	if err := safeWithout(o.Peers, admission{Name: "c", Waited: waited}, o.members); !errors.Is(err, ErrLogLost) {
		t.Errorf("its log may be elsewhere: %v", err)
	}
}

// TestFindNamesake: a replica that hears another one of its name ends, and one that hears itself does not.
func TestFindNamesake(t *testing.T) {
	ns, _ := logtest.StartNATS(t, embedded.Config{StoreDir: t.TempDir()})
	begin := func(name string) *Group {
		nc := commandstest.Must(ns.ConnectReplica())
		t.Cleanup(nc.Close)
		g := &Group{
			Name: name, Instance: commands.NewID(), Conn: nc, Own: func() Member { return Member{} },
			Logger: slog.New(slog.DiscardHandler),
		}
		ledgertest.Must(nc.Subscribe(StatusSubject, g.AnswerStatus))
		ledgertest.OK(t, nc.Flush())
		return g
	}
	a, b := begin("a"), begin("b")
	for _, g := range []*Group{a, b} {
		if err := g.FindNamesake(t.Context()); err != nil {
			t.Errorf("%s: %v", g.Name, err)
		}
	}
	ledgertest.OK(t, CheckName(t.Context(), b.Conn, "c"))
	if err := CheckName(t.Context(), b.Conn, "a"); !errors.Is(err, ErrSameName) {
		t.Errorf("a runs: %v", err)
	}
	again := begin("a")
	for _, g := range []*Group{a, again} {
		if err := g.FindNamesake(t.Context()); !errors.Is(err, ErrSameName) {
			t.Errorf("two of one name: %v", err)
		}
	}
	if err := b.FindNamesake(t.Context()); err != nil {
		t.Errorf("b: %v", err)
	}
}

// TestRegisteredAgain: a replica that was removed, and runs, is known again.
func TestRegisteredAgain(t *testing.T) {
	_, nc := logtest.StartNATS(t, embedded.Config{StoreDir: t.TempDir()})
	cfg := jetstream.ValuesConfig{Replicas: 1, Timeout: time.Second}
	values := commandstest.Must(jetstream.OpenValues(t.Context(), nc, cfg))
	g := &Group{
		Name: "a", Values: values, Own: func() Member { return Member{} }, Logger: slog.New(slog.DiscardHandler),
	}
	go g.Register(t.Context(), time.Millisecond)
	known := func() {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		for there := false; !there; {
			members := commandstest.Must(g.registered(ctx))
			_, there = members["a"]
		}
	}
	known()
	ledgertest.OK(t, values.Delete(t.Context(), memberKeys+"a"))
	known()
}

// TestMayBegin: a ledger begins when all others have said that they know of none, and never otherwise.
func TestMayBegin(t *testing.T) {
	ns, _ := logtest.StartNATS(t, embedded.Config{StoreDir: t.TempDir()})
	own := Known{Name: "a", Begins: commands.NewID(), With: 7}
	other := commands.NewID()
	for name, c := range map[string]struct {
		others []Known
		begun  bool
		why    string
		err    error
	}{
		"no server knows of one": {others: []Known{{Name: "b"}, {Name: "c"}}},
		"one does not answer":    {others: []Known{{Name: "b"}}, why: "1 of 2 other servers answer: b"},
		"one answers twice":      {others: []Known{{Name: "b"}, {Name: "b"}}, why: "1 of 2"},
		"it hears itself":        {others: []Known{{Name: "b"}, {Name: "a"}}, why: "1 of 2"},
		"one has another":        {others: []Known{{Name: "b", Ledger: other, Commits: true}, {Name: "c"}}, err: ErrOtherLedger},
		"one has this one":       {others: []Known{{Name: "b", Ledger: own.Begins, Commits: true}}, begun: true},
		"one begins another":     {others: []Known{{Name: "b", Begins: other}, {Name: "c"}}, err: ErrTwoBegin},
		"all have lost their logs": {others: []Known{
			{Name: "b", Commits: true, Lost: true, Sequence: 7}, {Name: "c", Commits: true, Lost: true, Sequence: 3}}},
		"one has lost a longer log": {others: []Known{
			{Name: "b", Commits: true, Lost: true, Sequence: 8}, {Name: "c"}}, why: "b has commits"},
		"one has its log": {others: []Known{
			{Name: "b", Commits: true, Sequence: 7}, {Name: "c"}}, why: "b has commits"},
		"one has commits of some": {others: []Known{{Name: "b", Commits: true}, {Name: "c"}}, why: "b has commits"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, k := range c.others {
				nc := commandstest.Must(ns.ConnectReplica())
				defer nc.Close()
				ledgertest.Must(TellKnown(nc, func() Known { return k }))
			}
			nc := commandstest.Must(ns.ConnectReplica())
			defer nc.Close()
			begun, why, err := mayBegin(context.Background(), nc, own, 2)
			if begun != c.begun || !errors.Is(err, c.err) || !strings.Contains(why, c.why) || c.why == "" && why != "" {
				t.Errorf("begun %v, because %q, %v", begun, why, err)
			}
		})
	}
}
