package shadow

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/allot-project/allot/ledger"
)

// Difference is a request that the two sides answered differently.
type Difference struct {
	At           time.Time `json:"at"`
	Kind         string    `json:"kind"` // "read", "write" or "refused"
	Request      string    `json:"request"`
	Microversion string    `json:"microversion,omitempty"`
	Lead         string    `json:"lead"`
	Differences  []string  `json:"differences"` // leader's first
	Leader       Answer    `json:"leader"`
	Follower     Answer    `json:"follower"`
}

// Unrepaired is a thing that could not be brought in line.
type Unrepaired struct {
	What string `json:"what"`
	Why  string `json:"why"`
}

// Status is what the page /shadow shows.
type Status struct {
	Began time.Time `json:"began"`
	Lead  string    `json:"lead"`
	// UnderWay says how far a comparison of everything, or a change of the lead, is; "": none is.
	UnderWay string `json:"under_way"`
	// Unreachable says why a side has not answered last.
	Unreachable map[string]string `json:"unreachable"`
	Queue       struct {
		Requests int   `json:"requests"`
		Bytes    int64 `json:"bytes"`
		Missed   int   `json:"missed"`
	} `json:"queue"`
	Comparisons  int       `json:"comparisons"` // of everything, since the start
	LastCompared time.Time `json:"last_compared"`
	CompareError string    `json:"compare_error,omitempty"`
	BehindBack   int       `json:"changed_behind_the_proxy"`
	// Unrepaired are the first ones.
	Unrepaired      []Unrepaired `json:"unrepaired"`
	UnrepairedCount int          `json:"unrepaired_count"`
	// Compared counts comparisons of answers by kind and outcome.
	Compared map[string]map[string]int `json:"compared"`
	// Differences are the last ones.
	Differences []Difference `json:"differences"`
}

// watch keeps what the page shows.
type watch struct {
	mu         sync.Mutex
	shown      Status // but for what status adds
	unrepaired map[Resource]string
	logged     time.Time
	loggedAway time.Time

	away [2]atomic.Pointer[string] // by Side; nil: it has answered last
}

// at notes what is under way; "": nothing is any more.
func (w *watch) at(what string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.shown.UnderWay = fmt.Sprintf(what, args...)
}

func (w *watch) compared(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil {
		w.shown.CompareError = err.Error()
		return
	}
	w.shown.Comparisons++
	w.shown.LastCompared, w.shown.CompareError = time.Now().UTC(), ""
}

// anew forgets what could not be brought in line, because a comparison has found anew what differs.
func (w *watch) anew() {
	w.mu.Lock()
	defer w.mu.Unlock()
	clear(w.unrepaired)
}

func (w *watch) unreachable(side Side, err error) {
	why := err.Error()
	w.away[side].Store(&why)
}

func (w *watch) reached(side Side) {
	if w.away[side].Load() != nil { // it is written rarely, and read by all
		w.away[side].Store(nil)
	}
}

// keep keeps a difference. It reports whether to log it, which is not more often than once a second.
func (w *watch) keep(d Difference) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.shown.Differences = append(w.shown.Differences, d)
	if more := len(w.shown.Differences) - mostKept; more > 0 {
		w.shown.Differences = slices.Clone(w.shown.Differences[more:])
	}
	return seldom(&w.logged)
}

func (w *watch) mayLogAway() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return seldom(&w.loggedAway)
}

func seldom(last *time.Time) bool {
	now := time.Now()
	if now.Sub(*last) < logEvery {
		return false
	}
	*last = now
	return true
}

// repaired notes that a thing is in line. It returns behindBack.
func (w *watch) repaired(of Resource, behindBack bool) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.unrepaired, of)
	if behindBack {
		w.shown.BehindBack++
	}
	return behindBack
}

// gaveUp notes that a thing could not be brought in line. It reports whether that is news.
func (w *watch) gaveUp(of Resource, why error) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, known := w.unrepaired[of]
	w.unrepaired[of] = why.Error()
	return !known
}

func (w *watch) failures() []Resource {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Sorted(maps.Keys(w.unrepaired))
}

func (w *watch) status() Status {
	w.mu.Lock()
	defer w.mu.Unlock()
	status := w.shown
	status.Unreachable, status.Differences = make(map[string]string), slices.Concat([]Difference{}, status.Differences)
	for side := range w.away {
		if why := w.away[side].Load(); why != nil {
			status.Unreachable[Side(side).String()] = *why
		}
	}
	status.Unrepaired, status.UnrepairedCount = []Unrepaired{}, len(w.unrepaired)
	sorted := slices.Sorted(maps.Keys(w.unrepaired))
	for _, of := range sorted[:min(mostKept, len(sorted))] {
		status.Unrepaired = append(status.Unrepaired, Unrepaired{string(of), w.unrepaired[of]})
	}
	return status
}

// Status returns what the page /shadow shows.
func (s *Shadow) Status() Status {
	status := s.watch.status()
	status.Lead = s.Lead().String()
	left := s.queue.length()
	status.Queue.Requests, status.Queue.Missed, status.Queue.Bytes = left.entries, left.missing, left.bytes
	status.Compared = s.metrics.outcomes()
	return status
}

//go:embed assets
var assets embed.FS

// policy lets the page use its own files and the console's, and nothing else.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// Page serves /shadow, as a page to browsers and as JSON to others, and takes the order to
// change the lead: POST /shadow/lead/SIDE. It shows contents, so only operators may reach
// it. The page uses the console's style and scripts, which have to be below /console/.
func (s *Shadow) Page() http.Handler {
	files, err := fs.Sub(assets, "assets")
	if err != nil {
		panic(err) // the folder is embedded
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /shadow", func(w http.ResponseWriter, r *http.Request) {
		header := w.Header()
		header.Set("Vary", "Accept")
		header.Set("Cache-Control", "no-cache")
		header.Set("X-Content-Type-Options", "nosniff")
		if !strings.Contains(r.Header.Get("Accept"), "text/html") {
			answer(w, http.StatusOK, s.Status())
			return
		}
		header.Set("Content-Security-Policy", policy)
		http.ServeFileFS(w, r, files, "shadow.html")
	})
	mux.HandleFunc("GET /shadow/shadow.js", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Cache-Control", "no-cache")
		http.ServeFileFS(w, r, files, "shadow.js")
	})
	mux.HandleFunc("POST /shadow/lead/{side}", s.takeOrder)
	return mux
}

func (s *Shadow) takeOrder(w http.ResponseWriter, r *http.Request) {
	side, known := Sides[r.PathValue("side")]
	if !known {
		refuse(w, http.StatusNotFound, "The lead can be placement or allot.")
		return
	}
	switch err := s.SwitchTo(r.Context(), side); {
	case err == nil:
		answer(w, http.StatusOK, s.Status())
	case errors.Is(err, ErrBehind), errors.Is(err, ErrSwitching):
		refuse(w, http.StatusConflict, err.Error()+". Nothing has changed.")
	default:
		refuse(w, http.StatusInternalServerError, err.Error()+". Nothing has changed.")
	}
}

func answer(w http.ResponseWriter, status int, document any) {
	body, err := ledger.PlainJSON(document)
	if err != nil {
		refuse(w, http.StatusInternalServerError, err.Error())
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(body, '\n')) // if this fails the client is gone
}
