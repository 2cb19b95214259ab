package rejected_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"math"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/demand"
	"github.com/allot-project/allot/commands/rejected"
	"github.com/allot-project/allot/ledger"
)

// slow is a store that blocks until it is released.
type slow struct {
	let  chan struct{}
	once sync.Once // of the release
	mu   sync.Mutex
	kept [][]byte // guarded by mu
	err  error
}

// ready is one that is released already.
func ready() *slow {
	s := &slow{let: make(chan struct{})}
	s.release()
	return s
}

func (s *slow) release() { s.once.Do(func() { close(s.let) }) }

// keep keeps rejections in it, releases it, and returns how many were dropped.
func (s *slow) keep(size int64, list ...commands.Rejected) (dropped uint64) {
	k := rejected.Start(s, size, slog.New(slog.DiscardHandler))
	for _, one := range list {
		k.Keep(one)
	}
	s.release()
	k.Stop()
	return k.Dropped()
}

func (s *slow) Append(_ context.Context, data []byte) error {
	<-s.let
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kept = append(s.kept, data)
	return s.err
}

func (s *slow) Newest(_ context.Context, yield func([]byte) (bool, error)) error {
	for i := len(s.kept) - 1; i >= 0; i-- {
		if more, err := yield(s.kept[i]); err != nil || !more {
			return err
		}
	}
	return nil
}

func rejection(consumers int) commands.Rejected {
	c := &commands.AllocateForConsumers{}
	for range consumers {
		one := commands.ConsumerAllocations{Consumer: ledger.UUID(uuid.New()), Project: "p", User: "u"}
		c.Allocations = append(c.Allocations, one)
	}
	return commands.Rejected{
		Submission: commands.Submission{ID: ledger.UUID(uuid.New()), Actor: "a", Command: c},
		Place:      ledger.Address{Sequence: 7}, Rejection: &demand.Rejection{Code: demand.CodeClassUnknown, Message: "no"},
	}
}

// TestRejectionsBeyondTheBoundAreCounted: rejections beyond the bound are dropped and
// counted at once; the rest is stored, newest first.
func TestRejectionsBeyondTheBoundAreCounted(t *testing.T) {
	store := &slow{let: make(chan struct{})}
	k := rejected.Start(store, 64<<20, slog.New(slog.DiscardHandler))
	const flood = 20_000
	last := rejection(1)
	k.Keep(rejection(9000)) // alone, whatever it weighs
	k.Keep(rejection(9000))
	for range flood {
		k.Keep(rejection(1))
	}
	close(store.let)
	k.Stop()
	k.Keep(last) // the Keeper has stopped
	list, err := rejected.List(t.Context(), store, rejected.Filter{}, 1_000_000)
	if err != nil || len(list) == 0 || uint64(len(list))+k.Dropped() != flood+2 || k.Dropped() < flood/2 {
		t.Fatalf("%d kept, %d dropped of %d, %v", len(list), k.Dropped(), flood+2, err)
	}
	oldest := list[len(list)-1]
	command, err := commands.Decode(oldest.Command, oldest.Body)
	if err != nil || len(commands.Consumers(command)) != 9000 || oldest.Actor != "a" || oldest.Place.Sequence != 7 {
		t.Errorf("%+v, %v", oldest.Place, err)
	}
}

// TestTrouble: rejections that cannot be stored are counted, and damage is reported.
func TestTrouble(t *testing.T) {
	store := ready()
	store.err = errors.New("full")
	if dropped := store.keep(64<<20, rejection(1)); dropped != 1 {
		t.Errorf("%d dropped", dropped)
	}
	for _, damaged := range []string{
		"", "{", `[{"version":9}]`, `[{"version":1}]`,
		`[{"version":1,"time":"2024-01-01T00:00:00Z","command":"X","rejection":{"code":"invalid"}}]`, // without a body
	} {
		store.kept = [][]byte{[]byte(damaged)}
		_, err := rejected.List(t.Context(), store, rejected.Filter{Consumer: ours}, 1)
		if !errors.Is(err, rejected.ErrDamaged) {
			t.Errorf("%q: %v", damaged, err)
		}
	}
}

// TestOthersEvidenceStays: a client whose commands are rejected without an end pushes out
// its own, and nothing of another client, also after a restart.
func TestOthersEvidenceStays(t *testing.T) {
	t.Parallel()
	const size = 100_000
	store := ready()
	keep := func(actor string, many int) (dropped uint64) {
		list := make([]commands.Rejected, many)
		for i := range list {
			list[i] = rejection(0)
			list[i].Actor = actor
		}
		return store.keep(size, list...)
	}
	if n := keep("modest", 10); n > 0 {
		t.Errorf("%d of a client that has few were dropped", n)
	}
	for range 2 {
		if n := keep("greedy", 500); n == 0 {
			t.Error("none of a client that has too many was dropped")
		}
	}
	list, err := rejected.List(t.Context(), store, rejected.Filter{}, 10_000)
	kept := map[string]int{}
	for _, one := range list {
		kept[one.Actor] += len(one.Body) + 512
	}
	if err != nil || kept["greedy"] > size || kept["modest"] == 0 {
		t.Errorf("%v, %v", kept, err)
	}
}

func id(n byte) ledger.UUID { return ledger.UUID{6: 0x40, 8: 0x80, 15: n} }

var (
	begin                      = time.Unix(1_700_000_000, 0).UTC()
	ours, theirs, host, parent = id(1), id(2), id(3), id(4)
	unit, allocation           = id(5), id(6)
)

// keepAll keeps rejections, a second apart, and returns the store.
func keepAll(t *testing.T, list ...commands.Rejected) *slow {
	t.Helper()
	for i := range list {
		r := &list[i]
		r.Time = begin.Add(time.Duration(i) * time.Second).UnixNano()
		r.Place = ledger.Address{Sequence: uint64(i + 1)}
		if r.Rejection == nil {
			r.Rejection = &demand.Rejection{Code: demand.CodeCapacityExceeded, Message: "full"}
		}
	}
	store := ready()
	if dropped := store.keep(64<<20, list...); dropped > 0 {
		t.Fatalf("%d were dropped", dropped)
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
	because := func(actor string, facts demand.Facts) commands.Rejected {
		one := of(actor, "", &commands.DeleteTrait{Name: "CUSTOM_A"})
		one.Rejection = &demand.Rejection{Code: demand.CodeNodeState, Facts: facts}
		return one
	}
	return []commands.Rejected{
		of("a", "", allocate(ours, "p")), // 0
		of("ab", "", &commands.CreateProvider{Provider: unit, Name: "n", Parent: parent}), // 1
		of("abc", "q", &commands.ReleaseConsumer{Consumer: theirs}),                       // 2
		of("abcd", "", &commands.Batch{Commands: []commands.Command{ // 3
			&commands.ReleaseConsumer{Consumer: ours}, &commands.RequestNodeAllocation{
				Allocation: allocation, NodeRequest: commands.NodeRequest{Owner: "p", CandidateNodes: []ledger.UUID{parent, unit}},
			},
			&commands.CreateNode{Node: id(90), NodeFields: commands.NodeFields{InstanceInfo: `{"a":[{"adminPass":"hidden"}]}`}},
			&commands.UpdateNode{Patch: []commands.PatchOperation{{Path: "/driver_info/ipmi_password", Value: `"hidden"`}}},
			&commands.UpdateNode{Patch: []commands.PatchOperation{{Path: "/extra", Value: `{"a":[{"adminPass":"hidden"}]}`}}},
		}}),
		because("abcde", demand.Facts{Node: &unit, Allocation: &allocation}), // 4
		because("abcdef", demand.Facts{Provider: &host, Consumer: &theirs}),  // 5
	}
}

// TestFilters selects by sender, command, time and what a command or its rejection names, newest first.
func TestFilters(t *testing.T) {
	t.Parallel()
	all := someRejections()
	store := keepAll(t, all...)
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
			isWhole(t, e, all[e.Place.Sequence-1])
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

// isWhole checks that an entry holds a command as it was submitted, but for secrets.
func isWhole(t *testing.T, e rejected.Entry, want commands.Rejected) {
	t.Helper()
	c, err := commands.Decode(e.Command, e.Body)
	got := commands.Submission{ID: e.CommandID, Actor: e.Actor, RequestID: e.RequestID, Project: e.Project, Command: c}
	want.Command, _ = commands.Masked(want.Command)
	if err != nil || !reflect.DeepEqual(got, want.Submission) || e.Time.UnixNano() != want.Time ||
		bytes.Contains(e.Body, []byte("hidden")) {
		t.Errorf("%+v, want %+v: %v", e, want.Submission, err)
	}
}

// silent is a store that answers no reading.
type silent struct {
	*slow
	ended error
}

func (s *silent) Newest(ctx context.Context, _ func([]byte) (bool, error)) error {
	<-ctx.Done()
	s.ended = ctx.Err()
	return s.ended
}

// TestStopEndsReading: a keeper that is stopped waits for no store that is silent: its server holds a lease meanwhile.
func TestStopEndsReading(t *testing.T) {
	t.Parallel()
	store := &silent{slow: ready()}
	rejected.Start(store, 64<<20, slog.New(slog.DiscardHandler)).Stop()
	if !errors.Is(store.ended, context.Canceled) {
		t.Errorf("the reading ended by %v", store.ended)
	}
}

// TestWhatCannotBeKept: a command that JSON cannot express is dropped, counted and logged, and no other.
func TestWhatCannotBeKept(t *testing.T) {
	t.Parallel()
	store := ready()
	var logs bytes.Buffer
	k := rejected.Start(store, 64<<20, slog.New(slog.NewTextHandler(&logs, nil)))
	odd := rejection(1)
	odd.Command = &commands.Reserve{Seconds: math.NaN()}
	k.Keep(odd)
	k.Keep(rejection(1))
	k.Stop()
	list, err := rejected.List(t.Context(), store, rejected.Filter{}, 100)
	if k.Dropped() != 1 || len(list) != 1 || err != nil ||
		!strings.Contains(logs.String(), "a rejected command could not be kept") {
		t.Errorf("%d dropped, %v kept, %v: %s", k.Dropped(), list, err, &logs)
	}
}
