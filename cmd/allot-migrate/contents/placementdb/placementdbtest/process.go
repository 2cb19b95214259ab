package placementdbtest

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/allot-project/allot/ledger/ledgertest"
)

// Process is a server that can be stopped, killed, and started again. It ends with the test.
type Process struct {
	t   testing.TB
	end os.Signal // asks it to end

	mu  sync.Mutex // a fault may kill it while its test ends
	cmd *exec.Cmd  // guarded by mu
}

func start(t testing.TB, server *exec.Cmd, end os.Signal) *Process {
	t.Helper()
	p := &Process{t: t, end: end, cmd: server}
	ledgertest.OK(t, server.Start())
	t.Cleanup(p.Stop)
	return p
}

// Stop asks the server to end, and waits until it has.
func (p *Process) Stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	_ = p.cmd.Process.Signal(p.end) // it may have ended
	_ = p.cmd.Wait()
}

// Kill ends the server at once with all its processes, as a crash does.
func (p *Process) Kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	pid := p.cmd.Process.Pid
	children, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid)) // PostgreSQL has one for each client
	_ = p.cmd.Process.Kill()                                                       // it may have ended
	for _, child := range strings.Fields(string(children)) {
		if id, err := strconv.Atoi(child); err == nil {
			_ = syscall.Kill(id, syscall.SIGKILL) // it may have ended
		}
	}
	_ = p.cmd.Wait()
}

// Start starts the server again, as it was started first.
func (p *Process) Start() {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	old := p.cmd
	p.cmd = exec.Command(old.Path, old.Args[1:]...)
	p.cmd.Env, p.cmd.Dir, p.cmd.SysProcAttr = old.Env, old.Dir, old.SysProcAttr
	ledgertest.OK(p.t, p.cmd.Start())
}
