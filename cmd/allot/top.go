package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"golang.org/x/term"

	"github.com/allot-project/allot/ledger"
)

// topCommand is "allot top": it shows what a server does now.
type topCommand struct {
	serverFlags `embed:""`
	Metrics     string        `help:"HOST:PORT of the server's metrics, as it stands in the server's own --metrics; empty: rates and latencies are left out."`
	Every       time.Duration `help:"Time between two looks." default:"2s" least:"100ms"`
	Rows        int           `help:"How many providers, projects and commands are shown." default:"8" least:"1"`
	Once        bool          `help:"Look once, over the time of --every, and end."`
	JSON        bool          `name:"json" help:"Print JSON, one object for each look."`
}

// holdingsEvery is the time between two looks at who holds how much, which take
// longer than the others.
const holdingsEvery = 15 * time.Second

// Run looks until the reader presses q or Ctrl-C, or the context ends.
func (c *topCommand) Run(ctx context.Context) error {
	live := !c.Once && !c.JSON && term.IsTerminal(int(os.Stdout.Fd())) && term.IsTerminal(int(os.Stdin.Fd()))
	if live {
		var restore func()
		var err error
		if ctx, restore, err = takeTerminal(ctx); err != nil {
			return err
		}
		defer restore()
	}
	watch := &topWatch{command: c}
	if err := watch.look(ctx); err != nil {
		return err
	}
	for wait(ctx, c.Every) {
		view, err := watch.view(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && !live:
			return err // scripts look at the exit code
		case err != nil:
			view = &topView{Time: time.Now(), Server: c.HTTP, Status: err.Error()} // it may come back
		}
		if err := c.show(view, live); err != nil || c.Once {
			return err
		}
	}
	return nil
}

// wait returns false if the context ends first.
func wait(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// The control sequences of terminals: another screen without a cursor, and back;
// and to the upper left corner, with what was below it cleared.
const (
	enterScreen = "\x1b[?1049h\x1b[?25l"
	leaveScreen = "\x1b[?25h\x1b[?1049l"
	clearScreen = "\x1b[H\x1b[J"
)

// takeTerminal shows another screen, and returns a context that ends with q or
// Ctrl-C. The caller calls restore.
func takeTerminal(ctx context.Context) (_ context.Context, restore func(), err error) {
	stdin := int(os.Stdin.Fd())
	before, err := term.MakeRaw(stdin)
	if err != nil {
		return ctx, nil, fmt.Errorf("the terminal cannot be read key by key; use --once: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	go func() { // it ends with the process: nobody can end a read of a terminal
		const ctrlC = 3
		key := make([]byte, 1)
		for {
			if n, err := os.Stdin.Read(key); err != nil || n == 1 && (key[0] == 'q' || key[0] == 'Q' || key[0] == ctrlC) {
				cancel()
				return
			}
		}
	}()
	fmt.Print(enterScreen)
	return ctx, func() {
		cancel()
		fmt.Print(leaveScreen)
		_ = term.Restore(stdin, before) // the shell does so, too
	}, nil
}

// show prints one look: in place of the last one on a terminal, otherwise below
// it.
func (c *topCommand) show(view *topView, live bool) error {
	if c.JSON {
		return ledger.PlainEncoder(os.Stdout).Encode(view)
	}
	var text bytes.Buffer
	if err := view.write(&text); err != nil {
		return err
	}
	if !live {
		text.WriteByte('\n')
		_, err := os.Stdout.Write(text.Bytes())
		return err
	}
	_, height, err := term.GetSize(int(os.Stdout.Fd()))
	if err != nil {
		return err
	}
	lines := strings.Split(strings.TrimRight(text.String(), "\n"), "\n")
	lines = lines[:min(len(lines), max(height-1, 1))]
	_, err = fmt.Print(clearScreen, strings.Join(lines, "\r\n"), "\r\n")
	return err
}

// write writes a look as tables.
func (v *topView) write(out io.Writer) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	say := func(format string, args ...any) {
		_, _ = fmt.Fprintf(table, format+"\n", args...) // it is in memory: Flush tells of the end
	}
	say("allot top  %s  %s  q ends", v.Server, v.Time.Format(time.TimeOnly))
	say("%s, sequence %d, %.1f commits/s: %s", cmp.Or(v.Role, "away"), v.Sequence, v.CommitsPerSecond, v.Status)
	if v.Rates == nil {
		say("no rates and latencies: start the server with --metrics HOST:PORT, and give the same here")
	} else {
		r := v.Rates
		say("%d commands wait, %.1f refused/s, lag %.0f commits, %s free", r.Waiting, r.RefusedPerSecond, r.LagCommits,
			bytesOf(r.DiskFreeBytes))
		say("\nDOOR\tREQUESTS/S\tFAULTS/S\tP50\tP99")
		for _, d := range r.Doors {
			say("%s\t%.1f\t%.1f\t%s\t%s", d.Name, d.PerSecond, d.FaultsPerSecond, seconds(d.P50), seconds(d.P99))
		}
		say("\nSTAGE\tCOMMITS/S\t\tP50\tP99")
		for _, s := range r.Stages {
			say("%s\t%.1f\t\t%s\t%s", s.Name, s.PerSecond, seconds(s.P50), seconds(s.P99))
		}
		say("\nCOMMAND\tANSWERED/S\tREJECTED/S\tP50\tP99")
		for _, one := range r.Commands {
			say("%s\t%.1f\t%.1f\t%s\t%s", one.Name, one.PerSecond, one.FaultsPerSecond, seconds(one.P50), seconds(one.P99))
		}
	}
	say("\nFULLEST PROVIDER\tCLASS\tUSED\tOF\tFULL")
	for _, p := range v.Providers {
		say("%s\t%s\t%d\t%d\t%.0f %%", p.Name, p.Class, p.Used, p.Capacity, 100*p.Full)
	}
	of := ""
	if v.Partial {
		of = fmt.Sprintf(" (among %d consumers)", maxTopPages*topPage)
	}
	say("\nBIGGEST PROJECT%s\tCONSUMERS\tHOLDS", of)
	for _, p := range v.Projects {
		say("%s\t%d\t%s", p.Project, p.Consumers, amounts(p.Holds))
	}
	return table.Flush()
}

// seconds is a latency for people.
func seconds(s float64) string {
	if s == 0 {
		return "-"
	}
	return time.Duration(s * float64(time.Second)).Round(10 * time.Microsecond).String()
}

// bytesOf is a size for people.
func bytesOf(n float64) string {
	const gib = 1 << 30
	return fmt.Sprintf("%.1f GiB", n/gib)
}
