package main_test

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/allot-project/allot/cmd/internal/launchtest"
	"github.com/allot-project/allot/ledger"
)

// natsProgram is the program nats-server, of the release that Allot has in the process.
var natsProgram = sync.OnceValues(func() (string, error) {
	path := filepath.Join(filepath.Dir(binary), "nats-server")
	out, err := launchtest.Build(path, "github.com/nats-io/nats-server/v2")
	if err != nil {
		return string(out), err
	}
	return path, nil
})

// natsProcess is a NATS server in a process of its own, which can be killed.
type natsProcess struct {
	t       *testing.T
	conf    string // the file's path
	env     []string
	address string
	monitor string // URL
	cmd     *exec.Cmd
}

// startNATSProcess starts a NATS server that syncs every write. more is added to its
// configuration.
func startNATSProcess(t *testing.T, more string) *natsProcess {
	t.Helper()
	return startNATSProcessIn(t, t.TempDir(), "always", more)
}

// startNATSProcessIn starts one with its streams in a folder, which it syncs so often.
func startNATSProcessIn(t *testing.T, folder, sync, more string) *natsProcess {
	t.Helper()
	n := &natsProcess{t: t, conf: filepath.Join(t.TempDir(), "nats.conf"), address: freeAddress(t)}
	monitor := freeAddress(t)
	n.monitor = "http://" + monitor
	text := fmt.Sprintf("listen: %q\nhttp: %q\njetstream { store_dir: %q, sync_interval: %s }\n%s\n",
		n.address, monitor, filepath.Join(folder, "store"), sync, more)
	if err := os.WriteFile(n.conf, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	n.start()
	return n
}

// start starts the process, also again.
func (n *natsProcess) start() {
	n.t.Helper()
	program, err := natsProgram()
	if err != nil {
		n.t.Fatalf("%v: %s", err, program)
	}
	n.cmd = exec.Command(program, "-c", n.conf)
	n.cmd.Env = append(os.Environ(), n.env...)
	if err := n.cmd.Start(); err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(n.kill)
	waitFor(n.t, "the NATS server listens", func() bool {
		status, _, err := sendTo(http.MethodGet, n.monitor+"/healthz?js-server-only=true", "", nil)
		return err == nil && status == http.StatusOK
	})
}

// kill ends the process as a crash does.
func (n *natsProcess) kill() {
	_ = n.cmd.Process.Kill() // it may have ended already
	_, _ = n.cmd.Process.Wait()
}

// url is where clients without credentials connect.
func (n *natsProcess) url() string { return "nats://" + n.address }

// open are the flags of a server of Allot on a NATS that anybody may use.
func (n *natsProcess) open() []string { return openFlags(n.url(), n.monitor) }

func openFlags(url, monitor string) []string {
	return []string{"--nats-url", url, "--nats-monitor", monitor, "--accept-open-nats", "--cluster-lease", "1s"}
}

// logStreams are the streams of a log in an external NATS.
func logStreams(t *testing.T, url string) (names []string) {
	t.Helper()
	js, err := dial(t, url).JetStream()
	if err != nil {
		t.Fatal(err)
	}
	for name := range js.StreamNames() {
		if isLogStream(name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// filledStreams are those of a log's streams that have commits: not one that was made for
// the log to go on in, which is deleted if the log goes past.
func filledStreams(js nats.JetStreamContext) (names []string) {
	for stream := range js.Streams() {
		if name := stream.Config.Name; isLogStream(name) && stream.State.Msgs > 0 {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func isLogStream(name string) bool { return name == "ALLOT" || strings.HasPrefix(name, "ALLOT-") }

// launchOutside starts servers on an external NATS, whose log keeps some 20 commits.
func launchOutside(t *testing.T, servers int, flags []string, change ...func(*boundedReplicas)) *boundedReplicas {
	t.Helper()
	b := prepareBounded(t, change...)
	b.outside = flags
	for i := range servers {
		b.metrics[i] = freeAddress(t)
		b.again(i)
		if !b.list[i].waitServing() { // the next one finds a ledger
			t.Fatalf("server %d does not serve:\n%s", i+1, b.list[i].logs)
		}
	}
	b.leader()
	return b
}

// verified checks that the archive is good, and that everything can be exported over NATS.
func (b *boundedReplicas) verified(url string) {
	b.t.Helper()
	allot(b.t, true, "verify", "--archive", "file://"+b.archive)
	exported := filepath.Join(b.t.TempDir(), "exported")
	_, h := b.list[b.leader()].standing("/healthz")
	allot(b.t, true, "export", exported, "--config", flagFile(b.t, "nats-url: "+url)) // it may have a password
	out := allot(b.t, true, "verify", "--archive", exported)
	var good uint64 // more than there was if the log went on in another stream meanwhile
	_, _ = fmt.Sscanf(out, "log good up to sequence %d", &good)
	if good < h.Sequence {
		b.t.Errorf("the export does not have the %d commits: %s", h.Sequence, out)
	}
}

// TestHotLogOutside: the log of one server in an external NATS leaves for the archive,
// while clients write. The NATS server is killed meanwhile, and Allot is, and the archive
// is away: nothing that was acknowledged is lost, and all history can be read.
func TestHotLogOutside(t *testing.T) {
	t.Parallel()
	n := startNATSProcess(t, "")
	b := launchOutside(t, 1, n.open(), func(b *boundedReplicas) { b.flags = append(b.flags, "--cluster-wait", "30s") })
	all := &load{}
	b.goesOnLeaving(all)
	if names := logStreams(t, n.url()); slices.Contains(names, "ALLOT") || len(names) == 0 {
		t.Errorf("the log is in %q", names)
	}
	for range 3 {
		l := b.load(0)
		l.again.Store(true)
		time.Sleep(200 * time.Millisecond)
		n.kill()
		n.start()
		b.leaves(b.furthest() + 10)
		l.end(t)
		all.made = append(all.made, l.made...)
	}
	if err := os.Rename(b.archive, b.archive+".away"); err != nil {
		t.Fatal(err)
	}
	l := b.load(0)
	waitFor(t, "it is told that everything stays", func() bool {
		return readMetrics(t, b.metrics[0])["allot_hot_log_keeps"] == 1
	})
	was := b.first(0)
	time.Sleep(2 * time.Second)
	if now := b.first(0); now != was {
		t.Errorf("the archive is away, and the log began with %v, and begins with %v", was, now)
	}
	l.end(t)
	all.made = append(all.made, l.made...)
	b.list[0].terminate()
	b.again(0)
	if !b.list[0].waitServing() {
		t.Fatalf("without its archive: %s", b.list[0].logs)
	}
	if err := os.Rename(b.archive+".away", b.archive); err != nil {
		t.Fatal(err)
	}
	b.goesOnLeaving(all)
	waitFor(t, "the archive is read again", func() bool {
		status, _, err := b.list[0].call("GET", "/audit/records?from=1&limit=1", "", "")
		return err == nil && status == http.StatusOK
	})
	b.readsAll(all)
	b.verified(n.url())
	b.list[0].terminate()
	// Everything in the data folder but the high-water mark can be made again.
	for _, gone := range []string{"readmodel", "snapshots"} {
		if err := os.RemoveAll(filepath.Join(b.data(0), gone)); err != nil {
			t.Fatal(err)
		}
	}
	b.again(0, "--archive-copy-records", "0")
	if !b.list[0].waitServing() {
		t.Fatal(b.list[0].logs)
	}
	b.readsAll(all)
	b.list[0].terminate()
	start(t, b.data(0), append(n.open(), "--cluster-name", "1")...).refuses("name them with --archive")
}

// TestHotLogOutsidePowerCut: the power of the machine with the NATS server and Allot is cut
// after a step by which the log goes on or leaves, while clients write. Everything that was
// acknowledged is there when it is back, and the log goes on as before. With a NATS server
// that does not sync something is lost, or the test shows nothing.
func TestHotLogOutsidePowerCut(t *testing.T) {
	t.Parallel()
	steps := []string{"ready", "continued", "dropped"}
	if times(1, 2) > 1 {
		steps = hotLogSteps
	}
	t.Run("sync always", func(t *testing.T) {
		t.Parallel()
		m := launchOutsideOnDisk(t, "always")
		for _, step := range steps {
			m.cutAfter(step)
			if !m.list[0].waitServing() {
				t.Fatalf("cut after %s: %s", step, m.list[0].logs)
			}
			m.leader()
			m.all.holds(t, m.list[0])
			m.goesOnLeaving(&m.all)
		}
		tell(t, "power cut of an external NATS and Allot while the log goes on in another stream, or leaves", len(steps),
			fmt.Sprintf("%d acknowledged writes, 0 lost", len(m.all.made)))
		m.readsAll(&m.all)
		m.verified(m.nats.url())
	})
	t.Run("negative control", func(t *testing.T) {
		t.Parallel()
		m := launchOutsideOnDisk(t, "1h", "--accept-lazy-sync")
		m.cutAfter("continued")
		lost, body := len(m.all.made), ""
		if m.list[0].waitServing() { // or it says that the log has lost its end
			_, body, _ = m.list[0].call("GET", "/traits", "", "")
			lost = len(m.all.lost(body))
		}
		tell(t, "the same, negative control", 1, fmt.Sprintf("%d acknowledged writes, %d lost", len(m.all.made), lost))
		if lost == 0 {
			t.Error("a NATS server that does not sync lost nothing: the cut cuts nothing")
		}
	})
}

// outsideMachine is a machine with a NATS server and one server of Allot, on a disk of which
// the power can be cut.
type outsideMachine struct {
	*boundedReplicas
	disk  *disk
	nats  *natsProcess
	steps string // the file in which steps are ordered
	all   load
}

func launchOutsideOnDisk(t *testing.T, sync string, more ...string) *outsideMachine {
	t.Helper()
	m := &outsideMachine{disk: newDisk(t)}
	file, change := controlledSteps(t)
	m.steps, m.nats = file, startNATSProcessIn(t, m.disk.mount, sync, "")
	onDisk := func(b *boundedReplicas) { b.disks[0] = m.disk }
	m.boundedReplicas = launchOutside(t, 1, append(m.nats.open(), more...), change, onDisk)
	return m
}

// cutAfter cuts the power while clients write and the server waits after a step, and starts
// all again. It notes what was acknowledged.
func (m *outsideMachine) cutAfter(step string) {
	m.t.Helper()
	l := m.load(0)
	l.again.Store(true)
	orderStep(m.t, m.steps, "wait", step)
	m.disk.cut()
	m.nats.kill()
	m.lose(0)
	m.disk.remount()
	m.nats.start()
	m.all.made = append(m.all.made, l.tolerated()...) // requests under way fail
	m.again(0)
}

// TestHotLogOutsideKilled: one server on an external NATS is killed after each step by
// which the log goes on and leaves.
func TestHotLogOutsideKilled(t *testing.T) {
	t.Parallel()
	file, change := controlledSteps(t)
	ns := outside(t, t.TempDir(), -1, true)
	b := launchOutside(t, 1, openFlags(ns.ClientURL(), "http://"+ns.MonitorAddr().String()), change)
	all := &load{}
	for _, step := range hotLogSteps {
		l := b.load(0)
		orderStep(t, file, "end", step)
		<-b.list[0].exited
		all.made = append(all.made, l.tolerated()...)
		b.again(0)
		if !b.list[0].waitServing() {
			t.Fatalf("killed after %s: %s", step, b.list[0].logs)
		}
		b.leader()
		b.goesOnLeaving(all)
	}
	b.readsAll(all)
	b.verified(ns.ClientURL())
	if names := logStreams(t, ns.ClientURL()); len(names) > 8 { // a quarter of what is kept is in each
		t.Errorf("the log is in %q", names)
	}
}

// TestHotLogOutsideReplicas: of two servers on an external NATS the one that leads is
// killed, or stands still until the other one leads, after steps that only it carries out.
func TestHotLogOutsideReplicas(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"killed", "deposed"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			file, change := controlledSteps(t)
			ns := outside(t, t.TempDir(), -1, true)
			flags := openFlags(ns.ClientURL(), "http://"+ns.MonitorAddr().String())
			b := launchOutside(t, 2, append(flags, "--cluster-wait", "30s"), change)
			all := &load{}
			for _, step := range []string{"made", "continued", "noted"} {
				leader := b.leader()
				l := b.load(1 - leader)
				l.again.Store(true)
				if kind == "killed" {
					b.killedAt(file, step, leader)
				} else {
					b.deposedAt(file, step, leader)
				}
				l.end(t)
				all.made = append(all.made, l.made...)
				b.goesOnLeaving(all)
			}
			b.readsAll(all)
			b.verified(ns.ClientURL())
		})
	}
}

// killedAt has the server that leads end after a step, and starts it again.
func (b *boundedReplicas) killedAt(file, step string, leader int) {
	b.t.Helper()
	orderStep(b.t, file, "end", step)
	<-b.list[leader].exited
	b.again(leader) // while it is away, nothing goes on
	if !b.list[leader].waitServing() {
		b.t.Fatalf("killed after %s: %s", step, b.list[leader].logs)
	}
	b.leader()
}

// TestHotLogOutsideWaits: nothing leaves, and the log does not go on elsewhere, while one
// of the servers that are known is away, or is of a release that could not read that. If
// one refuses only that a part leaves, the log goes on, and keeps it.
func TestHotLogOutsideWaits(t *testing.T) {
	t.Parallel()
	ns := outside(t, t.TempDir(), -1, true)
	flags := openFlags(ns.ClientURL(), "http://"+ns.MonitorAddr().String())
	nc := dial(t, ns.ClientURL())
	js, err := nc.JetStream()
	if err != nil {
		t.Fatal(err)
	}
	bucket, err := js.CreateKeyValue(&nats.KeyValueConfig{Bucket: "ALLOT", History: 1})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := bucket.Put("member.old", fmt.Appendf(nil, `{"name":"old","level":%d}`, ledger.ContinuedLevel-1)); err != nil {
		t.Fatal(err)
	}
	b := launchOutside(t, 1, flags)
	all := &load{}
	stays := func(says string) {
		t.Helper()
		l := b.load(0)
		waitFor(t, "it is told that everything stays", func() bool {
			return readMetrics(t, b.metrics[0])["allot_hot_log_keeps"] == 1 && strings.Contains(b.list[0].logs.String(), says)
		})
		was := filledStreams(js) // what was agreed before may have been carried out until now
		time.Sleep(2 * time.Second)
		if now := filledStreams(js); !slices.Equal(now, was) {
			t.Errorf("%s: the streams were %q, and are %q", says, was, now)
		}
		l.end(t)
		all.made = append(all.made, l.made...)
	}
	stays("a known replica runs a release that could not read more")
	if err := bucket.Delete("member.old"); err != nil {
		t.Fatal(err)
	}
	b.goesOnLeaving(all)
	if _, err := bucket.Put("member.away", fmt.Appendf(nil, `{"name":"away","level":%d}`, ledger.Level)); err != nil {
		t.Fatal(err)
	}
	answers, err := nc.Subscribe("allot.cluster.*", func(msg *nats.Msg) {
		switch msg.Subject {
		case "allot.cluster.ready":
			_ = msg.Respond([]byte(`{"name":"away"}`))
		case "allot.cluster.leaving":
			_ = msg.Respond([]byte(`{"name":"away","why":"it reads that"}`))
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	l := b.load(0)
	waitFor(t, "it is told that a replica reads what is to leave", func() bool {
		return strings.Contains(b.list[0].logs.String(), "replica away: it reads that")
	})
	was := filledStreams(js)
	waitFor(t, "the log goes on in other streams", func() bool {
		now := filledStreams(js)
		if now[0] != was[0] {
			t.Fatalf("a replica reads what is to leave: the streams were %q, and are %q", was, now)
		}
		return len(now) >= len(was)+3
	})
	l.end(t)
	all.made = append(all.made, l.made...)
	if err := answers.Unsubscribe(); err != nil {
		t.Fatal(err)
	}
	stays("do not answer: [away]")
	allot(t, true, "cluster", "remove", "away", "--url", "http://"+b.list[0].http)
	b.goesOnLeaving(all)
	b.readsAll(all)
}

// TestHotLogOutsideCluster: two servers on an external cluster of three NATS servers with
// the documented permissions, of which one is killed: the log stays in its stream until it
// is back.
func TestHotLogOutsideCluster(t *testing.T) {
	t.Parallel()
	var routes []string
	for range 3 {
		routes = append(routes, freeAddress(t))
	}
	nodes := make([]*documentedNATS, 3)
	accounts := documentedAccounts(t)
	var begun sync.WaitGroup
	if program, err := natsProgram(); err != nil {
		t.Fatalf("%v: %s", err, program)
	}
	for i := range nodes {
		begun.Go(func() {
			nodes[i] = &documentedNATS{startNATSProcess(t, fmt.Sprintf(
				"server_name: \"n%d\"\ncluster { name: c, listen: %q, routes: [\"nats://%s\"] }\n%s",
				i, routes[i], strings.Join(routes, `", "nats://`), accounts,
			))}
		})
	}
	begun.Wait()
	url := nodes[0].as("allot-log")
	var logs, doors, flags []string
	for _, n := range nodes {
		logs, doors = append(logs, n.as("allot-log")), append(doors, n.as("allot-door"))
		flags = append(flags, "--nats-monitor", n.monitor)
	}
	flags = append(flags, "--cluster-wait", "40s", "--config", flagFile(t,
		"nats-url: "+strings.Join(logs, ","), "nats-door-url: "+strings.Join(doors, ","), "nats-probe: ["+nodes[1].as("nova")+"]"))
	waitFor(t, "the NATS servers know each other", func() bool {
		nc, err := nats.Connect(url)
		if err != nil {
			return false
		}
		defer nc.Close()
		js, err := nc.JetStream()
		if err != nil {
			return false
		}
		_, err = js.AddStream(&nats.StreamConfig{Name: "there", Replicas: 3})
		return err == nil || errors.Is(err, nats.ErrStreamNameAlreadyInUse)
	})
	b := launchOutside(t, 2, flags)
	all := &load{}
	b.goesOnLeaving(all)
	show := func(more ...string) string {
		return allot(t, true, append([]string{"cluster", "status", "--url", "http://" + b.list[0].http}, more...)...)
	}
	gone := slices.IndexFunc([]string{"n0", "n1", "n2"}, func(name string) bool {
		return strings.Contains(show("--json"), fmt.Sprintf(`"stream":{"leader":%q`, name))
	})
	if gone < 0 {
		t.Fatalf("the status does not name the NATS server that leads the stream: %s", show("--json"))
	}
	nodes[gone].kill()
	show() // though nobody answers for the stream
	l := b.load(0, 1)
	l.again.Store(true)
	waitFor(t, "it is told that everything stays", func() bool {
		return readMetrics(t, b.metrics[b.leader()])["allot_hot_log_keeps"] == 1
	})
	was := b.furthest()
	waitFor(t, "the status says that a NATS server is away", func() bool {
		status := show()
		if strings.Contains(status, "start one of that name") {
			t.Errorf("the status takes a NATS server for a replica: %s", status)
		}
		return strings.Contains(status, fmt.Sprintf("server n%d is away", gone)) || strings.Contains(status, fmt.Sprintf("server n%d lags", gone))
	})
	nodes[gone].start()
	b.leaves(was + 20)
	l.end(t)
	all.made = append(all.made, l.made...)
	b.readsAll(all)
	b.verified(nodes[0].as("root"))
}

// documentedNATS is a NATS server with the documented configuration, or one like it.
type documentedNATS struct {
	*natsProcess
}

// Passwords of the documented configuration.
var documentedUsers = map[string]string{
	"allot-log": "ALLOT_LOG_PASSWORD", "allot-door": "ALLOT_DOOR_PASSWORD", "nova": "NOVA_PASSWORD", "eve": "EVE_PASSWORD",
	"root": "ROOT_PASSWORD",
}

// documentedAccounts are the accounts of the documented configuration, with changes.
func documentedAccounts(t *testing.T, change ...string) string {
	t.Helper()
	text, err := os.ReadFile("../../docs/nats-server.conf")
	if err != nil {
		t.Fatal(err)
	}
	_, accounts, found := strings.Cut(string(text), "\naccounts {")
	if !found {
		t.Fatal("no accounts in the documented configuration")
	}
	changed := strings.NewReplacer(change...).Replace(accounts)
	if (len(change) > 0) != (changed != accounts) {
		t.Fatalf("%q changes nothing", change)
	}
	for _, variable := range documentedUsers {
		changed = strings.ReplaceAll(changed, "$"+variable, "secret-"+variable)
	}
	return "max_payload: 8MB\naccounts {" + changed
}

func startDocumented(t *testing.T, change ...string) *documentedNATS {
	t.Helper()
	return &documentedNATS{startNATSProcess(t, documentedAccounts(t, change...))}
}

// as is the URL of a user.
func (d *documentedNATS) as(user string) string {
	return "nats://" + user + ":secret-" + cmp.Or(documentedUsers[user], user) + "@" + d.address
}

// flags are those of a server of Allot.
func (d *documentedNATS) flags(t *testing.T, probes ...string) []string {
	t.Helper()
	lines := []string{
		"nats-url: " + d.as("allot-log"), "nats-door-url: " + d.as("allot-door"), "nats-monitor: " + d.monitor, "cluster-lease: 1s",
	}
	for i, user := range probes {
		probes[i] = d.as(user)
	}
	if len(probes) > 0 {
		lines = append(lines, "nats-probe: ["+strings.Join(probes, ", ")+"]")
	}
	return []string{"--config", flagFile(t, lines...)}
}

// TestHotLogOutsideMatrix: with the documented permissions the log goes on and leaves, and
// nobody but the log's user can publish on the subject of any of its streams, or make,
// change, empty, delete or read one.
func TestHotLogOutsideMatrix(t *testing.T) {
	t.Parallel()
	d := startDocumented(t)
	b := launchOutside(t, 1, d.flags(t, "nova", "eve", "root"))
	all := &load{}
	b.goesOnLeaving(all)
	own := dial(t, d.as("allot-log"))
	js, err := own.JetStream()
	if err != nil {
		t.Fatal(err)
	}
	state := func() (list []string) {
		for info := range js.Streams() {
			if strings.HasPrefix(info.Config.Name, "ALLOT-") {
				list = append(list, fmt.Sprint(info.Config.Name, info.Config.Subjects, info.State.LastSeq, info.Config.Description))
			}
		}
		slices.Sort(list)
		return list
	}
	was := state()
	for _, user := range []string{"allot-door", "nova", "eve", "root"} {
		nc := dial(t, d.as(user))
		for _, name := range logStreams(t, d.as("allot-log")) {
			if name == "ALLOT" {
				t.Fatal("the first stream has not left")
			}
			body := fmt.Sprintf(`{"name":%q,"subjects":["allot.log.x"]}`, name)
			for subject, data := range map[string]string{
				subjectOf(name):                     "x",
				"allot.log":                         "x",
				"$JS.API.STREAM.DELETE." + name:     "",
				"$JS.API.STREAM.PURGE." + name:      "{}",
				"$JS.API.STREAM.UPDATE." + name:     body,
				"$JS.API.STREAM.CREATE.ALLOT-x":     `{"name":"ALLOT-x","subjects":["allot.log.x"]}`,
				"$JS.API.STREAM.MSG.DELETE." + name: `{"seq":1}`,
				"$JS.API.DIRECT.GET." + name:        `{"seq":1}`,
				"$JS.API.STREAM.SNAPSHOT." + name:   `{"deliver_subject":"x"}`,
			} {
				answer, err := nc.Request(subject, []byte(data), 20*time.Millisecond)
				// Clients have accounts of their own, without JetStream.
				if err == nil && !strings.Contains(string(answer.Data), `"err_code":10039`) {
					t.Errorf("%s got an answer on %s: %s", user, subject, answer.Data)
				}
			}
		}
	}
	// The oldest may leave meanwhile, as they are to.
	if now := state(); len(now) == 0 || len(now) > len(was) || !slices.Equal(now, was[len(was)-len(now):]) {
		t.Errorf("the streams were %q, and are %q", was, now)
	}
	b.readsAll(all)
	b.list[0].terminate()
	if left := logStreamsBut(t, js); len(left) > 0 {
		t.Errorf("a start leaves the streams %q", left)
	}
}

// subjectOf is the subject of a stream of the log.
func subjectOf(stream string) string {
	parts := strings.Split(stream, "-")
	return "allot.log." + strings.Join(parts[1:], ".")
}

// logStreamsBut are the streams that are none of Allot's that stay.
func logStreamsBut(t *testing.T, js nats.JetStreamContext) (names []string) {
	t.Helper()
	for name := range js.StreamNames() {
		if name != "KV_ALLOT" && name != "ALLOT_REJECTED" && !strings.HasPrefix(name, "ALLOT-") {
			names = append(names, name)
		}
	}
	return names
}

// TestHotLogOutsideRights: a NATS server whose permissions are from before logs were
// bounded serves as before. With a bound, and where the log has gone on, the server ends
// with a sentence that names what is missing.
func TestHotLogOutsideRights(t *testing.T) {
	t.Parallel()
	older := startDocumented(t, `"allot.log.>", `, "")
	data := t.TempDir()
	s := launch(t, data, older.flags(t)...)
	s.makeProvider(10)
	s.terminate()
	bounded := []string{"--archive", "file://" + t.TempDir(), "--hot-log-records", "20", "--snapshot-records", "5"}
	start(t, data, append(older.flags(t), bounded...)...).refuses("it may not publish on allot.log.>", "docs/nats-server.conf")
	s = launch(t, data, older.flags(t)...)
	s.must(http.StatusOK, "GET", provider, "")
	s.terminate()
	if names := logStreams(t, older.as("allot-log")); !slices.Equal(names, []string{"ALLOT"}) {
		t.Errorf("the streams are %q", names)
	}
}

// TestHotLogOutsideOpen: a start finds clients that could publish on the subjects of the
// log's next streams, or delete these, though they can do nothing to the first one.
func TestHotLogOutsideOpen(t *testing.T) {
	t.Parallel()
	const users = `users: [
      { user: writes, password: "secret-writes", permissions: { publish: { deny: ["allot.log", "allot.rejected", "$JS.>"] }, subscribe: ["x"] } }
      { user: deletes, password: "secret-deletes", permissions: { publish: ["$JS.API.STREAM.DELETE.*"] } }
      { user: neither, password: "secret-neither", permissions: { publish: ["allot.command.>"] } }
`
	d := startDocumented(t, "users: [\n      # The log", users+"      # The log")
	bounded := []string{"--archive", "file://" + t.TempDir(), "--hot-log-records", "20", "--snapshot-records", "5"}
	data := t.TempDir()
	start(t, data, append(d.flags(t, "writes"), bounded...)...).refuses("can publish on allot.log.>", "--accept-open-nats")
	start(t, data, append(d.flags(t, "deletes"), bounded...)...).refuses("can delete the log's streams", "--accept-open-nats")
	launch(t, data, append(d.flags(t, "neither"), bounded...)...).makeProvider(10)
}
