package bucket_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/allot-project/allot/ledger/archive/bucket"
)

// How a store that speaks S3 lists: a page of more, and an entry of it.
const (
	listURL   = "s3://bucket/x?insecure=true&region=r&endpoint="
	listHead  = `<?xml version="1.0"?><ListBucketResult><IsTruncated>true</IsTruncated><NextContinuationToken>more</NextContinuationToken>`
	listEntry = "<Contents><Key>%s</Key><Size>1</Size></Contents>"
	listTail  = "</ListBucketResult>"
)

// hostile is a store that answers a list as it likes.
func hostile(t *testing.T, list func(w io.Writer, page int)) bucket.Store {
	t.Helper()
	t.Setenv("AWS_ACCESS_KEY_ID", "key")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	var pages atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Has("location") {
			return
		}
		w.Header().Set("Content-Type", "application/xml")
		list(w, int(pages.Add(1)))
	}))
	t.Cleanup(server.Close)
	t.Cleanup(server.CloseClientConnections)
	store, err := bucket.Open(listURL+strings.TrimPrefix(server.URL, "http://"), bucket.Patience{})
	if err != nil {
		t.Fatal(err)
	}
	return store
}

// TestHostileList: of a page of a list that does not end, or has more entries than a
// page has, a bounded part is read; and pages that do not go on, one after the other in
// the order of names, end the list.
func TestHostileList(t *testing.T) {
	var sent atomic.Int64
	endless := func(begins, goesOn string) func(io.Writer, int) {
		return func(w io.Writer, _ int) {
			piece := []byte(strings.Repeat(goesOn, 64<<10/len(goesOn)))
			n, err := io.WriteString(w, begins)
			for ; err == nil && sent.Load() < 512<<20; n, err = w.Write(piece) {
				sent.Add(int64(n))
			}
		}
	}
	entries := func(names ...string) func(io.Writer, int) {
		return func(w io.Writer, page int) {
			objects := make([]string, len(names))
			for i, name := range names {
				objects[i] = fmt.Sprintf(listEntry, strings.ReplaceAll(name, "PAGE", fmt.Sprintf("%09d", 1_000_000-page)))
			}
			_, _ = io.WriteString(w, listHead+strings.Join(objects, "")+listTail)
		}
	}
	for name, row := range map[string]struct {
		list  func(io.Writer, int)
		says  string
		found int // objects, at most
	}{
		"one name":      {endless(listHead+"<Contents><Key>x/", "n"), "more than 8388608 bytes", 0},
		"small entries": {endless(listHead, "<Contents/>"), "32768 tags", 0},
		"depth":         {endless(listHead, "<a>"), "32768 tags", 0},
		"no tag at all": {endless("", " "), "more than 8388608 bytes", 0},
		"the same page": {entries("x/a", "x/b"), "in the order of names", 2},
		"backwards":     {entries("x/PAGE"), "in the order of names", 1},
		"of others":     {entries("y/a"), "in the order of names", 0},
	} {
		t.Run(name, func(t *testing.T) {
			sent.Store(0)
			found := 0
			err := hostile(t, row.list).List(t.Context(), "", "", func(bucket.Object) error { found++; return nil })
			if !errors.Is(err, bucket.ErrUnavailable) || !strings.Contains(err.Error(), row.says) || len(err.Error()) > 4<<10 {
				t.Errorf("%.300v; want an error with %q", err, row.says)
			}
			if found > row.found {
				t.Errorf("%d objects were found", found)
			}
			if got := sent.Load(); got > 64<<20 { // three tries, each with what is on the way
				t.Errorf("%d bytes were read", got)
			}
		})
	}
}

// TestHostileAnswers: an error of a store, however long, takes a bounded part of memory.
func TestHostileAnswers(t *testing.T) {
	var sent atomic.Int64
	t.Setenv("AWS_ACCESS_KEY_ID", "key")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusForbidden)
		piece := []byte(strings.Repeat("e", 64<<10))
		for n, err := w.Write(piece); err == nil && sent.Add(int64(n)) < 512<<20; n, err = w.Write(piece) {
		}
	}))
	defer server.Close()
	defer server.CloseClientConnections()
	store, err := bucket.Open(listURL+strings.TrimPrefix(server.URL, "http://"), bucket.Patience{})
	if err != nil {
		t.Fatal(err)
	}
	_, opened := store.Open(t.Context(), "parts/1")
	file, size := contents(t, "text")
	for what, err := range map[string]error{"Open": opened, "Create": store.Create(t.Context(), "parts/1", file, size)} {
		if !errors.Is(err, bucket.ErrUnavailable) || len(err.Error()) > 4<<10 {
			t.Errorf("%s: %.300v", what, err)
		}
	}
	if got := sent.Load(); got > 128<<20 {
		t.Errorf("%d bytes were read", got)
	}
}
