package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/cluster"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/archives"
	"github.com/allot-project/allot/ledger/jetstream"
)

// hotLog is a member's part of a bounded log.
type hotLog struct {
	m   *member
	dir string

	mu      sync.Mutex
	unready error    // why the log may not go on; guarded by mu
	refuses error    // why nothing may leave; guarded by mu
	asked   []string // in order; guarded by mu
}

// Ready implements cluster.HotLog.
func (h *hotLog) Ready(stream string) error {
	h.note("ready " + stream)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.unready != nil {
		return h.unready
	}
	return h.m.ns.SyncStreams(stream)
}

// MayLeave implements cluster.HotLog.
func (h *hotLog) MayLeave(_ context.Context, before uint64) error {
	h.note(fmt.Sprintf("leave %d", before))
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.refuses != nil {
		return h.refuses
	}
	if err := h.m.ns.MayLeave(before); err != nil {
		return err
	}
	h.m.log.Leave(before)
	return nil
}

func (h *hotLog) note(text string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.asked = append(h.asked, text)
}

func (h *hotLog) refuse(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.refuses = err
}

func (h *hotLog) setUnready(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.unready = err
}

// has reports whether the member's server has the first stream's folder.
func (h *hotLog) has() bool {
	_, err := os.Stat(filepath.Join(h.dir, "jetstream", "$G", "streams", jetstream.DefaultStream, "meta.inf"))
	return err == nil
}

func (m *member) leads(t *testing.T) *cluster.BoundedLog {
	t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.term.BoundedLog()
}

// TestOlderReleaseKeepsTheLog: the log of several servers stays in one stream while a
// known replica could not read more. It goes on in another one without a pause for
// writes, and a stream leaves only when every known replica has said that it may, and
// has noted it.
func TestOlderReleaseKeepsTheLog(t *testing.T) {
	var values *jetstream.Values
	hot := make([]*hotLog, 3)
	register := func(name string, level int) {
		t.Helper()
		if err := values.Put(t.Context(), "member."+name, fmt.Appendf(nil, `{"name":%q,"level":%d}`, name, level)); err != nil {
			t.Fatal(err)
		}
	}
	g := startGroup(t, func(i int, cfg *cluster.Config, m *member) {
		if values = cfg.Values; i == 0 {
			register("old", ledger.ContinuedLevel-1)
		}
		hot[i] = &hotLog{m: m}
		cfg.HotLog = hot[i]
	})
	leader := g.leader()
	for i, m := range g.members {
		hot[i].dir = m.ns.StoreDir()
	}
	head := func() ledger.Head { return leader.views.Checkpoint() }
	n := 0
	write := func() {
		t.Helper()
		n++
		leader.submit(t, &commands.CreateTrait{Name: fmt.Sprintf("CUSTOM_N%d", n)})
	}
	for range 5 {
		write()
	}
	if err := leader.leads(t).Roll(t.Context(), head()); !errors.Is(err, cluster.ErrLevelBelow) {
		t.Fatalf("with a replica of an older release: %v", err)
	}
	if streams := leader.log.Streams(); len(streams) != 1 {
		t.Fatalf("the log is in %q", streams)
	}
	if err := values.Delete(t.Context(), "member.old"); err != nil {
		t.Fatal(err)
	}
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
				write()
			}
		}
	}()
	for began := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		err := leader.leads(t).Roll(t.Context(), head())
		if err == nil {
			break
		}
		// Whoever bounds the log tries again after these. Streams are made and deleted by
		// a Raft group that can be late behind such writes.
		passing := errors.Is(err, cluster.ErrLevelBelow) || errors.Is(err, archives.ErrLater) ||
			errors.Is(err, ledger.ErrUnavailable)
		if !passing || time.Since(began) > patience {
			t.Fatal(err)
		}
	}
	close(stop)
	<-stopped
	for i := range hot {
		hot[i].mu.Lock()
		if len(hot[i].asked) == 0 || !strings.HasPrefix(hot[i].asked[0], "ready ALLOT-") {
			t.Errorf("member %d was asked %q", i, hot[i].asked)
		}
		hot[i].mu.Unlock()
	}
	ends := leader.log.Sealed()
	if len(ends) != 1 {
		t.Fatalf("streams end at %v", ends)
	}
	write()
	stays := func(says string) {
		t.Helper()
		err := leader.leads(t).Drop(t.Context(), ends[0])
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v; want %q", err, says)
		}
		for i := range hot {
			if !hot[i].has() {
				t.Errorf("%q, and member %d has no stream any more", says, i)
			}
		}
	}
	hot[2].refuse(errors.New("it would replay that"))
	stays("replica 3: it would replay that")
	hot[2].refuse(nil)
	register("gone", ledger.Level)
	stays("do not answer: [gone]")
	if err := leader.Remove(t.Context(), "gone"); err != nil {
		t.Fatal(err)
	}
	if err := leader.leads(t).Drop(t.Context(), ends[0]); err != nil {
		t.Fatal(err)
	}
	for i := range hot {
		for began := time.Now(); hot[i].has(); time.Sleep(10 * time.Millisecond) {
			if time.Since(began) > patience {
				t.Fatalf("member %d has the stream yet", i)
			}
		}
		if first := g.members[i].log.First(); first != ends[0]+1 {
			t.Errorf("for member %d the log begins with %d", i, first)
		}
		if _, err := os.Stat(filepath.Join(hot[i].dir, "leaving")); err != nil {
			t.Errorf("member %d noted nothing: %v", i, err)
		}
	}
	write()
}

// TestOutsideAsksAllReplicas: where the servers of the log are not those of the replicas,
// the log goes on once all known replicas have said that they can write there, whatever
// the servers are called.
func TestOutsideAsksAllReplicas(t *testing.T) {
	hot := make([]*hotLog, 3)
	g := startGroup(t, func(i int, cfg *cluster.Config, m *member) {
		hot[i] = &hotLog{m: m}
		cfg.HotLog, cfg.Near = hot[i], nil
		cfg.Name = "other-" + cfg.Name
	})
	leader := g.leader()
	leader.submit(t, &commands.CreateTrait{Name: "CUSTOM_X"})
	away := errors.New("its user may not publish there")
	hot[1].setUnready(away)
	roll := func() error { return leader.leads(t).Roll(t.Context(), leader.views.Checkpoint()) }
	if err := roll(); err == nil || !strings.Contains(err.Error(), away.Error()) {
		t.Errorf("though a replica could not write: %v", err)
	}
	if streams := leader.log.Streams(); len(streams) != 1 {
		t.Errorf("the log is in %q", streams)
	}
	hot[1].setUnready(nil)
	for began := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		err := roll()
		if err == nil {
			break
		}
		if time.Since(began) > patience {
			t.Fatal(err)
		}
	}
	if ends := leader.log.Sealed(); len(ends) != 1 {
		t.Errorf("streams end at %v", ends)
	}
	leader.submit(t, &commands.CreateTrait{Name: "CUSTOM_Y"})
	for i := range hot {
		hot[i].mu.Lock()
		if len(hot[i].asked) == 0 {
			t.Errorf("replica %d was not asked", i)
		}
		hot[i].mu.Unlock()
	}
	for _, m := range g.members {
		m.cut.Store(true) // nobody has the streams led by a server that stops last
	}
}
