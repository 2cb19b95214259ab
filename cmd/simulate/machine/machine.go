package machine

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	goruntime "runtime"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/experimental"
	"github.com/tetratelabs/wazero/sys"

	"github.com/allot-project/allot/cmd/simulate/disk"
)

// Program is a compiled program, which any number of machines run.
type Program struct {
	runtime  wazero.Runtime
	module   wazero.CompiledModule
	memories memories
}

// Load compiles a program for this processor; a folder keeps the result.
func Load(ctx context.Context, path, cacheFolder string) (*Program, error) {
	code, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	cache, err := wazero.NewCompilationCacheWithDir(filepath.Join(cacheFolder, "compiled"))
	if err != nil {
		return nil, err
	}
	p := &Program{runtime: wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfigCompiler().WithCompilationCache(cache))}
	if err := exportCalls(ctx, p.runtime); err != nil {
		return nil, err
	}
	workers := experimental.WithCompilationWorkers(ctx, goruntime.NumCPU())
	if p.module, err = p.runtime.CompileModule(workers, code); err != nil {
		return nil, err
	}
	collapse()
	return p, nil
}

// Machine is a simulated computer.
type Machine struct {
	*Host
	Disk *disk.Disk
	// Logged is told each line that its program writes.
	Logged func(line string)
	// Ended is told when its program has ended, and how; nil: it was killed.
	Ended func(err error)

	program *Program
	run     *running // nil: nothing runs
	random  *rand.Rand
	offset  time.Duration // of its clock
	drift   float64       // how much faster its clock is
	booted  int64
	syncs   time.Duration // what a sync takes, about
	line    []byte
}

// running is a program that runs on a machine.
type running struct {
	process
	machine *Machine
	args    []string
	env     []string
	files   []*file
	killIn  int // after how many calls it is killed; 0: not
	calls   uint64
	end     error
}

// NewMachine puts a machine on the network.
func (w *World) NewMachine(name string, ip uint32, p *Program, size int64) *Machine {
	random := rand.New(rand.NewPCG(w.Random.Uint64(), uint64(ip)))
	return &Machine{
		Host: w.host(ip, name), program: p, random: random, Disk: disk.New(size, random),
		Logged: func(string) {}, Ended: func(error) {}, booted: w.now,
		syncs: time.Duration(200_000 + w.Random.IntN(1_000_000)),
	}
}

// Start starts a program.
func (m *Machine) Start(env []string, args ...string) {
	r := &running{machine: m, args: args, env: env}
	r.files = []*file{{kind: input}, {kind: output}, {kind: output}, {kind: folder, node: m.Disk.Root, path: "/"}}
	m.run = r
	r.done = func() { m.stopped(r.end) }
	r.start(m.world, r.main)
}

// Runs reports whether its program runs.
func (m *Machine) Runs() bool { return m.run != nil }

// processor is the context by which calls find the program that makes them.
type processor struct {
	context.Context
	run *running
}

// main runs the program to its end.
func (r *running) main() {
	ctx := processor{experimental.WithMemoryAllocator(context.Background(), &r.machine.program.memories), r}
	instance, err := r.machine.program.runtime.InstantiateModule(ctx, r.machine.program.module,
		wazero.NewModuleConfig().WithName("").WithStartFunctions())
	if err != nil {
		r.end = err
		return
	}
	_, r.end = instance.ExportedFunction("_start").Call(ctx)
	var code *sys.ExitError
	if errors.As(r.end, &code) && code.ExitCode() == 0 {
		r.end = nil
	}
	if err := instance.Close(ctx); err != nil {
		r.end = errors.Join(r.end, err)
	}
}

// stopped cleans up what a program leaves, as an operating system does.
func (m *Machine) stopped(err error) {
	r := m.run
	m.run = nil
	for _, f := range r.files {
		if f != nil {
			f.close(max(m.world.now, r.now))
		}
	}
	if killedBy(err) {
		err = nil
		m.world.Tell(m.Name, "was killed")
	}
	m.Ended(err)
}

// errKilled is what a program ends with that was killed.
var errKilled = errors.New("killed")

func killedBy(err error) bool { return errors.Is(err, errKilled) }

// Signal sends a signal to the program.
func (m *Machine) Signal(number byte) {
	if m.run != nil {
		m.run.files[0].signals = append(m.run.files[0].signals, number)
		m.run.woken()
	}
}

// Kill kills the program, as SIGKILL does, at one of its next calls.
func (m *Machine) Kill(calls int) {
	if m.run != nil {
		m.run.killIn = max(1, calls)
	}
}

// KillNow kills the program between two calls.
func (m *Machine) KillNow() {
	if r := m.run; r != nil {
		r.kill()
		m.stopped(errKilled)
	}
}

// Hold stops the program, or lets it go on, as SIGSTOP and SIGCONT do.
func (m *Machine) Hold(held bool) {
	if m.run != nil {
		m.run.hold(held)
	}
}

// PowerOff takes the machine's power: its disk keeps what was synced, and any part
// of the rest.
func (m *Machine) PowerOff(ordered bool) {
	ended := m.Ended
	m.Ended = func(error) {}
	m.off()
	m.KillNow()
	m.Ended = ended
	for _, unsynced := range m.Disk.Unsynced() {
		m.world.Tell(m.Name, "had not synced %s", unsynced)
	}
	m.Disk.Cut(m.random, ordered)
}

// PowerOn gives it back.
func (m *Machine) PowerOn() {
	m.booted = m.world.now
	m.on()
}

// SetClock sets the machine's clock, and how much faster it runs.
func (m *Machine) SetClock(offset time.Duration, drift float64) {
	m.offset, m.drift = offset, drift
}

// epoch is what the time is when the world begins, in seconds since 1970: an hour ends 20 s later.
const epoch = 1_700_002_800 - 20

// uptime is the time since the machine was booted, by its own clock.
func (m *Machine) uptime(now int64) int64 {
	up := now - m.booted
	return up + int64(float64(up)*m.drift)
}

// wall is the time of day by the machine's clock.
func (m *Machine) wall(now int64) int64 {
	return epoch*int64(time.Second) + int64(m.offset) + now + int64(float64(now)*m.drift)
}

// lasts is how long something lasts that the machine's clock measures.
func (m *Machine) lasts(by int64) int64 { return by - int64(float64(by)*m.drift/(1+m.drift)) }

// log tells what the program writes, line by line.
func (m *Machine) log(data []byte) {
	for _, b := range data {
		if b != '\n' {
			m.line = append(m.line, b)
			continue
		}
		m.Logged(string(m.line))
		m.line = m.line[:0]
	}
}

// String implements fmt.Stringer.
func (m *Machine) String() string {
	return fmt.Sprintf("%s (%d.%d.%d.%d)", m.Name, m.IP>>24, m.IP>>16&255, m.IP>>8&255, m.IP&255)
}

// Drift is how much faster the machine's clock runs.
func (m *Machine) Drift() float64 { return m.drift }
