package machine

import (
	"context"
	"encoding/binary"
	"math"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/sys"

	"github.com/allot-project/allot/cmd/simulate/disk"
)

// call is a call of a program to its machine. The arguments are on a stack.
type call func(c *calling) disk.Errno

// calling is a call that is under way.
type calling struct {
	*running
	memory api.Memory
	args   []uint64
}

func (c *calling) u32(i int) uint32 { return uint32(c.args[i]) }
func (c *calling) i64(i int) int64  { return int64(c.args[i]) }

// put32 and put64 write a result where the argument says.
func (c *calling) put32(i int, v uint32) { c.memory.WriteUint32Le(c.u32(i), v) }
func (c *calling) put64(i int, v uint64) { c.memory.WriteUint64Le(c.u32(i), v) }

// bytes returns the program's memory at an address, which must be there.
func (c *calling) bytes(at, size uint32) []byte {
	data, ok := c.memory.Read(at, size)
	if !ok {
		panic("a program names memory that it does not have")
	}
	return data
}

func (c *calling) text(at, size int) string { return string(c.bytes(c.u32(at), c.u32(size))) }

// What calls cost in time: without it, a loop that waits for time to pass would
// never end.
const (
	lookCost  = int64(time.Microsecond)
	callCost  = int64(2 * time.Microsecond)
	writeCost = int64(5 * time.Microsecond)
)

// calls are all calls that programs make, by module and name, with the types of
// their arguments.
var calls = []struct {
	module, name, types string
	do                  call
}{
	{wasi, "args_get", "ii", func(c *calling) disk.Errno { return c.strings(c.running.args) }},
	{wasi, "args_sizes_get", "ii", func(c *calling) disk.Errno { return c.sizes(c.running.args) }},
	{wasi, "environ_get", "ii", func(c *calling) disk.Errno { return c.strings(c.env) }},
	{wasi, "environ_sizes_get", "ii", func(c *calling) disk.Errno { return c.sizes(c.env) }},
	{wasi, "clock_time_get", "iIi", clockTimeGet},
	{wasi, "random_get", "ii", randomGet},
	{wasi, "poll_oneoff", "iiii", pollOneoff},
	{wasi, "sched_yield", "", func(c *calling) disk.Errno { c.spend(lookCost); return disk.OK }},
	{wasi, "fd_close", "i", fdClose},
	{wasi, "fd_fdstat_get", "ii", fdStat},
	{wasi, "fd_fdstat_set_flags", "ii", fdSetFlags},
	{wasi, "fd_fdstat_set_rights", "iII", func(*calling) disk.Errno { return disk.OK }},
	{wasi, "fd_filestat_get", "ii", fdFileStat},
	{wasi, "fd_filestat_set_size", "iI", fdSetSize},
	{wasi, "fd_pread", "iiiIi", fdPread},
	{wasi, "fd_prestat_get", "ii", fdPrestat},
	{wasi, "fd_prestat_dir_name", "iii", fdPrestatName},
	{wasi, "fd_pwrite", "iiiIi", fdPwrite},
	{wasi, "fd_read", "iiii", fdRead},
	{wasi, "fd_readdir", "iiiIi", fdReaddir},
	{wasi, "fd_seek", "iIii", fdSeek},
	{wasi, "fd_sync", "i", fdSync},
	{wasi, "fd_write", "iiii", fdWrite},
	{wasi, "path_create_directory", "iii", pathMkdir},
	{wasi, "path_filestat_get", "iiiii", pathStat},
	{wasi, "path_filestat_set_times", "iiiiIIi", pathSetTimes},
	{wasi, "path_link", "iiiiiii", pathLink},
	{wasi, "path_open", "iiiiiIIii", pathOpen},
	{wasi, "path_readlink", "iiiiii", func(*calling) disk.Errno { return disk.Invalid }},
	{wasi, "path_remove_directory", "iii", func(c *calling) disk.Errno { return c.remove(true) }},
	{wasi, "path_rename", "iiiiii", pathRename},
	{wasi, "path_symlink", "iiiii", func(*calling) disk.Errno { return disk.Forbidden }},
	{wasi, "path_unlink_file", "iii", func(c *calling) disk.Errno { return c.remove(false) }},
	{wasi, "sock_accept", "iii", sockAccept},
	{wasi, "sock_shutdown", "ii", sockShutdown},
	{own, "since_boot", "", nil}, // it has a result of its own
	{own, "room", "iiii", room},
	{own, "listen", "iiii", sockListen},
	{own, "dial", "iiiii", sockDial},
	{own, "connected", "i", sockConnected},
	{own, "peer", "iii", sockPeer},
}

const (
	wasi = "wasi_snapshot_preview1"
	own  = "machine"
)

// exportCalls gives programs their calls.
func exportCalls(ctx context.Context, r wazero.Runtime) error {
	for _, module := range []string{wasi, own} {
		b := r.NewHostModuleBuilder(module)
		for number, c := range calls {
			if c.module == module && c.do != nil {
				do := handler(uint64(number), c.do)
				b.NewFunctionBuilder().WithGoModuleFunction(do, types(c.types), types("i")).Export(c.name)
			}
		}
		switch module {
		case wasi:
			exit := func(ctx context.Context, m api.Module, stack []uint64) { panic(sys.NewExitError(uint32(stack[0]))) }
			b.NewFunctionBuilder().WithGoModuleFunction(api.GoModuleFunc(exit), types("i"), nil).Export("proc_exit")
		case own:
			boot := func(ctx context.Context, m api.Module, stack []uint64) {
				c := calling{ctx.(processor).run, m.Memory(), stack}
				c.spend(lookCost)
				stack[0] = uint64(c.machine.uptime(c.now))
			}
			b.NewFunctionBuilder().WithGoModuleFunction(api.GoModuleFunc(boot), nil, types("I")).Export("since_boot")
		}
		if _, err := b.Instantiate(ctx); err != nil {
			return err
		}
	}
	return nil
}

func types(letters string) (list []api.ValueType) {
	for _, l := range letters {
		list = append(list, map[rune]api.ValueType{'i': api.ValueTypeI32, 'I': api.ValueTypeI64}[l])
	}
	return list
}

// handler carries out a call, and adds it to the digest.
func handler(number uint64, do call) api.GoModuleFunction {
	return api.GoModuleFunc(func(ctx context.Context, m api.Module, stack []uint64) {
		c := calling{ctx.(processor).run, m.Memory(), stack}
		var results [1]uint64
		if len(stack) == 0 {
			c.args = results[:]
		}
		failed := do(&c)
		c.machine.world.note(number<<32|uint64(failed), uint64(c.now))
		c.args[0] = uint64(failed)
	})
}

// spend is time that a call takes. A program that was to be killed at one of its
// calls is killed here.
func (r *running) spend(cost int64) {
	r.calls++
	if r.killIn > 0 {
		if r.killIn--; r.killIn == 0 {
			panic(errKilled)
		}
	}
	r.now += cost
	if r.now > r.world.next()+int64(50*time.Microsecond) {
		r.pass()
	}
}

func clockTimeGet(c *calling) disk.Errno {
	c.spend(lookCost)
	if c.u32(0) == 0 {
		c.put64(2, uint64(c.machine.wall(c.now)))
	} else {
		c.put64(2, uint64(c.machine.uptime(c.now)+int64(time.Second))) // Go takes 0 for no time
	}
	return disk.OK
}

func randomGet(c *calling) disk.Errno {
	for data := c.bytes(c.u32(0), c.u32(1)); len(data) > 0; {
		var word [8]byte
		binary.LittleEndian.PutUint64(word[:], c.machine.random.Uint64())
		data = data[copy(data, word[:]):]
	}
	return disk.OK
}

// strings writes texts where the arguments say.
func (c *calling) strings(list []string) disk.Errno {
	at, text := c.u32(0), c.u32(1)
	for _, s := range list {
		c.memory.WriteUint32Le(at, text)
		c.memory.WriteString(text, s+"\x00")
		at, text = at+4, text+uint32(len(s))+1
	}
	return disk.OK
}

func (c *calling) sizes(list []string) disk.Errno {
	total := 0
	for _, s := range list {
		total += len(s) + 1
	}
	c.put32(0, uint32(len(list)))
	c.put32(1, uint32(total))
	return disk.OK
}

// Sizes of what poll_oneoff reads and writes.
const (
	subscriptionSize = 48
	eventSize        = 32
)

// pollOneoff waits until a time, or until a file can be used.
func pollOneoff(c *calling) disk.Errno {
	c.spend(lookCost)
	in, out, n := c.u32(0), c.u32(1), int(c.u32(2))
	until := int64(never)
	for i := range n {
		sub := c.bytes(in+uint32(i)*subscriptionSize, subscriptionSize)
		if sub[8] != 0 {
			continue
		}
		wait := int64(min(binary.LittleEndian.Uint64(sub[24:]), math.MaxInt64/4))
		if sub[40]&1 != 0 {
			wait -= c.machine.uptime(c.now) + int64(time.Second)
		}
		until = min(until, c.now+c.machine.lasts(max(0, wait)))
	}
	for {
		if found := c.ready(in, out, n, until); found > 0 || until <= c.now {
			c.put32(3, uint32(found))
			return disk.OK
		}
		if until != never {
			c.wake(until)
		}
		c.rest()
		if c.killIn > 0 {
			c.spend(0)
		}
	}
}

// ready writes the events that have happened.
func (c *calling) ready(in, out uint32, n int, until int64) (found int) {
	for i := range n {
		sub := c.bytes(in+uint32(i)*subscriptionSize, subscriptionSize)
		kind := sub[8]
		var is bool
		switch kind {
		case 0:
			is = until <= c.now && n == 1
		default:
			f := c.file(binary.LittleEndian.Uint32(sub[16:]))
			is = f == nil || f.can(kind == 1)
		}
		if !is {
			continue
		}
		event := c.bytes(out+uint32(found)*eventSize, eventSize)
		clear(event)
		copy(event, sub[:8])
		event[10] = kind
		found++
	}
	return found
}
