package main_test

import (
	"fmt"
	"math/rand"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// network is an IPv4 network of the test's own. Each replica has a network
// namespace, and the test's process is the wire between them. So the test can
// drop and delay packets in either direction of each pair, by a seed, with only
// the kernel's TUN device; not every kernel has netem. Hosts 1, 2 and 3 are the
// replicas, and clientHost is the test itself.
type network struct {
	t      *testing.T
	prefix string // of addresses: the first three bytes
	ports  map[byte]*os.File

	mu     sync.Mutex
	random *rand.Rand        // guarded by mu
	links  map[[2]byte]*link // from one host to another; guarded by mu
}

// link says what happens to packets in one direction.
type link struct {
	cut           bool
	loss          float64
	delay, jitter time.Duration
}

const clientHost = 254

// newNetwork makes the network, or skips the test where that is impossible.
func newNetwork(t *testing.T) *network {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("skipped: faults of the network need root to make network namespaces")
	}
	if _, err := exec.LookPath("ip"); err != nil {
		t.Skip("skipped: faults of the network need the program ip, of iproute2")
	}
	if _, err := os.Stat("/dev/net/tun"); err != nil {
		t.Skipf("skipped: faults of the network need TUN devices: %v", err)
	}
	n := &network{
		t: t, prefix: fmt.Sprintf("10.%d.%d.", 128+os.Getpid()%100, rand.Intn(256)), ports: make(map[byte]*os.File),
		random: rand.New(rand.NewSource(1)), links: make(map[[2]byte]*link),
	}
	removeStale()
	for _, host := range []byte{1, 2, 3, clientHost} {
		if err := n.plug(host); err != nil {
			t.Skipf("skipped: no network namespaces can be made here: %v", err)
		}
	}
	for host, port := range n.ports {
		go n.carry(host, port)
	}
	return n
}

// spaceNames begins the names of namespaces; the process that made one follows.
const spaceNames = "allot-test-"

// removeStale removes the namespaces of killed test processes, and the replicas
// that they left in them.
func removeStale() {
	entries, err := os.ReadDir("/run/netns")
	if err != nil {
		return // there is none
	}
	for _, entry := range entries {
		var pid, host int
		var where string
		name := strings.ReplaceAll(entry.Name(), "-", " ")
		if _, err := fmt.Sscanf(name, "allot test %d %s %d", &pid, &where, &host); err != nil {
			continue
		}
		if syscall.Kill(pid, 0) == syscall.ESRCH {
			left, _ := exec.Command("ip", "netns", "pids", entry.Name()).Output() // none are left
			for _, one := range strings.Fields(string(left)) {
				if pid, err := strconv.Atoi(one); err == nil {
					_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended
				}
			}
			_ = exec.Command("ip", "netns", "del", entry.Name()).Run() // another test may have been faster
		}
	}
}

// space returns the name of a host's namespace.
func (n *network) space(host byte) string {
	return fmt.Sprintf("%s%d-%s-%d", spaceNames, os.Getpid(), strings.ReplaceAll(n.prefix, ".", "_"), host)
}

func (n *network) address(host byte) string { return fmt.Sprint(n.prefix, host) }

// plug makes a host's end of the network, which exists as long as its file is
// open.
func (n *network) plug(host byte) error {
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	request, err := unix.NewIfreq("altest%d")
	if err != nil {
		return err
	}
	request.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI)
	if err := unix.IoctlIfreq(fd, unix.TUNSETIFF, request); err != nil {
		return fmt.Errorf("TUNSETIFF: %w", err)
	}
	port := os.NewFile(uintptr(fd), "tun")
	n.ports[host] = port
	n.t.Cleanup(func() { _ = port.Close() }) // the device goes with it
	device := request.Name()
	in := func(args ...string) []string { return args }
	if host != clientHost {
		if err := run("ip", "netns", "add", n.space(host)); err != nil {
			return err
		}
		n.t.Cleanup(func() { _ = run("ip", "netns", "del", n.space(host)) })
		if err := run("ip", "link", "set", device, "netns", n.space(host)); err != nil {
			return err
		}
		in = func(args ...string) []string { return append([]string{args[0], "-n", n.space(host)}, args[1:]...) }
	}
	for _, args := range [][]string{
		in("ip", "addr", "add", n.address(host)+"/24", "dev", device), in("ip", "link", "set", device, "mtu", "9000", "up"),
		in("ip", "link", "set", "lo", "up"),
	} {
		if err := run(args...); err != nil {
			return err
		}
	}
	return nil
}

func run(args ...string) error {
	if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", strings.Join(args, " "), err, out)
	}
	return nil
}

// carry delivers the packets that one host sends.
func (n *network) carry(from byte, port *os.File) {
	for packet := make([]byte, 1<<16); ; {
		size, err := port.Read(packet)
		if err != nil {
			return // the test has ended
		}
		if size < 20 || packet[0]>>4 != 4 {
			continue // IPv6 discovers neighbours
		}
		to, late, lost := n.fate(from, packet[19])
		switch {
		case to == nil || lost:
		case late == 0:
			_, _ = to.Write(packet[:size]) // a lost packet is sent again
		default:
			later := append([]byte(nil), packet[:size]...)
			time.AfterFunc(late, func() { _, _ = to.Write(later) })
		}
	}
}

// fate decides what happens to a packet.
func (n *network) fate(from, to byte) (port *os.File, late time.Duration, lost bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	w := n.links[[2]byte{from, to}]
	if w == nil {
		return n.ports[to], 0, false
	}
	late = w.delay
	if w.jitter > 0 {
		late += time.Duration(n.random.Int63n(int64(2*w.jitter))) - w.jitter
	}
	return n.ports[to], max(late, 0), w.cut || n.random.Float64() < w.loss
}

// between changes the links from some replicas to others.
func (n *network) between(from, to []int, w link) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, a := range from {
		for _, b := range to {
			if a != b {
				n.links[[2]byte{byte(a + 1), byte(b + 1)}] = &w
			}
		}
	}
}

// isolate cuts one replica off from the others, in both directions.
func (n *network) isolate(i int) {
	n.between([]int{i}, others(i), link{cut: true})
	n.between(others(i), []int{i}, link{cut: true})
}

// heal mends all links.
func (n *network) heal() {
	n.mu.Lock()
	defer n.mu.Unlock()
	clear(n.links)
}

// others are all replicas but one.
func others(i int) []int { return []int{(i + 1) % 3, (i + 2) % 3} }
