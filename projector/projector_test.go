package projector_test

import (
	"errors"
	"fmt"
	"log/slog"
	"math/rand"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/commandstest"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/ledgertest"
	"github.com/allot-project/allot/ledger/memlog"
	"github.com/allot-project/allot/projector"
)

// picture returns everything that a view shows, as text.
func picture(t *testing.T, v projector.View) string {
	t.Helper()
	var b strings.Builder
	keep := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	classes, err := v.Classes()
	keep(err)
	fmt.Fprintln(&b, classes.All())
	keep(v.Traits(func(tr *ledger.Trait) bool { fmt.Fprintln(&b, *tr); return true }))
	keep(v.Providers(func(p *ledger.Provider) bool {
		fmt.Fprintf(&b, "%+v\n", *p)
		named, found, err := v.ProviderNamed(p.Name)
		keep(err)
		if !found || named.UUID != p.UUID {
			t.Errorf("provider %s is not found by its name %q", p.UUID, p.Name)
		}
		keep(v.ProviderConsumers(p.UUID, func(c *ledger.Consumer) bool {
			fmt.Fprintln(&b, c.UUID, c.Generation, *c.Owner, c.Allocations)
			return true
		}))
		return true
	}))
	usages, err := v.Usages("project", "")
	keep(err)
	for _, u := range usages {
		fmt.Fprintln(&b, *u.Owner, u.Consumers, u.Amounts)
	}
	return b.String()
}

// TestPastViews records what every view shows, and asks again at the end.
func TestPastViews(t *testing.T) {
	l := commandstest.Start(t, t.TempDir(), &memlog.Log{})
	random := rand.New(rand.NewSource(7))
	providers := []ledger.UUID{
		l.Provider(
			t, "a", commands.Inventory{Class: "VCPU", Total: 50},
		), l.Provider(t, "b", commands.Inventory{Class: "VCPU", Total: 50}),
	}
	consumers := make([]ledger.UUID, 5)
	for i := range consumers {
		consumers[i] = commandstest.NewID()
	}
	then := make(map[uint64]string)
	for i := range 150 {
		switch random.Intn(6) {
		case 0:
			l.Submit(t, &commands.ReleaseConsumer{Consumer: consumers[random.Intn(5)]})
		case 1:
			l.Accept(t, &commands.RenameProvider{Provider: providers[i%2], Name: fmt.Sprint("name ", i)})
		case 2:
			l.Submit(t, &commands.CreateTrait{Name: fmt.Sprint("CUSTOM_", random.Intn(9))})
		case 3:
			l.Submit(t, &commands.DeleteTrait{Name: fmt.Sprint("CUSTOM_", random.Intn(9))})
		default:
			c := commandstest.Allocate(consumers[random.Intn(5)], providers[random.Intn(2)], "VCPU", 1+random.Int63n(9))
			c.Allocations[0].AnyGeneration = true
			l.Submit(t, c)
		}
		view := l.Views.View()
		then[view.Sequence()] = picture(t, view)
	}
	for sequence, want := range then {
		view, err := l.Views.ViewAt(sequence)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, picture(t, view)); diff != "" {
			t.Fatalf("the view of sequence %d has changed:\n%s", sequence, diff)
		}
	}
	if _, err := l.Views.ViewAt(1 << 40); !errors.Is(err, projector.ErrNotYet) {
		t.Errorf("the future: %v", err)
	}
}

// TestHistory: the records that touched a thing, newest first, in pages.
func TestHistory(t *testing.T) {
	l := commandstest.Start(t, t.TempDir(), &memlog.Log{})
	provider := l.Provider(t, "a", commands.Inventory{Class: "VCPU", Total: 50})
	consumer := commandstest.NewID()
	var want []ledger.Address
	for i := range 5 {
		c := commandstest.Allocate(consumer, provider, "VCPU", int64(i+1))
		c.Allocations[0].AnyGeneration = true
		want = append([]ledger.Address{l.Accept(t, c)}, want...)
		l.Accept(t, &commands.CreateTrait{Name: fmt.Sprint("CUSTOM_", i)})
	}
	want = append([]ledger.Address{l.Accept(t, &commands.ReleaseConsumer{Consumer: consumer})}, want...)
	view := l.Views.View()
	got, err := view.History(projector.ConsumerHistory, consumer, 0, 100)
	if err != nil || !cmp.Equal(got, want) {
		t.Errorf("%v, %v; want %v", got, err, want)
	}
	page, err := view.History(projector.ConsumerHistory, consumer, got[1].Sequence, 2)
	if err != nil || !cmp.Equal(page, want[2:4]) {
		t.Errorf("second page %v, %v", page, err)
	}
	byProvider, err := view.History(projector.ProviderHistory, provider, 0, 100)
	if err != nil || len(byProvider) != len(want)+2 {
		t.Errorf("provider: %v, %v", byProvider, err)
	}
	for kind, name := range map[projector.Kind]string{projector.ProjectHistory: "project", projector.UserHistory: "user"} {
		if got, err := view.OwnerHistory(kind, name, 0, 100); err != nil || !cmp.Equal(got, want) {
			t.Errorf("%c: %v, %v", kind, got, err)
		}
	}
}

// TestDamageIsNotSilent flips bits in Pebble's files. Either the damage is found,
// and the read models are set aside or an error is returned, or the answers are
// right.
func TestDamageIsNotSilent(t *testing.T) {
	quiet := slog.New(slog.DiscardHandler)
	whole := filepath.Join(t.TempDir(), "readmodel")
	p, err := projector.Open(whole, quiet)
	if err != nil {
		t.Fatal(err)
	}
	s := ledger.NewState()
	for _, c := range ledgertest.Commits(t, 100) {
		changes, err := s.Fold(c)
		if err == nil {
			err = p.Fold(c, changes)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	want, err := p.Digest()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewSource(3))
	found := 0
	for i := range 60 {
		dir := filepath.Join(t.TempDir(), "readmodel")
		if err := os.CopyFS(dir, os.DirFS(whole)); err != nil {
			t.Fatal(err)
		}
		damage(t, random, dir)
		if noticed := reopen(t, dir, quiet, want); noticed {
			found++
		}
		_ = i
	}
	if found == 0 {
		t.Error("no damage was ever noticed: the test damages nothing")
	}
}

// damage flips a bit or cuts a file.
func damage(t *testing.T, random *rand.Rand, dir string) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "pebble", "*"))
	if err != nil {
		t.Fatal(err)
	}
	for {
		path := paths[random.Intn(len(paths))]
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if len(data) == 0 {
			continue
		}
		at := random.Intn(len(data))
		if random.Intn(4) == 0 {
			data = data[:at]
		} else {
			data[at] ^= 1 << random.Intn(8)
		}
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
}

func reopen(t *testing.T, dir string, quiet *slog.Logger, want ledger.Digest) (noticed bool) {
	t.Helper()
	p, err := projector.Open(dir, quiet)
	if err != nil {
		return true
	}
	defer func() { _ = p.Close() }() // closing damaged files may fail
	if p.Checkpoint().Sequence < 100 {
		return true // behind: the rest is folded again from the log
	}
	got, err := p.Digest()
	if err != nil {
		return true
	}
	if got != want {
		t.Errorf("damage went unnoticed and changed what is read")
	}
	return false
}
