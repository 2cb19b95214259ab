package archive_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/archive"
	"github.com/allot-project/allot/ledger/archive/bucket"
	"github.com/allot-project/allot/ledger/archive/bucket/buckettest"
	"github.com/allot-project/allot/ledger/ledgertest"
)

// faultyStore stands before an S3 server and does what networks and stores do.
type faultyStore struct {
	proxy *httputil.ReverseProxy

	mu     sync.Mutex
	fault  string // guarded by mu
	count  int    // requests; guarded by mu
	harmed int    // of these; guarded by mu
	other  []byte // what was last answered for a part; guarded by mu
}

func startFaulty(t *testing.T) (f *faultyStore, address string) {
	t.Helper()
	target, err := url.Parse("http://" + buckettest.S3(t))
	ledgertest.OK(t, err)
	f = &faultyStore{proxy: httputil.NewSingleHostReverseProxy(target)}
	f.proxy.ModifyResponse = f.answer
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	return f, strings.TrimPrefix(server.URL, "http://")
}

// be makes a fault; empty: none. It returns how many requests the one before has
// harmed.
func (f *faultyStore) be(fault string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	before := f.harmed
	f.fault, f.harmed = fault, 0
	return before
}

func (f *faultyStore) now() (fault string, count int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.count++
	return f.fault, f.count
}

func (f *faultyStore) harm() {
	f.mu.Lock()
	f.harmed++
	f.mu.Unlock()
}

// ServeHTTP implements http.Handler.
func (f *faultyStore) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	fault, count := f.now()
	put := r.Method == http.MethodPut
	part := strings.Contains(r.URL.Path, "/parts/")
	refuse := func(status int, code string) {
		f.harm()
		w.WriteHeader(status)
		_, _ = fmt.Fprintf(w, "<Error><Code>%s</Code></Error>", code) // the client may be gone
	}
	switch {
	case fault == "away":
		f.harm()
		panic(http.ErrAbortHandler) // closes the connection
	case fault == "slow":
		f.harm()
		time.Sleep(20 * time.Millisecond)
	case fault == "full" && put:
		refuse(http.StatusInsufficientStorage, "QuotaExceeded")
		return
	case fault == "500 now and then" && count%3 != 0:
		refuse(http.StatusInternalServerError, "InternalError")
		return
	case fault == "loses" && part && r.Method == http.MethodGet:
		refuse(http.StatusNotFound, "NoSuchKey")
		return
	case fault == "loses the answer" && put:
		f.harm()
		f.proxy.ServeHTTP(httptest.NewRecorder(), r)
		panic(http.ErrAbortHandler)
	}
	f.proxy.ServeHTTP(w, r)
}

// answer changes what the store answers for a part.
func (f *faultyStore) answer(r *http.Response) error {
	part := r.Request.Method == http.MethodGet && strings.Contains(r.Request.URL.Path, "/parts/")
	if !part || r.StatusCode != http.StatusOK {
		return nil
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.fault == "flips":
		f.harmed++
		body[len(body)/2] ^= 1
	case f.fault == "other bytes" && f.other != nil:
		f.harmed++
		body = f.other
	case f.fault == "cuts":
		f.harmed++
		body = body[:len(body)/2]
	default:
		f.other = body
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	r.ContentLength = int64(len(body))
	r.Header.Set("Content-Length", fmt.Sprint(len(body)))
	return nil
}

// TestFaultyStore: whatever a store does, nothing counts as archived that is not
// there and good; when the fault has passed everything is archived, and the
// archive verifies.
func TestFaultyStore(t *testing.T) {
	t.Parallel()
	f, address := startFaulty(t)
	for i, fault := range []string{
		"away", "slow", "full", "500 now and then", "loses", "loses the answer", "flips", "other bytes", "cuts",
	} {
		t.Run(fault, func(t *testing.T) {
			w := newWorld(t, 40)
			at := buckettest.URL(address, fmt.Sprintf("p%d", i))
			first := w.config(open(t, at))
			first.Head = func() ledger.Head { return w.heads[19] }
			w.archive(first, 20)

			f.be(fault)
			faulty := open(t, at)
			a := archive.Start(w.config(faulty))
			var during archive.Status
			ledgertest.WaitFor(t, "an archive or a failure", func() bool {
				during = a.Status()[0]
				return during.Failures > 0 || during.Verified.Sequence == 40
			}, func() any { return during })
			if harmed := f.be(""); harmed == 0 {
				t.Errorf("no request met the fault: %+v", during)
			}
			if reached := w.verified(at); reached < during.Verified.Sequence {
				t.Errorf("%d counted as archived, and %d are there", during.Verified.Sequence, reached)
			}
			a.Stop()
			w.archive(w.config(open(t, at)), 40)
			w.holds(open(t, at), 40)
		})
	}
}

// verified returns up to where an archive verifies.
func (w *world) verified(url string) uint64 {
	known, _ := w.verify(open(w.t, url), nil) // how far it is good is asked, not why it ends
	return known.Sequence
}

// cutOff is a store that does so many things, and then nothing any more, as for a
// process that was killed: what it did last is done, or is not.
type cutOff struct {
	bucket.Store
	mu    sync.Mutex
	left  int  // guarded by mu
	after bool // the last thing is done, and not acknowledged
}

var errCutOff = errors.New("cut off")

// step reports whether something is done, and whether that is told.
func (c *cutOff) step() (done, told bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.left--
	return c.left > 0 || c.left == 0 && c.after, c.left > 0
}

func (c *cutOff) Create(ctx context.Context, name string, contents *os.File, size int64) error {
	done, told := c.step()
	err := errCutOff
	if done {
		err = c.Store.Create(ctx, name, contents, size)
	}
	if !told {
		return errCutOff
	}
	return err
}

func (c *cutOff) Open(ctx context.Context, name string) (io.ReadCloser, error) {
	if _, told := c.step(); !told {
		return nil, errCutOff
	}
	return c.Store.Open(ctx, name)
}

func (c *cutOff) List(ctx context.Context, prefix string, yield func(bucket.Object) error) error {
	if _, told := c.step(); !told {
		return errCutOff
	}
	return c.Store.List(ctx, prefix, yield)
}

// TestKilledAtEachStep: an Archiver that ends at any step, before or after it was
// done, leaves what the next one goes on with: each part is there once.
func TestKilledAtEachStep(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 30)
	for _, after := range []bool{false, true} {
		for steps, whole := 1, false; !whole; steps++ {
			dir := t.TempDir()
			store, err := bucket.Open("file://" + dir)
			ledgertest.OK(t, err)
			killed := &cutOff{Store: store, left: steps, after: after}
			a := archive.Start(w.config(archive.Open(killed)))
			var s archive.Status
			ledgertest.WaitFor(t, fmt.Sprint("the end after steps: ", steps), func() bool {
				s = a.Status()[0]
				return s.Failures > 0 || s.Verified.Sequence == 30
			}, func() any { return s })
			a.Stop()
			whole = s.Failures == 0
			if reached := w.verified("file://" + dir); reached < s.Verified.Sequence {
				t.Errorf("%d steps: %d counted, and %d are there", steps, s.Verified.Sequence, reached)
			}
			w.archived(dir, 30)
			if list := files(t, dir); len(list) != 3+1 {
				t.Errorf("%d steps: %d objects", steps, len(list))
			}
			w.holds(in(t, dir), 30)
			if whole && steps < 10 {
				t.Errorf("all was done in %d steps", steps)
			}
		}
	}
}

// TestOneAway: an archive that is away holds up no other, and catches up.
func TestOneAway(t *testing.T) {
	t.Parallel()
	f, address := startFaulty(t)
	w := newWorld(t, 100)
	f.be("away")
	a := archive.Start(w.config(in(t, t.TempDir()), open(t, buckettest.URL(address, "x"))))
	defer a.Stop()
	reach := func(what string, so func([]archive.Status) bool) {
		t.Helper()
		ledgertest.WaitFor(t, what, func() bool { return so(a.Status()) }, func() any { return a.Status() })
	}
	reach("the one that is here", func(s []archive.Status) bool { return s[0].Verified.Sequence == 100 && s[1].Failures > 0 })
	if s := a.Status()[1]; s.Verified.Sequence > 0 || s.Commits != 100 || s.Fault == "" {
		t.Errorf("%+v", s)
	}
	f.be("")
	reach("the one that was away", func(s []archive.Status) bool { return s[1].Verified.Sequence == 100 && s[1].Fault == "" })
}

// gatedStore lets no reader read a part before its gate is open.
type gatedStore struct {
	bucket.Store
	came chan string // names of parts that are asked for
	gate chan struct{}
}

// Open implements bucket.Store.
func (g *gatedStore) Open(ctx context.Context, name string) (io.ReadCloser, error) {
	if strings.HasPrefix(name, "parts/") {
		g.came <- name
		select {
		case <-g.gate:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return g.Store.Open(ctx, name)
}

// TestReadersAtOnce: readers of different parts do not wait for each other's parts, and
// readers of the same part fetch it once.
func TestReadersAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 120)
	dir := t.TempDir()
	w.archived(dir, 120)
	store, err := bucket.Open("file://" + dir)
	ledgertest.OK(t, err)
	gated := &gatedStore{store, make(chan string, 100), make(chan struct{})}
	log := archive.NewLog([]*archive.Archive{archive.Open(gated)}, t.TempDir(), 1<<30)
	var all sync.WaitGroup
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	for i := range 12 {
		sequence := uint64(1 + 30*(i%4)) // of four parts
		all.Go(func() {
			err := log.Read(ctx, sequence, sequence, func(e ledger.Entry) error {
				if ledger.DigestOf(e.Data) != w.heads[sequence-1].Digest {
					t.Errorf("%d is another commit", sequence)
				}
				return nil
			})
			if err != nil {
				t.Errorf("%d: %v", sequence, err)
			}
		})
	}
	ledgertest.WaitFor(t, "four parts that are asked for", func() bool { return len(gated.came) >= 4 })
	close(gated.gate)
	all.Wait()
	close(gated.came)
	asked := make(map[string]bool)
	for name := range gated.came {
		if asked[name] {
			t.Errorf("%s was fetched again", name)
		}
		asked[name] = true
	}
}
