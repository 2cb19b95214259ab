package rejected_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/demand"
	"github.com/allot-project/allot/commands/rejected"
	"github.com/allot-project/allot/ledger"
)

func id(n byte) ledger.UUID { return ledger.UUID{6: 0x40, 8: 0x80, 15: n} }

var (
	begin                      = time.Unix(1_700_000_000, 0).UTC()
	ours, theirs, host, parent = id(1), id(2), id(3), id(4)
	unit, allocation           = id(5), id(6)
)

// keepAll keeps rejections, a second apart, and returns the store.
func keepAll(t *testing.T, list ...commands.Rejected) *slow {
	t.Helper()
	store := &slow{let: make(chan struct{})}
	close(store.let)
	k := rejected.Start(store, 64<<20, slog.New(slog.DiscardHandler))
	for i, r := range list {
		r.Time = begin.Add(time.Duration(i) * time.Second).UnixNano()
		r.Place = ledger.Address{Sequence: uint64(i + 1)}
		if r.Rejection == nil {
			r.Rejection = &demand.Rejection{Code: demand.CodeCapacityExceeded, Message: "full"}
		}
		k.Keep(r)
	}
	k.Stop()
	if k.Dropped() > 0 {
		t.Fatalf("%d were dropped", k.Dropped())
	}
	return store
}

func someRejections() []commands.Rejected {
	of := func(actor, project string, c commands.Command) commands.Rejected {
		return commands.Rejected{Submission: commands.Submission{
			ID: id(100 + byte(len(actor))), Actor: actor, Project: project, RequestID: "req-" + actor, Command: c,
		}}
	}
	allocate := func(consumer ledger.UUID, project string) *commands.AllocateForConsumers {
		return &commands.AllocateForConsumers{Allocations: []commands.ConsumerAllocations{{
			Consumer: consumer, Project: project, User: "u",
			Resources: []commands.ProviderAllocation{{Provider: host, Class: "VCPU", Amount: 1}},
		}}}
	}
	byFacts := of("abcde", "", &commands.DeleteTrait{Name: "CUSTOM_A"})
	byFacts.Rejection = &demand.Rejection{
		Code: demand.CodeNodeState, Facts: demand.Facts{Node: &unit, Allocation: &allocation},
	}
	alsoByFacts := of("abcdef", "", &commands.DeleteTrait{Name: "CUSTOM_A"})
	alsoByFacts.Rejection = &demand.Rejection{
		Code: demand.CodeNodeState, Facts: demand.Facts{Provider: &host, Consumer: &theirs},
	}
	return []commands.Rejected{
		of("a", "", allocate(ours, "p")), // 0
		of("ab", "", &commands.CreateProvider{Provider: unit, Name: "n", Parent: parent}), // 1
		of("abc", "q", &commands.ReleaseConsumer{Consumer: theirs}),                       // 2
		of("abcd", "", &commands.Batch{Commands: []commands.Command{ // 3
			&commands.ReleaseConsumer{Consumer: ours}, &commands.RequestNodeAllocation{
				Allocation: allocation, NodeRequest: commands.NodeRequest{Owner: "p", CandidateNodes: []ledger.UUID{parent, unit}},
			},
		}}),
		byFacts,     // 4
		alsoByFacts, // 5
	}
}

// TestFilters selects by sender, command, time and by the entities that a command
// or its rejection names, newest first.
func TestFilters(t *testing.T) {
	t.Parallel()
	store := keepAll(t, someRejections()...)
	owner := func(consumer ledger.UUID, place ledger.Address) (string, error) {
		if consumer == ours && place.Sequence == 4 {
			return "then", nil
		}
		return "", nil
	}
	at := func(n int) time.Time { return begin.Add(time.Duration(n) * time.Second) }
	for name, c := range map[string]struct {
		filter rejected.Filter
		want   []int
	}{
		"all":                         {rejected.Filter{}, []int{5, 4, 3, 2, 1, 0}},
		"command id":                  {rejected.Filter{CommandID: id(103)}, []int{2}},
		"actor":                       {rejected.Filter{Actor: "ab"}, []int{1}},
		"command":                     {rejected.Filter{Command: "DeleteTrait"}, []int{5, 4}},
		"code":                        {rejected.Filter{Code: demand.CodeNodeState}, []int{5, 4}},
		"before":                      {rejected.Filter{Before: at(2)}, []int{1, 0}},
		"since":                       {rejected.Filter{Since: at(4)}, []int{5, 4}},
		"until":                       {rejected.Filter{Until: at(1)}, []int{1, 0}},
		"since and until":             {rejected.Filter{Since: at(1), Until: at(2)}, []int{2, 1}},
		"consumer, also in facts":     {rejected.Filter{Consumer: theirs}, []int{5, 2}},
		"consumer in a batch":         {rejected.Filter{Consumer: ours}, []int{3, 0}},
		"node allocation":             {rejected.Filter{Consumer: allocation}, []int{4, 3}},
		"provider":                    {rejected.Filter{Provider: host}, []int{5, 0}},
		"node, also as a candidate":   {rejected.Filter{Provider: unit}, []int{4, 3, 1}},
		"parent":                      {rejected.Filter{Provider: parent}, []int{3, 1}},
		"consumer and provider":       {rejected.Filter{Consumer: ours, Provider: host}, []int{0}},
		"neither":                     {rejected.Filter{Consumer: host}, nil},
		"project that it names":       {rejected.Filter{Project: "p"}, []int{3, 0}},
		"project of its client":       {rejected.Filter{Project: "q"}, []int{2}},
		"project of a consumer then":  {rejected.Filter{Project: "then", OwnerOf: owner}, []int{3}},
		"project, and no owners":      {rejected.Filter{Project: "then"}, nil},
		"project and consumer":        {rejected.Filter{Project: "p", Consumer: allocation}, []int{3}},
		"who, what and what about it": {rejected.Filter{Actor: "abcde", Code: demand.CodeNodeState, Provider: unit}, []int{4}},
	} {
		list, err := rejected.List(t.Context(), store, c.filter, 100)
		var got []int
		for _, e := range list {
			got = append(got, int(e.Place.Sequence)-1)
		}
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, %v; want %v", name, got, err, c.want)
		}
		few, err := rejected.List(t.Context(), store, c.filter, 1)
		if err != nil || len(few) != min(1, len(c.want)) || len(few) == 1 && few[0].Place != list[0].Place {
			t.Errorf("%s, one of them: %v, %v", name, few, err)
		}
	}
}

// TestEntriesAreWhole: an entry holds the command as it was submitted.
func TestEntriesAreWhole(t *testing.T) {
	t.Parallel()
	all := someRejections()
	store := keepAll(t, all...)
	list, err := rejected.List(t.Context(), store, rejected.Filter{}, 100)
	if err != nil || len(list) != len(all) {
		t.Fatalf("%d entries, %v", len(list), err)
	}
	slices.Reverse(list)
	for i, e := range list {
		was := all[i]
		command, err := commands.Decode(e.Command, e.Body)
		if err != nil || e.CommandID != was.ID || e.Actor != was.Actor || e.RequestID != was.RequestID ||
			e.Project != was.Project ||
			!e.Time.Equal(begin.Add(time.Duration(i)*time.Second)) {
			t.Errorf("entry %d: %+v, %v", i, e, err)
		}
		before, err := commands.FingerprintOf(was.Command)
		if err != nil {
			t.Fatal(err)
		}
		if after, err := commands.FingerprintOf(command); err != nil || before != after {
			t.Errorf("entry %d is another command: %+v, %v", i, command, err)
		}
	}
}

// TestOldEntriesAreNotRead: a list ends where entries are too old, or where it is
// full, without reading older entries, which may be damaged.
func TestOldEntriesAreNotRead(t *testing.T) {
	t.Parallel()
	store := keepAll(t, someRejections()...)
	store.kept = slices.Insert(store.kept, 0, []byte("damaged"))
	if _, err := rejected.List(t.Context(), store, rejected.Filter{}, 6); err != nil {
		t.Errorf("enough: %v", err)
	}
	if _, err := rejected.List(t.Context(), store, rejected.Filter{}, 7); !errors.Is(err, rejected.ErrDamaged) {
		t.Errorf("one more: %v", err)
	}
	newer := rejected.Filter{Since: begin.Add(time.Hour)}
	if list, err := rejected.List(t.Context(), store, newer, 7); err != nil || len(list) > 0 {
		t.Errorf("newer ones: %v, %v", list, err)
	}
}

// TestListFails: entries that cannot be read, or looked up, are an error.
func TestListFails(t *testing.T) {
	t.Parallel()
	errInjected := errors.New("injected")
	store := keepAll(t, someRejections()...)
	failing := rejected.Filter{Project: "x", OwnerOf: func(ledger.UUID, ledger.Address) (string, error) {
		return "", errInjected
	}}
	if _, err := rejected.List(t.Context(), store, failing, 100); !errors.Is(err, errInjected) {
		t.Errorf("owners cannot be looked up: %v", err)
	}
	entry := `{"version":1,"time":"2024-01-01T00:00:00Z","command":"X","body":"\ud800","rejection":{"code":"invalid"}}`
	store.kept = [][]byte{[]byte("[" + entry + "]")}
	if list, err := rejected.List(t.Context(), store, rejected.Filter{Consumer: ours}, 100); err != nil || len(list) > 0 {
		t.Errorf("a body that is a text: %v, %v", list, err)
	}
	store.kept = [][]byte{[]byte("[" + strings.Replace(entry, `"body":"\ud800",`, "", 1) + "]")}
	if _, err := rejected.List(t.Context(), store, rejected.Filter{Consumer: ours}, 100); !errors.Is(
		err,
		rejected.ErrDamaged,
	) {
		t.Errorf("no body: %v", err)
	}
	if _, err := rejected.List(t.Context(), gone{errInjected}, rejected.Filter{}, 100); !errors.Is(err, errInjected) {
		t.Errorf("a store that cannot be read: %v", err)
	}
}

type gone struct{ err error }

func (g gone) Append(context.Context, []byte) error                              { return g.err }
func (g gone) Newest(context.Context, func([]byte) (more bool, err error)) error { return g.err }

// TestWhatCannotBeKept: a command that JSON cannot express is dropped, counted
// and logged; nothing is stored for it, and others are stored.
func TestWhatCannotBeKept(t *testing.T) {
	t.Parallel()
	store := &slow{let: make(chan struct{})}
	close(store.let)
	var logs bytes.Buffer
	k := rejected.Start(store, 64<<20, slog.New(slog.NewTextHandler(&logs, nil)))
	odd := rejection(1)
	odd.Command = &commands.Reserve{Seconds: math.NaN()}
	k.Keep(odd)
	k.Stop()
	if k.Dropped() != 1 || len(store.kept) > 0 || !strings.Contains(logs.String(), "a rejected command could not be kept") {
		t.Errorf("%d dropped, %q kept: %s", k.Dropped(), store.kept, &logs)
	}
	k = rejected.Start(store, 64<<20, slog.New(slog.DiscardHandler))
	k.Keep(odd)
	k.Keep(rejection(1))
	k.Stop()
	list, err := rejected.List(t.Context(), store, rejected.Filter{}, 100)
	if err != nil || len(list) != 1 || k.Dropped() != 1 {
		t.Errorf("%v, %v, %d dropped", list, err, k.Dropped())
	}
}

// TestManyInOneMessage: rejections that come together are stored together, but a
// message is bounded in number and in bytes.
func TestManyInOneMessage(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ n, bytes, atLeast, atMost int }{
		"small": {1000, 1, 4, 6},       // of 256 at most
		"large": {20, 100 << 10, 4, 6}, // of 512 KiB and one more at most
	} {
		var list []commands.Rejected
		for range c.n {
			one := rejection(0)
			one.Command = &commands.DeleteTrait{Name: strings.Repeat("x", c.bytes)}
			list = append(list, one)
		}
		store := &slow{let: make(chan struct{})}
		k := rejected.Start(store, 64<<20, slog.New(slog.DiscardHandler))
		for _, one := range list {
			k.Keep(one)
		}
		close(store.let)
		k.Stop()
		kept, err := rejected.List(t.Context(), store, rejected.Filter{}, 1_000_000)
		if err != nil || len(kept)+int(k.Dropped()) != c.n || len(store.kept) < c.atLeast || len(store.kept) > c.atMost {
			t.Errorf("%s: %d kept in %d messages, %d dropped, %v", name, len(kept), len(store.kept), k.Dropped(), err)
		}
	}
}
