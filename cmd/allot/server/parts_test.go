package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/allot-project/allot/ledger/ledgertest"
)

// diary lists what happened to parts, in order.
type diary struct {
	mu    sync.Mutex
	lines []string // guarded by mu
}

func (d *diary) note(what, name string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lines = append(d.lines, what+name)
}

// wants compares what happened since the last call with words such as +a (a
// started), !a (it was interrupted) and -a (it was stopped).
func (d *diary) wants(t *testing.T, words string) {
	t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	if got := strings.Join(d.lines, " "); got != words {
		t.Errorf("what happened:\n %s, want\n %s", got, words)
	}
	d.lines = nil
}

// part returns a part that notes what happens to it.
func (d *diary) part(in phase, name string) part {
	return part{
		phase: in, name: name,
		start: func(context.Context) error { d.note("+", name); return nil },
		stop:  func() error { d.note("-", name); return nil },
	}
}

// list has a part in each phase, two in lead, and one of follow at the end, as
// the server has. b can be interrupted.
func (d *diary) list() []part {
	b := d.part(follow, "b")
	b.interrupt = func() { d.note("!", "b") }
	return []part{d.part(open, "a"), b, d.part(lead, "c"), d.part(lead, "d"), d.part(follow, "e")}
}

func quietParts(list []part) *partList { return newPartList(slog.New(slog.DiscardHandler), list...) }

// TestFailingPart: for each place in the list, the parts that started before it
// stop in the reverse order, later parts do not start, and all errors are
// returned.
func TestFailingPart(t *testing.T) {
	all := (&diary{}).list()
	for i := range all {
		t.Run(all[i].name, func(t *testing.T) {
			var d diary
			list, broken, stuck := d.list(), errors.New("broken"), errors.New("stuck")
			list[i].start = func(context.Context) error { return broken }
			if i > 0 {
				list[0].stop = func() error { d.note("-", "a"); return stuck }
			}
			err := quietParts(list).start(t.Context(), open, follow, lead)
			if !errors.Is(err, broken) || errors.Is(err, stuck) != (i > 0) {
				t.Errorf("got %v", err)
			}
			var want []string
			for _, one := range list[:i] {
				want = append(want, "+"+one.name)
			}
			if i > 1 {
				want = append(want, "!b")
			}
			for _, one := range slices.Backward(list[:i]) {
				want = append(want, "-"+one.name)
			}
			d.wants(t, strings.Join(want, " "))
		})
	}
}

// TestStopDuringStart: a part that takes long is interrupted, and the start ends.
// Then no part runs, whether that part has looked at its context or not.
func TestStopDuringStart(t *testing.T) {
	for _, obeys := range []bool{true, false} {
		t.Run(fmt.Sprint("obeys ", obeys), func(t *testing.T) {
			var d diary
			list, under := d.list(), make(chan struct{})
			list[2].start = func(ctx context.Context) error {
				d.note("+", "c")
				close(under)
				<-ctx.Done()
				if obeys {
					return context.Cause(ctx)
				}
				return nil
			}
			list[1].interrupt = nil // TestInterruptedStart tests when it comes
			p := quietParts(list)
			started := make(chan error, 1)
			go func() { started <- p.start(t.Context(), open, follow, lead) }()
			<-under
			ledgertest.OK(t, p.stop(open, follow, lead))
			if err := <-started; !errors.Is(err, errStopped) {
				t.Errorf("got %v", err)
			}
			if obeys {
				d.wants(t, "+a +b +c -b -a")
			} else {
				d.wants(t, "+a +b +c -c -b -a")
			}
		})
	}
}

// TestInterruptedStart: a part may wait, without a look at its context, for one
// that has started. That one is interrupted when the start is to end.
func TestInterruptedStart(t *testing.T) {
	var d diary
	list, given, waits := d.list(), make(chan struct{}), make(chan struct{})
	list[1].interrupt = sync.OnceFunc(func() { close(given) })
	list[2].start = func(context.Context) error { close(waits); <-given; return errors.New("gave up") }
	ctx, cancel := context.WithCancel(t.Context())
	started := make(chan error, 1)
	go func() { started <- quietParts(list).start(ctx, open, follow, lead) }()
	<-waits
	cancel()
	if err := <-started; err == nil || !strings.HasSuffix(err.Error(), "gave up") {
		t.Errorf("got %v", err)
	}
	d.wants(t, "+a +b -b -a")
}

// TestPartFailsAtRunTime: a part that ends by itself is reported; a part that
// ends because it is stopped is not.
func TestPartFailsAtRunTime(t *testing.T) {
	broken := errors.New("broken")
	for name, c := range map[string]struct{ returns, want error }{
		"with an error": {broken, broken}, "without one": {nil, errors.New("d has ended by itself")},
		"stopped": {broken, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var d diary
			list, end := d.list(), make(chan struct{})
			finish := sync.OnceFunc(func() { close(end) })
			list[3].run = func() error { <-end; d.note("~", "d"); return c.returns }
			list[3].stop = func() error { d.note("-", "d"); finish(); return nil }
			p := quietParts(list)
			ledgertest.OK(t, p.start(t.Context(), open, follow, lead))
			if c.want != nil {
				finish()
				if f := <-p.failed; f.err == nil || f.err.Error() != c.want.Error() || f.past() {
					t.Errorf("got %v", f)
				}
			}
			ledgertest.OK(t, p.stop(open, follow, lead))
			if c.want == nil {
				d.wants(t, "+a +b +c +d +e !b -e -d ~d -c -b -a")
			} else {
				d.wants(t, "+a +b +c +d +e ~d !b -e -d -c -b -a")
			}
			select {
			case f := <-p.failed:
				t.Errorf("it was stopped, and yet told: %v", f)
			default:
			}
		})
	}
}

// TestPartFailsWhileOthersStart: a start that waits ends with why a part has failed, whether that
// began in this start or in an earlier one.
func TestPartFailsWhileOthersStart(t *testing.T) {
	broken := errors.New("broken")
	for name, c := range map[string]struct {
		fails, waits int
		first        []phase
		want         string
	}{
		"of the same start":      {1, 4, nil, "+a +b +c +d +e -d -c -b -a"},
		"of an earlier start":    {1, 3, []phase{open, follow}, "+a +b +e +c +d -c -e -b -a"},
		"of the phase that ends": {2, 3, []phase{open, follow}, "+a +b +e +c +d -c -e -b -a"},
	} {
		t.Run(name, func(t *testing.T) {
			var d diary
			list, waits := d.list(), make(chan struct{})
			list[1].interrupt = nil // TestInterruptedStart tests when it comes
			list[c.fails].run = func() error { <-waits; return broken }
			list[c.waits].start = func(ctx context.Context) error {
				d.note("+", list[c.waits].name)
				close(waits)
				<-ctx.Done()
				return ctx.Err()
			}
			p := quietParts(list)
			ledgertest.OK(t, p.start(t.Context(), c.first...))
			if err := p.start(t.Context(), open, follow, lead); !errors.Is(err, broken) {
				t.Errorf("got %v", err)
			}
			ledgertest.OK(t, p.stop(open, follow, lead))
			d.wants(t, c.want)
		})
	}
}

// TestFailureOfAnEndedPhase: what failed before its phase was given up is told as past,
// and nothing that fails later is lost behind it.
func TestFailureOfAnEndedPhase(t *testing.T) {
	var d diary
	broken := errors.New("broken")
	list := d.list()
	list[2].run = func() error { return broken }
	list[3].start = func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	end := make(chan struct{})
	list[1].run = func() error { <-end; return broken }
	p := quietParts(list)
	ledgertest.OK(t, p.start(t.Context(), open, follow))
	for range 3 {
		if err := p.start(t.Context(), lead); !errors.Is(err, broken) {
			t.Errorf("lead started: %v", err)
		}
	}
	close(end)
	for range 3 {
		if f := <-p.failed; !f.past() {
			t.Error("the failure of a part that was stopped counts for now")
		}
	}
	if f := <-p.failed; f.past() {
		t.Error("the failure of a part that was not stopped counts as past")
	}
	ledgertest.OK(t, p.stop(open, follow, lead))
}
