package notices_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/allot-project/allot/api/client"
	"github.com/allot-project/allot/api/natsapi"
	"github.com/allot-project/allot/api/notices"
	"github.com/allot-project/allot/api/wire"
	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/commandstest"
	"github.com/allot-project/allot/commands/writer"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/ledgertest"
)

// BenchmarkFollowers commits as fast as it can, in turns without followers and
// with 100 in another process, each of which follows a project of its own. Every
// fifth command is about one of these projects. Look at notices/s and slower-%.
func BenchmarkFollowers(b *testing.B) {
	f := newFollowed(b)
	var took [2]time.Duration
	told := 0
	for round := range rounds {
		if round%2 == 0 {
			took[0] += f.load(b, b.N/rounds)
			continue
		}
		f.process.say(b, "follow")
		before := f.next.Load() / share
		took[1] += f.load(b, b.N/rounds)
		want := int(f.next.Load()/share - before)
		if got := f.process.say(b, fmt.Sprint("stop ", want)); got != want {
			b.Errorf("%d notices of %d", got, want)
		}
		told += want
	}
	commands := float64(b.N/rounds) * rounds / 2
	b.ReportMetric(commands/took[0].Seconds(), "alone/s")
	b.ReportMetric(commands/took[1].Seconds(), "followed/s")
	b.ReportMetric(float64(told)/took[1].Seconds(), "notices/s")
	b.ReportMetric(100*(1-took[0].Seconds()/took[1].Seconds()), "slower-%")
	b.ReportMetric(0, "ns/op")
}

// followURL is the environment variable with the server's address for a process
// that follows.
const followURL = "ALLOT_BENCH_FOLLOW"

// TestMain runs the followers' process, if it is started as such.
func TestMain(m *testing.M) {
	if url := os.Getenv(followURL); url != "" {
		if err := followAll(url); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// followAll follows, and stops as the lines of its input say: after "stop N" it
// waits for N notices. It answers each line with how many there were.
func followAll(url string) error {
	var told atomic.Int64
	var failure error
	stop := func() {}
	var conns []*nats.Conn
	for range followers {
		conn, err := nats.Connect(url)
		if err != nil {
			return err
		}
		conns = append(conns, conn)
	}
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		want := 0
		if _, err := fmt.Sscanf(lines.Text(), "stop %d", &want); err != nil {
			told.Store(0)
			ctx, cancel := context.WithCancel(context.Background())
			var following sync.WaitGroup
			for i, conn := range conns {
				following.Go(func() {
					err := client.New(conn, client.Options{}).
						Follow(ctx, client.Following{Of: wire.OfProject, Name: fmt.Sprint("p", i)}, func(wire.Notice) error {
							told.Add(1)
							return nil
						})
					if ctx.Err() == nil {
						failure = err
					}
				})
			}
			stop = func() {
				cancel()
				following.Wait()
			}
			time.Sleep(500 * time.Millisecond) // until all follow
		} else {
			ledgertest.Comes(20*time.Second, func() bool { return told.Load() >= int64(want) })
			stop()
		}
		fmt.Println(told.Load())
		if failure != nil {
			return failure
		}
	}
	return nil
}

// process is the followers' process.
type process struct {
	in  io.Writer
	out *bufio.Scanner
}

func startFollowers(b *testing.B, url string) *process {
	cmd := exec.Command("nice", "-n", "19", os.Args[0])
	cmd.Env = append(os.Environ(), followURL+"="+url)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _, _ = in.Close(), cmd.Wait() }) // the benchmark has ended
	return &process{in, bufio.NewScanner(out)}
}

// say tells the process what to do, and returns how many notices it has seen.
func (p *process) say(b *testing.B, line string) int {
	if _, err := fmt.Fprintln(p.in, line); err != nil {
		b.Fatal(err)
	}
	if !p.out.Scan() {
		b.Fatal("the followers have ended")
	}
	n, err := strconv.Atoi(p.out.Text())
	if err != nil {
		b.Fatal(err)
	}
	return n
}

const (
	followers = 100
	rounds    = 20
	// share is how many commands there are for each notice: with some 50,000 a
	// second that makes 10,000 notices.
	share = 5
)

// followed is a ledger that can be followed.
type followed struct {
	l        *commandstest.Ledger
	provider ledger.UUID
	process  *process
	next     atomic.Int64
}

func newFollowed(b *testing.B) *followed {
	dir := b.TempDir()
	log, ns := commandstest.JetStream(b, dir, false)
	l := commandstest.Start(b, dir, log)
	provider := l.Provider(b, "p", commands.Inventory{Class: "VCPU", Total: ledger.MaxAmount})
	nc, err := ns.ConnectNotices()
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(nc.Close)
	door, err := ns.ConnectDoor()
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(door.Close)
	state := ledger.NewState()
	err = ledger.ReadCommits(b.Context(), log, ledger.Head{}, l.Views.Checkpoint().Sequence, func(c *ledger.Commit) error {
		_, err := state.Fold(c)
		return err
	})
	if err != nil {
		b.Fatal(err)
	}
	if err := l.Writer.Close(); err != nil {
		b.Fatal(err)
	}
	publisher := notices.Start(
		l.Views,
		notices.Config{
			Conn: nc, Ledger: state.LedgerID(), Interest: ns.Interest, Listening: ns.Listening,
			Logger: slog.New(slog.DiscardHandler),
		},
	)
	b.Cleanup(publisher.Stop)
	l.Writer = writer.New(log, publisher, state, writer.Options{Now: time.Now})
	svc, err := natsapi.Start(door, natsapi.Config{
		Commands: l.Writer, Version: "0.0.1", Actor: "bench", Logger: slog.New(slog.DiscardHandler),
		Queries: &natsapi.Queries{Views: l.Views, Log: log, Now: time.Now},
	})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = svc.Stop() }) // the benchmark has ended
	return &followed{l: l, provider: provider, process: startFollowers(b, ns.ClientURL())}
}

// load submits n commands from many goroutines.
func (f *followed) load(b *testing.B, n int) time.Duration {
	begun := time.Now()
	left := int64(n)
	var work sync.WaitGroup
	for range 256 {
		work.Go(func() {
			for atomic.AddInt64(&left, -1) >= 0 {
				c := commandstest.Allocate(commandstest.NewID(), f.provider, "VCPU", 1)
				c.Allocations[0].Project = "other"
				if i := f.next.Add(1); i%share == 0 {
					c.Allocations[0].Project = fmt.Sprint("p", i/share%followers)
				}
				f.l.Accept(b, c)
			}
		})
	}
	work.Wait()
	return time.Since(begun)
}
