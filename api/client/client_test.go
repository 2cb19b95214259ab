package client_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"pgregory.net/rapid"

	"github.com/allot-project/allot/api/client"
	"github.com/allot-project/allot/api/natsapi"
	"github.com/allot-project/allot/api/wire"
	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/commandstest"
	"github.com/allot-project/allot/commands/demand"
	"github.com/allot-project/allot/commands/encoding"
	"github.com/allot-project/allot/commands/writer"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/embedded"
	"github.com/allot-project/allot/ledger/ledgertest"
)

// flaky loses answers, or reports that it is busy, now and then.
type flaky struct {
	*writer.Writer
	count atomic.Int64
}

func (f *flaky) Submit(ctx context.Context, s commands.Submission) (commands.Outcome, error) {
	switch f.count.Add(1) % 5 {
	case 0:
		return commands.Outcome{}, commands.ErrBusy
	case 1:
		if _, err := f.Writer.Submit(ctx, s); err != nil {
			return commands.Outcome{}, err
		}
		return commands.Outcome{}, commands.ErrNoAnswer // carried out, but the answer is lost
	}
	return f.Writer.Submit(ctx, s)
}

func (f *flaky) Start(s commands.Submission, done func(commands.Outcome, error)) {
	go func() { done(f.Submit(context.Background(), s)) }()
}

// serve runs a ledger behind the NATS service.
func serve(t testing.TB, unreliable bool) (*commandstest.Ledger, *nats.Conn) {
	t.Helper()
	dir := t.TempDir()
	log, ns := commandstest.JetStream(t, dir, true)
	l := commandstest.Start(t, dir, log)
	var submit commands.Starter = l.Writer
	if unreliable {
		submit = &flaky{Writer: l.Writer}
	}
	nc := commandstest.Must(ns.ConnectDoor())
	t.Cleanup(nc.Close)
	svc, err := natsapi.Start(nc, natsapi.Config{
		Commands: submit, Version: "0.0.1", Actor: "nats:client", Logger: slog.New(slog.DiscardHandler),
		Queries: &natsapi.Queries{Views: l.Views, MaxSteps: 50_000_000, Now: time.Now},
	})
	ledgertest.OK(t, err)
	t.Cleanup(func() { _ = svc.Stop() }) // the test has ended
	conn := commandstest.Must(nats.Connect(ns.ClientURL()))
	t.Cleanup(conn.Close)
	return l, conn
}

func within(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// TestQueries asks about the present, the past, what was just written, and what would happen.
func TestQueries(t *testing.T) {
	l, conn := serve(t, false)
	provider := l.Provider(t, "node", commands.Inventory{Class: "VCPU", Total: 10})
	for _, encoding := range []string{encoding.TypeMsgpack, encoding.TypeJSON} {
		c := client.New(conn, client.Options{Encoding: encoding})
		consumer := commandstest.NewID()
		made := commandstest.Must(c.Submit(within(t), commandstest.Allocate(consumer, provider, "VCPU", 3)))
		written := wire.When{MinSequence: made.Address.Sequence}
		held, err := c.Allocations(within(t), wire.AllocationsQuery{When: written, Consumer: consumer})
		want := []wire.Allocation{{Provider: provider, Class: "VCPU", Amount: 3}}
		if err != nil || held.Result.Generation != made.Address.Sequence || !slices.Equal(held.Result.Allocations, want) ||
			held.Result.Since == "" {
			t.Errorf("%s: %+v, %v", encoding, held, err)
		}
		usages, err := c.Usages(within(t), wire.UsagesQuery{Project: "project"})
		if err != nil || len(usages.Result) != 1 || usages.Result[0].Amounts["VCPU"] < 3 {
			t.Errorf("%s: %+v, %v", encoding, usages, err)
		}
		p, err := c.Provider(within(t), wire.ProviderQuery{Name: "node"})
		if err != nil || p.Result.Provider != provider || p.Result.Inventories[0].Used < 3 {
			t.Errorf("%s: %+v, %v", encoding, p, err)
		}
		groups := []wire.CandidateGroup{{Resources: map[string]int64{"VCPU": 1}}}
		found, err := c.Candidates(within(t), wire.CandidatesQuery{Groups: groups})
		if err != nil || len(found.Result) != 1 || found.Result[0].Allocations[0].Provider != provider {
			t.Errorf("%s: %+v, %v", encoding, found, err)
		}
		ranked, err := c.Candidates(within(t), wire.CandidatesQuery{Groups: groups, Prefer: &demand.ClaimPreference{}})
		_, without := c.Candidates(within(t), wire.CandidatesQuery{Groups: groups, Marker: "x"})
		if err != nil || ranked.Result[0].Score == nil || codeOf(without) != wire.ErrorBadRequest {
			t.Errorf("%s: %+v, %v; a marker without a preference: %v", encoding, ranked, err, without)
		}
		before, err := c.Provider(within(t), wire.ProviderQuery{When: wire.When{At: "3"}, Provider: provider})
		if err != nil || before.Sequence != 3 || before.Result.Inventories[0].Used != 0 {
			t.Errorf("%s: the past: %+v, %v", encoding, before, err)
		}
		events, err := c.DryRun(within(t), commandstest.Allocate(commandstest.NewID(), provider, "VCPU", 1))
		if err != nil || len(events) == 0 || events[0].Kind != "AllocationsReplaced" ||
			l.Views.Checkpoint().Sequence != made.Address.Sequence {
			t.Errorf("%s: a dry run: %v, %v", encoding, events, err)
		}
		_, unknown := c.Allocations(within(t), wire.AllocationsQuery{Consumer: commandstest.NewID()})
		_, future := c.Allocations(within(t), wire.AllocationsQuery{When: wire.When{At: "99999"}, Consumer: consumer})
		if codeOf(unknown) != wire.ErrorNotFound || codeOf(future) != wire.ErrorBadRequest {
			t.Errorf("%s: an unknown consumer: %v, the future: %v", encoding, unknown, future)
		}
	}
	short, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	far := wire.ProviderQuery{When: wire.When{MinSequence: 1 << 40}, Name: "node"}
	_, err := client.New(conn, client.Options{}).Provider(short, far)
	if !errors.Is(err, client.ErrUnanswered) && !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a sequence far off: %v", err)
	}
}

// TestLargeAnswer: an answer that NATS cannot carry is an error, not silence, however slow it is.
func TestLargeAnswer(t *testing.T) {
	l, conn := serve(t, false)
	root := l.Provider(t, "root")
	for _, child := range l.Providers(t, 8, commands.Inventory{Class: "VCPU", Total: 100}) {
		l.Accept(t, &commands.ReparentProvider{Provider: child, Parent: root})
	}
	q := wire.CandidatesQuery{Limit: 6_000}
	for i := range 12 {
		one := wire.CandidateGroup{Suffix: fmt.Sprintf("_%060d", i), Resources: map[string]int64{"VCPU": 1}}
		q.Groups = append(q.Groups, one)
	}
	c := client.New(conn, client.Options{Encoding: encoding.TypeJSON, TryTimeout: 500 * time.Millisecond})
	if _, err := c.Candidates(within(t), q); codeOf(err) != wire.ErrorTooLarge {
		t.Errorf("12 groups on 8 providers: %v", err)
	}
	q.Limit = 100
	if found, err := c.Candidates(within(t), q); err != nil || len(found.Result) != 100 {
		t.Errorf("the first 100: %d, %v", len(found.Result), err)
	}
}

// TestBatches submits independent commands, some of them invalid, and atomic ones, in both encodings.
func TestBatches(t *testing.T) {
	for _, unreliable := range []bool{false, true} {
		l, conn := serve(t, unreliable)
		provider := l.Provider(t, "p", commands.Inventory{Class: "VCPU", Total: 100})
		allocate := func(class string, amount int64) commands.Command {
			return commandstest.Allocate(commandstest.NewID(), provider, class, amount)
		}
		for _, encoding := range []string{encoding.TypeMsgpack, encoding.TypeJSON} {
			c := client.New(conn, client.Options{Encoding: encoding, Pause: time.Millisecond})
			items := make([]client.Item, 40)
			for i := range items {
				items[i] = client.Item{ID: commandstest.NewID(), Command: allocate("VCPU", 1)}
			}
			items[7].Command, items[8].Command = allocate("VCPU", 1000), allocate("NO_CLASS", 1)
			for range 2 { // again: the first results
				results := commandstest.Must(c.SubmitAll(within(t), items))
				for i, r := range results {
					want := map[int]demand.Code{7: demand.CodeCapacityExceeded, 8: demand.CodeClassUnknown}[i]
					if want == "" && (r.Err != nil || r.Address.Sequence == 0) || want != "" && codeOf(r.Err) != string(want) {
						t.Errorf("%s: command %d: %+v", encoding, i, r)
					}
				}
			}
			allOrNothing(t, l, c)
		}
		p, _, err := l.Views.View().Provider(provider)
		if err != nil || p.Inventories[0].Used != 76 {
			t.Errorf("%d used, %v", p.Inventories[0].Used, err)
		}
	}
}

// allOrNothing submits batches of which everything or nothing must happen.
func allOrNothing(t *testing.T, l *commandstest.Ledger, c *client.Client) {
	t.Helper()
	made, consumer, id := commandstest.NewID(), commandstest.NewID(), commandstest.NewID()
	list := []commands.Command{
		&commands.CreateProvider{Provider: made, Name: made.String()},
		&commands.ReplaceInventories{
			Provider: made, Generation: new(int64), Inventories: []commands.Inventory{{Class: "VCPU", Total: 2}},
		},
		commandstest.Allocate(consumer, made, "VCPU", 2),
	}
	first := commandstest.Must(c.SubmitAtomic(within(t), id, list...))
	again, err := c.SubmitAtomic(within(t), id, list...)
	if err != nil || again.Address != first.Address {
		t.Errorf("again: %+v, %v", again, err)
	}
	before := l.Views.Checkpoint()
	_, tooFar := c.SubmitAtomic(within(t), commandstest.NewID(),
		&commands.CreateProvider{Provider: commandstest.NewID(), Name: "x" + made.String()},
		commandstest.Allocate(commandstest.NewID(), made, "VCPU", 1))
	var rejected *client.RejectedError
	if !errors.As(tooFar, &rejected) || rejected.Code != demand.CodeCapacityExceeded || rejected.Facts.Command == nil ||
		*rejected.Facts.Command != 1 {
		t.Errorf("a batch that goes too far: %v", tooFar)
	}
	_, twice := c.SubmitAtomic(within(t), commandstest.NewID(),
		&commands.ReleaseConsumer{Consumer: consumer}, commandstest.Allocate(consumer, made, "VCPU", 1))
	_, empty := c.SubmitAtomic(within(t), commandstest.NewID())
	if codeOf(twice) != string(demand.CodeInvalid) || codeOf(empty) != wire.ErrorBadRequest {
		t.Errorf("a consumer twice: %v, an empty batch: %v", twice, empty)
	}
	if after := l.Views.Checkpoint(); after != before {
		t.Errorf("batches that were refused moved the log to %d", after.Sequence)
	}
}

// codeOf is the code of the error or the rejection that a server has answered.
func codeOf(err error) string {
	var failure *wire.Error
	var rejected *client.RejectedError
	switch {
	case errors.As(err, &failure):
		return failure.Code
	case errors.As(err, &rejected):
		return string(rejected.Code)
	}
	return fmt.Sprint(err)
}

// TestEncodingsAgree: a command has the same fingerprint in both encodings, so a retry may use the other one.
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
	want := commandstest.Must(commands.FingerprintOf(c))
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

// largeReshape is a command that takes more than clients may send over NATS.
func largeReshape(t testing.TB) commands.Command {
	t.Helper()
	c := &commands.Reshape{}
	for data := []byte(nil); len(data) <= 2*embedded.DefaultPayload; {
		for range 1000 {
			one := commandstest.Allocate(commandstest.NewID(), commandstest.NewID(), "VCPU", 1).Allocations[0]
			one.User = strings.Repeat("u", 255)
			c.Allocations = append(c.Allocations, one)
		}
		var err error
		if data, err = encoding.Encode(c, encoding.TypeMsgpack); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

// TestTooLarge: what is more than the server takes over NATS is an error that says where it can go, from the first
// moment of a connection on, and the connection stays. Independent commands travel in as many messages as it takes.
func TestTooLarge(t *testing.T) {
	l, first := serve(t, false)
	large := largeReshape(t)
	for range 20 { // the server says what it takes after the connection is there
		nc := commandstest.Must(nats.Connect(first.ConnectedUrl()))
		c := client.New(nc, client.Options{})
		for what, call := range map[string]func() error{
			"a command":       func() error { _, err := c.Submit(within(t), large); return err },
			"an atomic batch": func() error { _, err := c.SubmitAtomic(within(t), commandstest.NewID(), large); return err },
			"a dry run":       func() error { _, err := c.DryRun(within(t), large); return err },
		} {
			if err := call(); !errors.Is(err, nats.ErrMaxPayload) || !strings.Contains(err.Error(), "over REST") {
				t.Errorf("%s: %v", what, err)
			}
		}
		if _, err := c.Usages(within(t), wire.UsagesQuery{Project: "p"}); err != nil {
			t.Errorf("afterwards: %v", err)
		}
		nc.Close()
	}
	c := client.New(first, client.Options{})
	var items []client.Item
	add := func(c commands.Command) { items = append(items, client.Item{ID: commandstest.NewID(), Command: c}) }
	for range 500 {
		add(commandstest.Allocate(commandstest.NewID(), commandstest.NewID(), "VCPU", 1)) // there is no such provider
	}
	add(large)
	for range 500 {
		provider := commandstest.NewID()
		add(&commands.CreateProvider{Provider: provider, Name: strings.Repeat("p", 100) + provider.String()})
	}
	results := commandstest.Must(c.SubmitAll(within(t), items))
	addresses := make(map[ledger.Address]bool)
	for i, one := range results {
		want := "<nil>"
		switch {
		case i < 500:
			want = string(demand.CodeProviderUnknown)
		case i == 500:
			want = wire.ErrorTooLarge
		default:
			addresses[one.Address] = true
		}
		if codeOf(one.Err) != want {
			t.Errorf("%d: %v", i, one.Err)
		}
	}
	if n := len(addresses); n != 500 {
		t.Errorf("%d records", n)
	}
	made := 0
	if err := l.Views.View().Providers(func(*ledger.Provider) bool { made++; return true }); err != nil || made != 500 {
		t.Errorf("%d providers, %v", made, err)
	}
}
