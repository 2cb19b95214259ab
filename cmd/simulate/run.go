package main

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/allot-project/allot/cmd/simulate/disk"
	"github.com/allot-project/allot/cmd/simulate/judge"
	"github.com/allot-project/allot/cmd/simulate/machine"
	"github.com/allot-project/allot/ledger/proof"
)

// The shape of a run.
const (
	servers  = 3
	clients  = 9
	diskSize = 256 << 20
	// afterFaults is for how long clients go on after the last fault, and readyWithin how long servers
	// may take until all are ready then.
	afterFaults = 6 * time.Second
	readyWithin = 30 * time.Second
	// restartAfter is how long a supervisor waits before it starts a server again.
	restartAfter = time.Second
	// endWithin bounds a run.
	endWithin = 3 * time.Minute
)

// run is one simulated story.
type run struct {
	seed    uint64
	strict  bool // a sync of a file promises nothing about its name
	world   *machine.World
	servers []*server
	grounds []*ground
	pool    *pool
	deeds   []judge.Deed
	acks    []time.Duration
	// commands are those of every kind, and told, reads and followed what readers saw.
	commands []judge.Command
	told     []judge.Told
	signed   []proof.Kept // checkpoints
	roots    int          // of consumption, in the log
	reads    []read
	followed []record
	notified *notified
	wrong    []string
	resting  bool
	ended    bool
	begun    bool // the ledger has begun
	blocks   [servers][servers]int
	working  int // clients
	gap      time.Duration
	ready    time.Duration // when all servers were ready after the last fault
	commits  uint64
}

// server is one replica, and the supervisor that starts it again.
type server struct {
	*machine.Machine
	run    *run
	number int
	lives  int
	power  bool
	ready  bool
	unwell int // how often in a row it said that it makes no progress
}

// outcome is what a run showed.
type outcome struct {
	seed     uint64
	digest   string
	wrong    []string
	faults   []fault
	deeds    int
	commits  uint64
	commands []judge.Command
	roots    int
	gap      time.Duration
	ready    time.Duration
	took     time.Duration
}

// strict is whether file systems promise no more than POSIX.
var strict bool

// story is told what happens.
type story func(now time.Duration, who, what string)

// play runs one seed with some of its faults.
func play(program *machine.Program, seed uint64, faults []fault, tell story) *outcome {
	begun := time.Now()
	r := &run{seed: seed, strict: strict, world: machine.NewWorld(seed)}
	r.world.Story = tell
	random := rand.New(rand.NewPCG(seed, 0x776f726c64))
	for i := range servers {
		r.addServer(program, i)
	}
	for range providers {
		g := &ground{uuid: newUUID(random)}
		for i := range g.consumers {
			g.consumers[i] = newUUID(random)
		}
		r.grounds = append(r.grounds, g)
	}
	r.pool = newPool(random)
	for _, f := range faults {
		r.schedule(f)
	}
	first := r.servers[0]
	first.Ended = func(err error) {
		if err != nil {
			r.complain("allot init failed: %v", err)
			r.ended = true
			return
		}
		r.begun = true
		for _, s := range r.servers {
			s.serve()
		}
	}
	first.Start(environment, "allot", "init", "--data", "/data")
	r.world.NewClient("operator", 10<<24+2<<16+1, func(c *machine.Client) { r.operate(newCaller(c, patience), random) })
	for i, s := range r.servers {
		r.world.NewClient("supervisor of "+s.Name, 10<<24+2<<16+uint32(i)+10, func(c *machine.Client) {
			s.supervise(newCaller(c, 2*time.Second))
		})
	}
	r.world.Run(endWithin, func() bool { return r.ended })
	if !r.ended {
		r.complain("the run did not end within %v", endWithin)
	}
	for _, s := range r.servers {
		s.end()
	}
	return &outcome{
		seed: seed, digest: r.world.Digest(), wrong: r.wrong, faults: faults, deeds: len(r.deeds),
		commits: r.commits, commands: r.commands, roots: r.roots, gap: r.gap, ready: r.ready, took: time.Since(begun),
	}
}

// environment is that of the servers. They collect garbage seldom, which would take a fifth of a seed's time.
var environment = []string{"PWD=/", "TMPDIR=/tmp", "HOME=/", "GOGC=800"}

func (r *run) addServer(program *machine.Program, i int) {
	s := &server{
		Machine: r.world.NewMachine(fmt.Sprintf("server%d", i+1), 10<<24+uint32(i)+1, program, diskSize),
		run:     r, number: i, power: true,
	}
	s.Logged = func(text string) { s.logged(text) }
	for _, folder := range []string{"/tmp", "/data", "/etc"} {
		s.must(folder, true, "")
	}
	s.must("/etc/secret", false, strings.Repeat("s", 32))
	s.must("/etc/key", false, signingKey)
	s.Disk.SyncAll()
	s.Disk.Journal = !r.strict
	drift := float64(r.world.Random.IntN(2000)-1000) / 1e6
	s.Machine.SetClock(time.Duration(r.world.Random.IntN(100)-50)*time.Millisecond, drift)
	r.servers = append(r.servers, s)
}

// must makes a file or a folder on a new disk.
func (s *server) must(path string, folder bool, text string) {
	n, failed := s.Disk.Make(path, folder, 0)
	if failed == disk.OK && !folder {
		_, failed = s.Disk.WriteAt(n, []byte(text), 0, 0)
	}
	if failed != disk.OK {
		panic(fmt.Sprintf("%s cannot be made on a new disk: %d", path, failed))
	}
}

// The key with which servers sign checkpoints, and that with which these are verified.
const (
	signingKey = "PRIVATE+KEY+simulated+945211c8+Aa286nuWsWbU7rDtXvfqrg0GjHErogktFyJdLbRYxXs5"
	publicKey  = "simulated+945211c8+AcVcGIGq2gD7WGVs+G9PeHW3l9YdqciIe43/Q1bktnVl"
)

// SetClock makes the time of day wrong. How fast the clock runs stays.
func (s *server) SetClock(offset time.Duration) { s.Machine.SetClock(offset, s.Drift()) }

// serve starts the server.
func (s *server) serve() {
	s.lives++
	s.unwell = 0
	s.Ended = func(err error) {
		s.run.tell(s.Name, "has ended: %v", err)
		s.run.world.After(restartAfter, func() {
			if s.power && !s.Runs() && !s.run.ended {
				s.serve()
			}
		})
	}
	s.run.tell(s.Name, "starts, for the %d. time", s.lives)
	at := fmt.Sprintf("10.0.0.%d", s.number+1)
	s.Start(environment, "allot", "serve", "--data", "/data",
		"--http", fmt.Sprintf("%s:%d", at, httpPort), "--nats", at+":4222", "--cluster", "10.0.0.1:6222,10.0.0.2:6222,10.0.0.3:6222",
		"--cluster-name", s.Name, "--cluster-listen", at+":6222", "--cluster-http", at+":6223",
		"--cluster-secret-file", "/etc/secret", "--cluster-plaintext", "--allow-noauth", "--disk-reserve", "16MiB",
		"--signing-key", "/etc/key")
}

// end ends the server at once, and nothing starts it again.
func (s *server) end() {
	s.Ended, s.ready = func(error) {}, false
	s.KillNow()
}

// remove removes a file or a folder with all in it.
func (s *server) remove(path string) {
	if failed := s.Disk.RemoveAll(path); failed != disk.OK {
		s.run.complain("%s of %s cannot be removed: %d", path, s.Name, failed)
	}
}

func (s *server) powerOff(ordered bool) {
	if s.power {
		s.power, s.ready = false, false
		s.PowerOff(ordered)
	}
}

func (s *server) powerOn() {
	if !s.power && !s.run.ended {
		s.power = true
		s.PowerOn()
		if s.run.begun {
			s.serve()
		}
	}
}

// logged reads what a server writes: a panic is a fault whatever came before.
func (s *server) logged(text string) {
	s.run.tell(s.Name, "says %s", text)
	if strings.HasPrefix(text, "panic:") || strings.HasPrefix(text, "fatal error:") {
		s.run.complain("%s: %s", s.Name, text)
	}
}

// supervise asks a server how it is, as a supervisor does, and kills it if it says
// that it makes no progress.
func (s *server) supervise(c *caller) {
	for ; !s.run.ended; c.Sleep(250 * time.Millisecond) {
		if !s.Runs() {
			s.ready = false
			continue
		}
		found, err := c.ask(s.IP, http.MethodGet, "/readyz", "")
		if was := s.ready; was != (err == nil && found.status == http.StatusOK) {
			s.ready = !was
			s.run.tell(s.Name, "is ready: %v", s.ready)
		}
		if err == nil && found.status == http.StatusOK {
			s.unwell = 0
			continue
		}
		found, err = c.ask(s.IP, http.MethodGet, "/livez", "")
		if err != nil || found.status != http.StatusServiceUnavailable {
			s.unwell = 0
			continue
		}
		if s.unwell++; s.unwell == 8 {
			s.run.tell(s.Name, "is killed by its supervisor: %s", clip(found.text))
			s.Kill(1)
		}
	}
}

// block closes the way from one server to another, or opens it when nothing keeps it
// closed any more.
func (r *run) block(from, to, by int) {
	r.blocks[from][to] += by
	link := r.world.Link(r.servers[from].IP, r.servers[to].IP)
	if blocked := r.blocks[from][to] > 0; blocked != link.Blocked {
		link.Block(blocked)
	}
}

func (r *run) schedule(f fault) {
	r.world.After(f.at, func() {
		r.tell("fault", "begins: %s", f.about)
		f.begin(r)
	})
	if f.end != nil {
		r.world.After(f.at+f.lasts, func() {
			r.tell("fault", "ends: %s", f.about)
			f.end(r)
		})
	}
}

// operate begins the ledger's world, waits for faults to end, and judges what is left.
func (r *run) operate(c *caller, random *rand.Rand) {
	defer func() { r.ended = true }()
	// A ledger may begin while there are faults already.
	if !r.within(c, "all servers were ready", faultsUntil+readyWithin, r.allReady) {
		return
	}
	for _, g := range r.grounds {
		if err := g.make(c, r); err != nil {
			r.complain("make a provider: %v", err)
			return
		}
	}
	v := r.newVarious(c, random.Uint64())
	if err := r.pool.make(v); err != nil {
		r.complain("make the pool: %v", err)
		return
	}
	for i := range clients {
		r.begin(i, random.Uint64())
	}
	r.beginOthers(random)
	calm := max(c.Now(), faultsUntil)
	for c.Now() < calm {
		c.Sleep(50 * time.Millisecond)
	}
	if !r.within(c, "all servers were ready after the last fault", calm+readyWithin, r.allReady) {
		return
	}
	r.ready = c.Now() - calm
	for c.Now() < calm+afterFaults {
		c.Sleep(100 * time.Millisecond)
	}
	r.resting = true
	if !r.within(c, "all clients rested", c.Now()+time.Minute, func() bool { return r.working == 0 }) {
		return
	}
	if !r.theSame(c) {
		return
	}
	if r.seed%healEach != 1 {
		r.rebuild()
	} else if !r.heal(c, random) {
		return
	}
	if r.within(c, "all servers were ready with what their logs alone gave", c.Now()+readyWithin, r.allReady) && r.theSame(c) {
		r.compare(c)
	}
}

// rebuild ends all servers, removes what they have made of their logs, and starts them.
func (r *run) rebuild() {
	for _, s := range r.servers {
		s.end()
		s.remove("/data/readmodel")
		s.remove("/data/snapshots")
	}
	for _, s := range r.servers {
		s.serve()
	}
}

// within waits until something is so, and complains if it is not in time.
func (r *run) within(c *caller, what string, until time.Duration, is func() bool) bool {
	for !is() {
		if c.Now() > until {
			r.complain("it was not so that %s by %v", what, until)
			return false
		}
		c.Sleep(50 * time.Millisecond)
	}
	return true
}

func (r *run) allReady() bool {
	return !slices.ContainsFunc(r.servers, func(s *server) bool { return !s.ready })
}

// make makes the provider.
func (g *ground) make(c *caller, r *run) error {
	body := `{"name":"` + g.uuid + `","uuid":"` + g.uuid + `"}`
	const id = "Allot-Command-Id"
	if err := c.insist(r, http.MethodPost, "/resource_providers", body, id, g.consumers[places-1]); err != nil {
		return err
	}
	path := "/resource_providers/" + g.uuid + "/inventories"
	body = fmt.Sprintf(`{"resource_provider_generation":0,"inventories":{"VCPU":{"total":%d}}}`, capacity)
	return c.insist(r, http.MethodPut, path, body, id, g.consumers[places-2])
}

// insist sends a command through one server after the other until it is answered.
func (c *caller) insist(r *run, method, path, body string, headers ...string) error {
	for try := range 100 {
		found, err := c.ask(r.servers[try%servers].IP, method, path, body, headers...)
		switch {
		case err != nil || found.status == http.StatusServiceUnavailable:
			c.Sleep(300 * time.Millisecond)
		case found.status >= 300:
			return fmt.Errorf("%s %s: %d %s", method, path, found.status, found.text)
		default:
			return nil
		}
	}
	return fmt.Errorf("%s %s: no answer", method, path)
}

// begin begins a client: each provider has some, and each server one that reads what
// may be old.
func (r *run) begin(i int, seed uint64) {
	r.working++
	r.world.NewClient(fmt.Sprintf("client%d", i), 10<<24+1<<16+uint32(i)+1, func(m *machine.Client) {
		c := &client{caller: newCaller(m, patience), run: r, ground: i % providers, number: i}
		c.random = rand.New(rand.NewPCG(seed, 2))
		if i < servers {
			c.readStale(i)
		} else {
			c.live()
		}
		r.working--
	})
}

// newVarious is a client that sends commands of every kind.
func (r *run) newVarious(c *caller, seed uint64) *various {
	random := rand.New(rand.NewPCG(seed, 3))
	return &various{caller: c, run: r, random: random, nats: make(map[uint32]*requester)}
}

// beginOthers begins the clients that are about no single provider.
func (r *run) beginOthers(random *rand.Rand) {
	others := map[string]func(c *caller, seed uint64){
		"auditor":  func(c *caller, seed uint64) { r.audit(c, rand.New(rand.NewPCG(seed, 4))) },
		"follower": func(c *caller, seed uint64) { r.follow(c, rand.New(rand.NewPCG(seed, 5))) },
		"notified": func(c *caller, seed uint64) { r.notify(c, rand.New(rand.NewPCG(seed, 6))) },
		"various1": func(c *caller, seed uint64) { r.newVarious(c, seed).live() },
		"various2": func(c *caller, seed uint64) { r.newVarious(c, seed).live() },
	}
	for i, name := range slices.Sorted(maps.Keys(others)) {
		r.working++
		seed := random.Uint64()
		r.world.NewClient(name, 10<<24+3<<16+uint32(i)+1, func(m *machine.Client) {
			others[name](newCaller(m, patience), seed)
			r.working--
		})
	}
}

// acked notes that a command was acknowledged.
func (r *run) acked(at time.Duration) {
	if last := len(r.acks); last > 0 {
		r.gap = max(r.gap, at-r.acks[last-1])
	}
	r.acks = append(r.acks, at)
}

func (r *run) tell(who, format string, args ...any) { r.world.Tell(who, format, args...) }

// complain notes that something is wrong.
func (r *run) complain(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	r.wrong = append(r.wrong, text)
	r.tell("judge", "WRONG: %s", text)
}
