package main

import (
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/allot-project/allot/cmd/simulate/disk"
)

const (
	// healEach is of how many seeds one ends with damage to every log.
	healEach = 3
	// waitsFor is how long no server may be ready then.
	waitsFor = 10 * time.Second
)

// heal damages the logs of all servers, each in another part, or cuts the power of all and takes the disks of two. It
// does what docs/cluster.md tells an operator: one server gets what all copies have together, and the others begin as
// they wait.
func (r *run) heal(c *caller, random *rand.Rand) bool {
	lost := random.IntN(2) == 0
	for i, s := range r.servers {
		if !lost {
			s.end()
			s.rot(random)
			s.serve()
			continue
		}
		s.powerOff(true)
		if i > 0 {
			s.remove("/data")
			s.must("/data", true, "")
			s.must("/data/rejoin", false, "")
		}
		s.powerOn()
	}
	for until := c.Now() + waitsFor; c.Now() < until; c.Sleep(50 * time.Millisecond) {
		if i := slices.IndexFunc(r.servers, func(s *server) bool { return s.ready }); i >= 0 {
			r.complain("%s was ready with a damaged log", r.servers[i].Name)
			return false
		}
	}
	first := r.servers[0]
	first.end()
	heal := []string{"allot", "cluster", "heal", "--data", "/data"}
	for _, other := range r.servers[1:] {
		if lost {
			break
		}
		copied := "/" + other.Name
		if failed := first.Disk.Copy(other.Disk, "/data", copied); failed != disk.OK {
			r.complain("the data folder of %s cannot be copied: %d", other.Name, failed)
			return false
		}
		heal = append(heal, "--archive", copied)
	}
	if !first.carryOut(c, heal...) {
		return false
	}
	first.serve()
	return true
}

// rot flips bits of the server's log, in the part of it that is this server's alone.
func (s *server) rot(random *rand.Rand) {
	for range 1 + random.IntN(8) {
		path, at, _ := s.Disk.Flip(random, 3*s.number+1, 3*servers, func(path string) bool {
			return strings.HasPrefix(path, blocksFolder)
		})
		s.run.tell(s.Name, "a bit is flipped: byte %d of %s", at, path)
	}
}

// carryOut runs a command on the server's machine, and reports whether it ended well.
func (s *server) carryOut(c *caller, arguments ...string) bool {
	ended, what := false, strings.Join(arguments, " ")
	s.Ended = func(err error) {
		if ended = true; err != nil {
			s.run.complain("%s failed: %v", what, err)
		}
	}
	s.run.tell(s.Name, "carries out %s", what)
	s.Start(environment, arguments...)
	failed := len(s.run.wrong)
	return s.run.within(c, what+" ended", c.Now()+readyWithin, func() bool { return ended }) && len(s.run.wrong) == failed
}
