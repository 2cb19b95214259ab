package archives_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/archives"
	"github.com/allot-project/allot/ledger/bucket"
	"github.com/allot-project/allot/ledger/bucket/buckettest"
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
	if err != nil {
		t.Fatal(err)
	}
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
	if r.Request.Method != http.MethodGet || !strings.Contains(r.Request.URL.Path, "/parts/") || r.StatusCode != http.StatusOK {
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
			w := newWorld(t, 100)
			at := buckettest.URL(address, fmt.Sprintf("p%d", i))
			first := w.config(open(t, at))
			first.Head = func() ledger.Head { return w.heads[29] }
			w.archive(first, 30)

			f.be(fault)
			faulty := open(t, at)
			a := archives.Start(w.config(faulty))
			for deadline := time.Now().Add(hang); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
				s := a.Status()[0]
				if s.Failures > 0 || s.Verified.Sequence == 100 {
					break
				}
			}
			during := a.Status()[0]
			if harmed := f.be(""); harmed == 0 {
				t.Errorf("no request met the fault: %+v", during)
			}
			if fault != "slow" && during.Failures == 0 && during.Verified.Sequence < 100 {
				t.Errorf("neither archived nor failed: %+v", during)
			}
			if reached := w.verified(at); reached < during.Verified.Sequence {
				t.Errorf("%d counted as archived, and %d are there", during.Verified.Sequence, reached)
			}
			a.Stop()
			w.archive(w.config(open(t, at)), 100)
			if known, err := w.verify(open(t, at), nil); err != nil || known.Sequence != 100 {
				t.Errorf("%+v, %v", known, err)
			}
		})
	}
}

// verified returns up to where an archive verifies.
func (w *world) verified(url string) uint64 {
	known, _ := w.verify(open(w.t, url), nil) // how far it is good is asked, not why it ends
	return known.Sequence
}

// TestOneAway: an archive that is away holds up no other, and catches up.
func TestOneAway(t *testing.T) {
	t.Parallel()
	f, address := startFaulty(t)
	w := newWorld(t, 100)
	here, _ := inFolder(t)
	at := buckettest.URL(address, "x")
	store, err := bucket.Open(at, bucket.Patience{Answer: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	f.be("away")
	a := archives.Start(w.config(here, archives.Open(store)))
	defer a.Stop()
	reach := func(what string, so func([]archives.Status) bool) {
		t.Helper()
		for deadline := time.Now().Add(hang); !so(a.Status()); time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%s: %+v", what, a.Status())
			}
		}
	}
	reach("the one that is here", func(s []archives.Status) bool { return s[0].Verified.Sequence == 100 && s[1].Failures > 0 })
	if s := a.Status()[1]; s.Verified.Sequence > 0 || s.Commits != 100 || s.Fault == "" {
		t.Errorf("%+v", s)
	}
	f.be("")
	reach("the one that was away", func(s []archives.Status) bool { return s[1].Verified.Sequence == 100 && s[1].Fault == "" })
}
