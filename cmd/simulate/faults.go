package main

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"time"
)

// fault is something that goes wrong at a time, and is right again after another.
type fault struct {
	at, lasts time.Duration
	about     string
	begin     func(r *run)
	end       func(r *run) // nil: there is nothing to end
}

func (f fault) String() string {
	return fmt.Sprintf("%v, for %v: %s", f.at.Round(time.Millisecond), f.lasts.Round(time.Millisecond), f.about)
}

// faultsFrom and faultsUntil are when faults begin and have ended.
const (
	faultsFrom  = 6 * time.Second
	faultsUntil = 36 * time.Second
)

// kind is a kind of fault, and how often it is chosen beside the others.
type kind struct {
	name  string
	often int
	make  func(random *rand.Rand, f *fault)
}

var stop, apart = kind{"stop", 3, planStop}, kind{"apart", 4, planApart}

var kinds = []kind{
	{"kill", 5, planKill},
	{"end", 3, planEnd},
	{"power", 5, planPower},
	{"blackout", 1, planBlackout},
	stop,
	apart,
	{"lose", 3, planLose},
	{"slow link", 2, planSlowLink},
	{"clock", 3, planClock},
	{"slow disk", 2, planSlowDisk},
	{"full disk", 2, planFullDisk},
	{"disk errors", 2, planDiskErrors},
	{"rot", 2, planRot},
}

// aloneEach is of how many seeds one has few faults, in each of which a server is alone for long:
// it takes the others seconds to elect another leader beside it.
const aloneEach = 5

// plan decides the faults of a seed.
func plan(seed uint64) (faults []fault) {
	random := rand.New(rand.NewPCG(seed, 0x6661756c7473))
	of, count, shortest, longest := kinds, 6+random.IntN(6), 100, 10_000
	if seed%aloneEach == 0 {
		of, count, shortest, longest = []kind{stop, apart}, 2, 8_000, 16_000
	}
	total := 0
	for _, k := range of {
		total += k.often
	}
	for range count {
		f := fault{lasts: time.Duration(shortest+random.IntN(longest-shortest)) * time.Millisecond}
		f.at = faultsFrom + time.Duration(random.Int64N(int64(faultsUntil-faultsFrom-f.lasts)))
		n := random.IntN(total)
		for _, k := range of {
			if n -= k.often; n < 0 {
				k.make(rand.New(rand.NewPCG(random.Uint64(), 1)), &f)
				break
			}
		}
		faults = append(faults, f)
	}
	slices.SortFunc(faults, func(a, b fault) int { return int(a.at - b.at) })
	return faults
}

func planKill(random *rand.Rand, f *fault) {
	s, calls := random.IntN(servers), 1+random.IntN(20000)
	if random.IntN(2) == 0 {
		calls = 1 + random.IntN(200)
	}
	f.lasts = 0
	f.about = fmt.Sprintf("server %d is killed at its %dth call from now", s+1, calls)
	f.begin = func(r *run) { r.servers[s].Kill(calls) }
}

func planEnd(random *rand.Rand, f *fault) {
	s := random.IntN(servers)
	f.lasts = 0
	f.about = fmt.Sprintf("server %d is told to end", s+1)
	f.begin = func(r *run) { r.servers[s].Signal(byte(syscall.SIGTERM)) }
}

func planPower(random *rand.Rand, f *fault) {
	s, ordered := random.IntN(servers), random.IntN(3) > 0
	f.lasts = min(f.lasts, 8*time.Second)
	f.about = fmt.Sprintf("server %d has no power; its file system kept the order of changes of folders: %v", s+1, ordered)
	f.begin = func(r *run) { r.servers[s].powerOff(ordered) }
	f.end = func(r *run) { r.servers[s].powerOn() }
}

func planBlackout(random *rand.Rand, f *fault) {
	ordered := random.IntN(3) > 0
	f.lasts = min(f.lasts, 3*time.Second)
	f.about = fmt.Sprintf("all servers have no power; their file systems kept the order of changes of folders: %v", ordered)
	f.begin = func(r *run) {
		for _, s := range r.servers {
			s.powerOff(ordered)
		}
	}
	f.end = func(r *run) {
		for _, s := range r.servers {
			s.powerOn()
		}
	}
}

func planStop(random *rand.Rand, f *fault) {
	s := random.IntN(servers)
	f.about = fmt.Sprintf("server %d is stopped", s+1)
	f.begin = func(r *run) { r.servers[s].Hold(true) }
	f.end = func(r *run) { r.servers[s].Hold(false) }
}

// planApart cuts a server off from one other, or from both, in one direction or in
// both.
func planApart(random *rand.Rand, f *fault) {
	a := random.IntN(servers)
	b := (a + 1 + random.IntN(servers-1)) % servers
	both, all := random.IntN(2) == 0, random.IntN(2) == 0
	f.about = fmt.Sprintf("server %d does not reach server %d (both ways: %v; nor any other: %v)", a+1, b+1, both, all)
	set := func(blocked int) func(r *run) {
		return func(r *run) {
			for other := range r.servers {
				if other == a || other != b && !all {
					continue
				}
				r.block(a, other, blocked)
				if both {
					r.block(other, a, blocked)
				}
			}
		}
	}
	f.begin, f.end = set(1), set(-1)
}

func planLose(random *rand.Rand, f *fault) {
	a := random.IntN(servers)
	b := (a + 1 + random.IntN(servers-1)) % servers
	share, halfOpen := random.Float64(), random.IntN(3) == 0
	f.lasts = 0
	f.about = fmt.Sprintf("connections between servers %d and %d are lost; half open: %v", a+1, b+1, halfOpen)
	f.begin = func(r *run) {
		r.tell("network", "%d connections are lost", r.world.Cut(r.servers[a].IP, r.servers[b].IP, share, halfOpen))
	}
}

func planSlowLink(random *rand.Rand, f *fault) {
	a := random.IntN(servers)
	b := (a + 1 + random.IntN(servers-1)) % servers
	delay, rate := time.Duration(random.IntN(800))*time.Millisecond, int64(2000+random.IntN(200_000))
	f.about = fmt.Sprintf("the way from server %d to server %d takes %v and carries %d bytes a second", a+1, b+1, delay, rate)
	f.begin = func(r *run) {
		l := r.world.Link(r.servers[a].IP, r.servers[b].IP)
		l.Delay, l.Jitter, l.Rate = delay, delay/2+1, rate
	}
	f.end = func(r *run) {
		l := r.world.Link(r.servers[a].IP, r.servers[b].IP)
		l.Delay, l.Jitter, l.Rate = 200*time.Microsecond, 300*time.Microsecond, 0
	}
}

func planClock(random *rand.Rand, f *fault) {
	s := random.IntN(servers)
	offset := time.Duration(random.IntN(7200)-3600) * time.Second
	f.about = fmt.Sprintf("the time of day of server %d is wrong by %v", s+1, offset)
	f.begin = func(r *run) { r.servers[s].SetClock(offset) }
	f.end = func(r *run) { r.servers[s].SetClock(0) }
}

func planSlowDisk(random *rand.Rand, f *fault) {
	s, slow := random.IntN(servers), time.Duration(5+random.IntN(300))*time.Millisecond
	f.about = fmt.Sprintf("each sync of server %d takes %v", s+1, slow)
	f.begin = func(r *run) { r.servers[s].Disk.Faults.Slow = slow }
	f.end = func(r *run) { r.servers[s].Disk.Faults.Slow = 0 }
}

func planFullDisk(random *rand.Rand, f *fault) {
	s, left := random.IntN(servers), int64(random.IntN(64<<10))
	f.about = fmt.Sprintf("the disk of server %d has %d bytes left", s+1, left)
	f.begin = func(r *run) {
		d := r.servers[s].Disk
		d.Faults.Size -= d.Free() - min(left, d.Free())
	}
	f.end = func(r *run) { r.servers[s].Disk.Faults.Size = diskSize }
}

func planDiskErrors(random *rand.Rand, f *fault) {
	s, how := random.IntN(servers), random.Float64()
	how *= how
	which := random.IntN(3)
	f.about = fmt.Sprintf("%.0f %% of all %s of server %d fail", how*100, []string{"reads", "writes", "syncs"}[which], s+1)
	set := func(how float64) func(r *run) {
		return func(r *run) {
			faults := &r.servers[s].Disk.Faults
			*[]*float64{&faults.Reads, &faults.Writes, &faults.Syncs}[which] = how
		}
	}
	f.begin, f.end = set(how), set(0)
}

// rots is the server whose disk rots. Of the others, which fill its log again, at least one
// must have each commit.
const rots = 2

// blocksFolder is where a server's log is.
const blocksFolder = "/data/log/jetstream/$G/streams/ALLOT/msgs/"

// planRot flips bits of files that Allot judges, while the server is off.
func planRot(random *rand.Rand, f *fault) {
	bits, seed := 1+random.IntN(3), random.Uint64()
	folder := []string{blocksFolder, "/data/readmodel/", "/data/snapshots/"}[random.IntN(3)]
	f.lasts = min(f.lasts, 3*time.Second)
	f.about = fmt.Sprintf("server %d has no power, and %d bits below %s are flipped", rots+1, bits, folder)
	f.begin = func(r *run) {
		s, random := r.servers[rots], rand.New(rand.NewPCG(seed, 1))
		s.powerOff(true)
		for range bits {
			path, at, _ := s.Disk.Flip(random, 0, 1, func(path string) bool { return strings.HasPrefix(path, folder) })
			r.tell(s.Name, "a bit is flipped: byte %d of %s", at, path)
		}
	}
	f.end = func(r *run) { r.servers[rots].powerOn() }
}
