// Command simulate runs a cluster of real servers on simulated machines, whose time,
// network and disks a seed decides, and judges what clients see.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/allot-project/allot/cmd/simulate/guest"
	"github.com/allot-project/allot/cmd/simulate/machine"
)

func main() {
	var o options
	flag.StringVar(&o.root, "root", ".", "folder of the module whose server is run")
	flag.Uint64Var(&o.seed, "seed", 0, "play this seed, and tell its story")
	flag.Uint64Var(&o.from, "from", 0, "first seed; 0: one that is new")
	flag.Uint64Var(&o.seeds, "seeds", 0, "how many seeds; 0: until it is stopped")
	flag.StringVar(&o.with, "with", "", "play only those seeds of them one of whose faults is told with these words")
	flag.IntVar(&o.workers, "workers", runtime.NumCPU(), "how many seeds are played at once")
	flag.Uint64Var(&o.twice, "twice", 50, "play each of so many seeds twice, and compare")
	flag.BoolVar(&o.first, "first", false, "end with the first seed that fails")
	flag.BoolVar(&o.verbose, "v", false, "tell what servers say, too")
	flag.BoolVar(&strict, "strict", false, "let file systems promise no more than POSIX: a sync of a file is none of its name")
	flag.BoolVar(&o.shrink, "shrink", true, "look for the faults that matter if a seed fails")
	flag.Parse()
	if err := o.main(); err != nil {
		fmt.Fprintln(os.Stderr, "simulate:", err)
		os.Exit(1)
	}
}

// options are the flags.
type options struct {
	root, with        string
	seed, from, seeds uint64
	twice             uint64
	workers           int
	verbose, shrink   bool
	first             bool
}

func (o *options) main() error {
	program, err := load(o.root)
	if err != nil {
		return err
	}
	if o.seed != 0 {
		return o.tell(program)
	}
	if o.from == 0 {
		o.from = uint64(time.Now().Unix()) // new, and short enough to be typed
	}
	return o.many(program)
}

// load compiles the server.
func load(root string) (*machine.Program, error) {
	begun := time.Now()
	wasm, err := guest.Build(root)
	if err != nil {
		return nil, err
	}
	built := time.Since(begun)
	folder, err := guest.Folder()
	if err != nil {
		return nil, err
	}
	program, err := machine.Load(context.Background(), wasm, folder)
	if err == nil {
		fmt.Printf("compiled in %v and %v\n", built.Round(time.Second), (time.Since(begun) - built).Round(time.Second))
	}
	return program, err
}

// tell plays one seed, and prints what happened.
func (o *options) tell(program *machine.Program) error {
	found := play(program, o.seed, plan(o.seed), func(now time.Duration, who, what string) {
		if o.verbose || !strings.HasPrefix(what, "says ") || strings.Contains(what, "level=ERROR") {
			fmt.Printf("%12.6f  %-12s %s\n", now.Seconds(), who, what)
		}
	})
	fmt.Println(found)
	if len(found.wrong) == 0 {
		return nil
	}
	if o.shrink {
		shrink(program, found)
	}
	return fmt.Errorf("seed %d fails", o.seed)
}

// silent is the story of a seed that is not told.
func silent(time.Duration, string, string) {}

// String implements fmt.Stringer.
func (o *outcome) String() string {
	text := fmt.Sprintf("seed %d: %d faults, %d requests, %d commits, %d roots of consumption, "+
		"longest without an acknowledged command %.1f s, ready %.1f s after all faults, digest %s, %.1f s",
		o.seed, len(o.faults), o.deeds, o.commits, o.roots, o.gap.Seconds(), o.ready.Seconds(), o.digest, o.took.Seconds())
	for _, wrong := range o.wrong {
		text += "\n  WRONG: " + wrong
	}
	return text
}

// shrink leaves out faults, one after the other, without which a seed fails, too.
func shrink(program *machine.Program, failed *outcome) {
	faults := failed.faults
	for i := 0; i < len(faults); {
		fewer := append(append([]fault(nil), faults[:i]...), faults[i+1:]...)
		if found := play(program, failed.seed, fewer, silent); len(found.wrong) > 0 {
			faults = fewer
		} else {
			i++
		}
	}
	fmt.Printf("%d of %d faults matter:\n", len(faults), len(failed.faults))
	for _, f := range faults {
		fmt.Println("  " + f.String())
	}
}

// many plays seeds, some at a time.
func (o *options) many(program *machine.Program) error {
	var (
		mu     sync.Mutex
		failed []uint64
		hours  time.Duration
		all    errgroup.Group
		enough atomic.Bool
	)
	begun := time.Now()
	all.SetLimit(o.workers)
	for seed := o.from; (o.seeds == 0 || seed < o.from+o.seeds) && !enough.Load(); seed++ {
		faults := plan(seed)
		if !slices.ContainsFunc(faults, func(f fault) bool { return strings.Contains(f.about, o.with) }) {
			continue
		}
		all.Go(func() error {
			found := play(program, seed, faults, silent)
			if o.twice > 0 && seed%o.twice == 0 {
				if again := play(program, seed, faults, silent); again.digest != found.digest {
					found.wrong = append(found.wrong, "the simulator is at fault: the seed gave "+again.digest+" the second time")
				}
			}
			mu.Lock()
			defer mu.Unlock()
			fmt.Println(found)
			hours += faultsUntil + afterFaults
			if len(found.wrong) > 0 {
				failed = append(failed, seed)
				enough.Store(o.first)
			}
			return nil
		})
	}
	_ = all.Wait()
	fmt.Printf("%d seeds in %v, %.1f simulated hours, %d failed: %v\n",
		o.seeds, time.Since(begun).Round(time.Second), hours.Hours(), len(failed), failed)
	if len(failed) > 0 {
		return fmt.Errorf("%d seeds fail", len(failed))
	}
	return nil
}
