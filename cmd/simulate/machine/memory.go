package machine

import (
	"fmt"
	"os"
	"strings"
	"sync"

	"github.com/tetratelabs/wazero/experimental"
	"golang.org/x/sys/unix"
)

// memories keeps the memory of programs that have ended for the next ones, so that
// neither a collector looks at it nor anything copies it when it grows.
type memories struct {
	mu   sync.Mutex
	free [][]byte
}

// reserved is how much a program may have at most; only what it uses is there.
const reserved = 1 << 31

func (m *memories) Allocate(_, limit uint64) experimental.LinearMemory {
	m.mu.Lock()
	defer m.mu.Unlock()
	if last := len(m.free) - 1; last >= 0 {
		all := m.free[last]
		m.free = m.free[:last]
		return &memory{of: m, all: all}
	}
	const private = unix.MAP_PRIVATE | unix.MAP_ANON | unix.MAP_NORESERVE
	all, err := unix.Mmap(-1, 0, reserved, unix.PROT_READ|unix.PROT_WRITE, private)
	if err != nil {
		panic(err) // there is no address space left
	}
	_ = unix.Madvise(all, unix.MADV_HUGEPAGE) // if the kernel cannot, it is slower
	return &memory{of: m, all: all}
}

type memory struct {
	of  *memories
	all []byte
}

// Reallocate implements experimental.LinearMemory.
func (m *memory) Reallocate(size uint64) []byte {
	if size > reserved {
		return nil
	}
	return m.all[:size:reserved]
}

// Free implements experimental.LinearMemory.
func (m *memory) Free() {
	if err := unix.Madvise(m.all, unix.MADV_DONTNEED); err != nil {
		panic(err) // zeros are what the next program counts on
	}
	m.of.mu.Lock()
	defer m.of.mu.Unlock()
	m.of.free = append(m.of.free, m.all)
	m.all = nil
}

// collapse moves compiled code to large pages, if the kernel can: programs jump about in hundreds of
// megabytes, and most of their time would go by while addresses are looked up.
func collapse() {
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return // it is slower, and the same
	}
	for line := range strings.Lines(string(maps)) {
		var from, to, offset, inode uint64
		var how, device string
		_, err := fmt.Sscanf(line, "%x-%x %s %x %s %d", &from, &to, &how, &offset, &device, &inode)
		if err != nil || how != "r-xp" || inode != 0 {
			continue
		}
		const large = 2 << 20
		if from = (from + large - 1) / large * large; from+large <= to {
			_, _, _ = unix.Syscall(unix.SYS_MADVISE, uintptr(from), uintptr((to-from)/large*large), unix.MADV_COLLAPSE)
		}
	}
}
