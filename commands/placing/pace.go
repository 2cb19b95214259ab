package placing

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"github.com/allot-project/allot/projector/candidates"
)

// pace is how the search for one claim shares the processors with commands. A search
// computes for a tenth of a second and more. On few processors a command would wait
// behind its slices of 10 ms at each step from the client to the log and back, and if
// searches and compactions had all processors, what comes from the network would wait for
// 10 ms, too, until the runtime looks there: a processor looks when no goroutine is ready.
// So about every 50 microseconds a search lets all goroutines run that are ready, now and
// then it leaves its processor without any, and only so many compute at a time as there
// are places.
type pace struct {
	places chan struct{}
	placed bool // one of the places is taken

	worked, waited time.Duration
	since          time.Time     // when it began to work
	napped         time.Duration // what it had worked when it last left its processor
}

const (
	// napEvery is after how much work a search leaves its processor, and napFor for how
	// long; the runtime may make a millisecond of it.
	napEvery = 2 * time.Millisecond
	napFor   = 50 * time.Microsecond
)

// mostWaiting is how many times as long as it works a search lets others run at most: if
// it waited without end while the processors are busy, its claim might never be decided.
const mostWaiting = 3

// newPace is that of a search which begins now. Most searches end before they need a place.
func newPace(places chan struct{}) *pace { return &pace{places: places, since: time.Now()} }

// longestSearch is how long a search may compute: a step may take longer on one machine,
// or in one world, than in another.
const longestSearch = 5 * time.Second

// pause gives way, unless the search was given up, or has taken all its time.
func (p *pace) pause(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	p.giveWay()
	if p.worked > longestSearch {
		return fmt.Errorf("%w: more than %v of work", candidates.ErrBudget, longestSearch)
	}
	return nil
}

// giveWay lets others run: the search that has waited longest for a place, and all
// goroutines that are ready.
func (p *pace) giveWay() {
	now := time.Now()
	p.worked += now.Sub(p.since)
	p.end()
	if p.waited <= mostWaiting*p.worked {
		p.rest()
		p.waited += time.Since(now)
	}
	p.places <- struct{}{}
	p.placed, p.since = true, time.Now()
}

func (p *pace) rest() {
	if p.worked-p.napped < napEvery {
		runtime.Gosched()
		return
	}
	p.napped = p.worked
	time.Sleep(napFor)
}

// end gives back what the search has.
func (p *pace) end() {
	if p.placed {
		<-p.places
		p.placed = false
	}
}
