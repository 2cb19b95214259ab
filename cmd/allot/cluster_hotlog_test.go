package main_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// boundedReplicas are three servers whose log is bounded, and the archive.
type boundedReplicas struct {
	*replicas
	archive string
	flags   []string
	metrics [3]string
}

// prepareBounded prepares servers whose log keeps some 20 commits.
func prepareBounded(t *testing.T, change ...func(*boundedReplicas)) *boundedReplicas {
	t.Helper()
	b := &boundedReplicas{replicas: prepareReplicas(t), archive: t.TempDir()}
	b.flags = []string{
		"--archive", "file://" + b.archive, "--archive-part-records", "10", "--archive-part-age", "1s", "--archive-cache", "1",
		"--snapshot-records", "5", "--hot-log-records", "20",
	}
	for _, one := range change {
		one(b)
	}
	return b
}

// launchBounded starts three of them.
func launchBounded(t *testing.T, change ...func(*boundedReplicas)) *boundedReplicas {
	t.Helper()
	b := prepareBounded(t, change...)
	ran(t, "init", "--data", b.data(0))
	for i := range b.list {
		b.metrics[i] = freeAddress(t)
		b.again(i)
	}
	for i := range b.list {
		if !b.list[i].waitServing() {
			t.Fatalf("replica %d does not serve:\n%s", i+1, b.list[i].logs)
		}
	}
	b.leader()
	return b
}

// again starts one of the servers.
func (b *boundedReplicas) again(i int, more ...string) {
	b.t.Helper()
	b.begin(i, append(append([]string{"--metrics", b.metrics[i]}, b.flags...), more...)...)
}

// first is the first sequence that the log holds, as a replica knows.
func (b *boundedReplicas) first(i int) float64 {
	return readMetrics(b.t, b.metrics[i])["allot_hot_log_first_sequence"]
}

// leaves waits until what is before a sequence has left the log.
func (b *boundedReplicas) leaves(before float64) {
	b.t.Helper()
	waitFor(b.t, fmt.Sprintf("the log leaves up to %v", before), func() bool {
		for i, s := range b.list {
			if s != nil && b.first(i) < before {
				return false
			}
		}
		return true
	})
}

// goesOnLeaving has clients write until more of the log has left.
func (b *boundedReplicas) goesOnLeaving(all *load) {
	b.t.Helper()
	var through []int
	for i, s := range b.list {
		if s != nil {
			through = append(through, i)
		}
	}
	l := b.load(through...)
	b.leaves(b.furthest() + 20)
	l.end(b.t)
	all.made = append(all.made, l.made...)
}

// readsAll checks that every server has all history, and everything that was
// acknowledged.
func (b *boundedReplicas) readsAll(l *load) {
	b.t.Helper()
	for i, s := range b.list {
		if s == nil {
			continue
		}
		l.holds(b.t, s)
		_, h := s.standing("/healthz")
		for from := uint64(1); from <= h.Sequence; from += 500 {
			body := s.must(200, "GET", fmt.Sprintf("/audit/records?from=%d&limit=500", from), "")
			if !strings.Contains(body, fmt.Sprintf(`"sequence":%d`, from)) {
				b.t.Errorf("replica %d has no record of commit %d: %.300s", i+1, from, body)
			}
		}
		if at := s.must(200, "GET", "/traits?at=10", ""); !strings.Contains(at, "traits") {
			b.t.Errorf("replica %d, as of commit 10: %.300s", i+1, at)
		}
	}
}

// holdsAll is readsAll, and checks after a stop that the files of each server are good.
func (b *boundedReplicas) holdsAll(l *load) {
	b.t.Helper()
	b.readsAll(l)
	for i := range b.list {
		// A quarter of what is kept is in each stream, and as much may be about to leave.
		waitFor(b.t, "streams are deleted", func() bool { return len(streamsOf(b.t, b.data(i))) < 16 })
	}
	for i, s := range b.list {
		s.terminate()
		allot(b.t, true, "verify", "--data", b.data(i), "--archive", "file://"+b.archive)
	}
	allot(b.t, true, "verify", "--archive", "file://"+b.archive)
}

// TestReplicasHotLog: what all archives have leaves the log of three servers while
// clients write through all of them. Any of them may be killed, and all be stopped:
// no write is lost, and all of history can be read at each of them.
func TestReplicasHotLog(t *testing.T) {
	t.Parallel()
	b := launchBounded(t)
	l := b.load(0, 1, 2)
	b.leaves(100)
	l.end(t)
	status := allot(t, true, "cluster", "status", "--url", "http://"+b.list[0].http)
	if first := regexp.MustCompile(`log     from sequence \d{3,} on, in streams: \d`); !first.MatchString(status) {
		t.Errorf("where the log begins is not told:\n%s", status)
	}
	// Whoever leads next drops again what it only knows to leave.
	next := (b.leader() + 1) % 3
	allot(t, true, "cluster", "step-down", "--url", "http://"+b.list[next].http, "--to", fmt.Sprint(next+1))
	waitFor(t, "the next one leads", func() bool { return b.leader() == next })
	time.Sleep(3 * time.Second)
	waitFor(t, "the next one lets the log leave", func() bool { return readMetrics(t, b.metrics[next])["allot_hot_log_keeps"] == 0 })
	follower := (b.leader() + 1) % 3
	b.lose(follower)
	l2 := b.load((follower+1)%3, (follower+2)%3)
	time.Sleep(3 * time.Second)
	l2.end(t)
	var was float64
	waitFor(t, "both say that the log begins with the same", func() bool {
		was = b.first((follower + 1) % 3)
		return b.first((follower+2)%3) == was
	})
	b.again(follower)
	if !b.list[follower].waitServing() {
		t.Fatal(b.list[follower].logs)
	}
	l3 := b.load(0, 1, 2)
	b.leaves(was + 100)
	l3.end(t)
	l.made = append(append(l.made, l2.made...), l3.made...)
	for i := range b.list {
		b.list[i].kill()
	}
	for i := range b.list {
		b.again(i)
	}
	for i := range b.list {
		if !b.list[i].waitServing() {
			t.Fatal(b.list[i].logs)
		}
	}
	b.leader()
	// Read models and snapshots come again from archives and log.
	b.list[0].terminate()
	for _, gone := range []string{"readmodel", "snapshots"} {
		if err := os.RemoveAll(filepath.Join(b.data(0), gone)); err != nil {
			t.Fatal(err)
		}
	}
	b.again(0, "--cluster-http", "", "--archive-copy-records", "0")
	if !b.list[0].waitServing() {
		t.Fatal(b.list[0].logs)
	}
	b.leader()
	b.holdsAll(l)
}

// controlledSteps makes the servers do something after one of the steps by which the
// log goes on in another stream, and leaves, once and in one server: see control in
// commands/cluster.
func controlledSteps(t *testing.T) (file string, change func(*boundedReplicas)) {
	t.Helper()
	program, err := controlled()
	if err != nil {
		t.Fatalf("%v: %s", err, program)
	}
	file = filepath.Join(t.TempDir(), "step")
	return file, func(b *boundedReplicas) { b.program, b.env = program, []string{"ALLOT_CONTROL_STEPS=" + file} }
}

// hotLogSteps are all of these steps.
var hotLogSteps = []string{"made", "ready", "continued", "said", "noted", "dropped"}

// orderSteps has a server do something after a step.
func orderStep(t *testing.T, file, what, step string) {
	t.Helper()
	// In one piece, because a server may look at any moment.
	err := os.WriteFile(file+".new", []byte(what+" "+step), 0o600)
	if err == nil {
		err = os.Rename(file+".new", file)
	}
	if err != nil {
		t.Fatal(err)
	}
	waitFor(t, "a server comes to the step "+step, func() bool { return gone(file) })
}

// furthest is the first sequence that the log of any server holds.
func (b *boundedReplicas) furthest() (first float64) {
	for i, s := range b.list {
		if s != nil {
			first = max(first, b.first(i))
		}
	}
	return first
}

// TestHotLogKilledAtEachStep: whoever carries out a step by which the log goes on in
// another stream, or a stream leaves, is killed right after it, while clients write. No
// write through another server fails, and after the last kill everything is there.
func TestHotLogKilledAtEachStep(t *testing.T) {
	t.Parallel()
	file, change := controlledSteps(t)
	b := launchBounded(t, change)
	all := &load{}
	for _, step := range hotLogSteps {
		l := b.load(0, 1, 2)
		l.again.Store(true)
		orderStep(t, file, "end", step)
		victim := -1
		waitFor(t, "the server ends", func() bool {
			for i, s := range b.list {
				select {
				case <-s.exited:
					victim = i
				default:
				}
			}
			return victim >= 0
		})
		time.Sleep(time.Second)
		all.made = append(all.made, l.tolerated()...) // requests through the one that was killed fail
		b.list[victim] = nil
		b.leader()
		b.again(victim)
		if !b.list[victim].waitServing() {
			t.Fatalf("killed after %s: %s", step, b.list[victim].logs)
		}
		b.leader()
		b.goesOnLeaving(all)
		t.Logf("killed after %s: replica %d, and the log begins with %v", step, victim+1, b.furthest())
	}
	b.holdsAll(all)
}

// deposedAt has the server that leads stand still after a step until another one leads and
// has gone further.
func (b *boundedReplicas) deposedAt(file, step string, leader int) {
	b.t.Helper()
	orderStep(b.t, file, "stop", step)
	stopped := b.list[leader]
	b.list[leader] = nil
	now := b.leader()
	time.Sleep(2 * time.Second)
	if err := stopped.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		b.t.Fatal(err)
	}
	b.list[leader] = stopped
	waitFor(b.t, "the one that stood still follows", func() bool {
		_, h := stopped.standing("/healthz")
		return h.Role == "follower" && h.Leader == fmt.Sprint(now+1)
	})
}

// TestHotLogDeposedAtEachStep: a leader stands still after a step until another one
// leads and has gone further, and then goes on with what it was about to do.
func TestHotLogDeposedAtEachStep(t *testing.T) {
	t.Parallel()
	file, change := controlledSteps(t)
	// A process that stands still is missed later than one that ended.
	b := launchBounded(t, change, func(b *boundedReplicas) { b.flags = append(b.flags, "--cluster-wait", "40s") })
	all := &load{}
	for _, step := range []string{"made", "ready", "continued", "noted"} {
		leader := b.leader()
		l := b.load((leader+1)%3, (leader+2)%3)
		b.deposedAt(file, step, leader)
		was := b.furthest()
		b.leaves(was + 20)
		l.end(t)
		all.made = append(all.made, l.made...)
		t.Logf("deposed after %s: the log begins with %v", step, b.furthest())
	}
	b.holdsAll(all)
}

// TestHotLogHandedOverAtEachStep: the leader is told to step down right after a step.
func TestHotLogHandedOverAtEachStep(t *testing.T) {
	t.Parallel()
	file, change := controlledSteps(t)
	b := launchBounded(t, change)
	l := b.load(0, 1, 2)
	for _, step := range hotLogSteps {
		leader := b.leader()
		orderStep(t, file, "wait", step)
		to := fmt.Sprint((leader+1)%3 + 1)
		b.handsOver(leader, to)
		was := b.furthest()
		b.leaves(was + 20)
	}
	l.end(t)
	b.holdsAll(l)
}

// handsOver has a leader step down for a replica, which may be slow to answer.
func (b *boundedReplicas) handsOver(leader int, to string) {
	b.t.Helper()
	for begun := time.Now(); ; time.Sleep(100 * time.Millisecond) {
		out, err := exec.Command(
			binary, "cluster", "step-down", "--url", "http://"+b.list[leader].http, "--to", to,
		).CombinedOutput()
		if err == nil {
			return
		}
		if !strings.Contains(string(out), "does not answer") || time.Since(begun) > startLimit {
			b.t.Fatalf("allot cluster step-down: %v\n%s", err, out)
		}
	}
}

// TestHotLogPowerCut: the power of all machines is cut at once after a step, while
// clients write. Everything that was acknowledged is there when they are back, and the
// log goes on in other streams, and leaves, as before.
func TestHotLogPowerCut(t *testing.T) {
	t.Parallel()
	steps := []string{"ready", "continued", "dropped"}
	if times(1, 2) > 1 {
		steps = hotLogSteps
	}
	b, file := launchOnDisks(t)
	all := &load{}
	for _, step := range steps {
		b.cutAfter(file, step, all)
		for i, s := range b.list {
			if !s.waitServing() {
				t.Fatalf("cut after %s: replica %d does not serve:\n%s", step, i+1, s.logs)
			}
		}
		b.leader()
		for _, s := range b.list {
			all.holds(t, s)
		}
		b.goesOnLeaving(all)
		t.Logf("cut after %s: the log begins with %v", step, b.furthest())
	}
	tell(t, "power cut of all servers while the log goes on in another stream, or leaves", len(steps),
		fmt.Sprintf("%d acknowledged writes, 0 lost", len(all.made)))
	b.holdsAll(all)
}

// TestHotLogPowerCutControl: with lazy syncing such a cut loses something, or
// TestHotLogPowerCut shows nothing.
func TestHotLogPowerCutControl(t *testing.T) {
	t.Parallel()
	if times(1, 2) == 1 {
		t.Skip("skipped: TestPowerCut shows that a cut cuts; ALLOT_FAULTS=all shows it of several servers, too")
	}
	b, file := launchOnDisks(t, "--lazy-sync")
	all := &load{}
	b.cutAfter(file, "continued", all)
	body := "" // of a server that serves
	waitFor(t, "a server serves, or all say that they have no log", func() bool {
		without := 0
		for _, s := range b.list {
			status, text, err := sendTo("GET", "http://"+s.http+"/traits", "", map[string]string{"OpenStack-API-Version": "placement 1.39"})
			if err == nil && status == 200 {
				body = text
				return true
			}
			if strings.Contains(s.logs.String(), "this replica has no log") {
				without++
			}
		}
		return without == len(b.list)
	})
	lost := len(all.lost(body))
	tell(t, "the same, negative control", 1, fmt.Sprintf("%d acknowledged writes, %d lost", len(all.made), lost))
	if lost == 0 {
		t.Error("lazy syncing lost nothing: the cut cuts nothing")
	}
}

// launchOnDisks is launchBounded on disks of which the power can be cut. A server
// does what is ordered in a file after a step.
func launchOnDisks(t *testing.T, more ...string) (b *boundedReplicas, file string) {
	t.Helper()
	file, change := controlledSteps(t)
	return launchBounded(t, change, func(b *boundedReplicas) {
		b.flags = append(b.flags, more...)
		for i := range b.disks {
			b.disks[i] = newDisk(t)
		}
	}), file
}

// cutAfter cuts the power of all machines while clients write and a server waits after
// a step, and starts all again. It adds what was acknowledged.
func (b *boundedReplicas) cutAfter(file, step string, all *load) {
	b.t.Helper()
	l := b.load(0, 1, 2)
	l.again.Store(true)
	orderStep(b.t, file, "wait", step)
	b.cutAll()
	all.made = append(all.made, l.tolerated()...) // requests under way fail
	for i := range b.list {
		b.again(i)
	}
}

// cutAll cuts the power of all machines at once, and brings their disks back.
func (b *boundedReplicas) cutAll() {
	b.t.Helper()
	for _, d := range b.disks {
		d.cut()
	}
	for i := range b.list {
		b.lose(i)
	}
	for _, d := range b.disks {
		d.remount()
	}
}

// TestHotLogWaits: nothing leaves the log of several servers while a known one is
// away, or an archive is. While one is away the log goes on in no stream that is made then.
func TestHotLogWaits(t *testing.T) {
	t.Parallel()
	b := launchBounded(t)
	l := b.load(0, 1, 2)
	b.leaves(60)
	l.end(t)
	said := func() (n int) {
		for _, one := range b.list {
			if one != nil {
				n += strings.Count(one.logs.String(), "nothing leaves the hot log now")
			}
		}
		return n
	}
	told := func(before int) {
		t.Helper()
		waitFor(t, "it is told that everything stays", func() bool {
			return said() > before && readMetrics(t, b.metrics[b.leader()])["allot_hot_log_keeps"] == 1
		})
		time.Sleep(time.Second) // what was agreed before may be carried out until then
	}
	stays := func(why string) (came []string) {
		t.Helper()
		data := b.data(b.leader())
		was := streamsOf(t, data)
		time.Sleep(3 * time.Second) // what is due would leave within one
		now := streamsOf(t, data)
		if now[0] != was[0] { // the oldest one leaves
			t.Errorf("%s: the streams were %q, and are %q", why, was, now)
		}
		return slices.DeleteFunc(now, func(stream string) bool { return slices.Contains(was, stream) })
	}
	write := func() (end func()) {
		more := b.load(b.leader())
		return func() {
			more.end(t)
			l.made = append(l.made, more.made...)
		}
	}
	before := said()
	if err := os.Rename(b.archive, b.archive+".away"); err != nil {
		t.Fatal(err)
	}
	end := write()
	told(before)
	stays("the archive is away")
	end()
	if err := os.Rename(b.archive+".away", b.archive); err != nil {
		t.Fatal(err)
	}
	away := (b.leader() + 1) % 3
	b.lose(away)
	before = said()
	end = write()
	told(before)
	if came := stays("a replica is away"); len(came) > 1 { // all agreed on one of these before
		t.Errorf("the log goes on in %q", came)
	}
	end()
	was := b.furthest()
	b.again(away)
	if !b.list[away].waitServing() {
		t.Fatal(b.list[away].logs)
	}
	more := b.load(0, 1, 2)
	b.leaves(was + 40)
	more.end(t)
	l.made = append(l.made, more.made...)
	b.holdsAll(l)
}

// TestHotLogDiskLost: a replica whose disk is lost gets what the log has from the
// others, stream by stream, and what has left it from a copy or the archives.
func TestHotLogDiskLost(t *testing.T) {
	t.Parallel()
	b := launchBounded(t)
	l := b.load(0, 1, 2)
	b.leaves(60)
	l.end(t)
	lost := (b.leader() + 1) % 3
	b.lose(lost)
	if err := os.RemoveAll(b.data(lost)); err != nil {
		t.Fatal(err)
	}
	b.again(lost)
	if !b.list[lost].waitServing() {
		t.Fatal(b.list[lost].logs)
	}
	was := b.furthest()
	more := b.load(0, 1, 2)
	b.leaves(was + 40)
	more.end(t)
	l.made = append(l.made, more.made...)
	b.holdsAll(l)
}
