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

	"github.com/allot-project/allot/ledger/bucket"
)

// hostile is a store that speaks S3 and answers a list as it likes.
func hostile(t *testing.T, list func(w io.Writer, page int)) bucket.Store {
	t.Helper()
	t.Setenv("AWS_ACCESS_KEY_ID", "key")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	var pages atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Has("list-type") {
			w.Header().Set("Content-Type", "application/xml")
			list(w, int(pages.Add(1)))
		}
	}))
	t.Cleanup(server.Close)
	t.Cleanup(server.CloseClientConnections)
	address := strings.TrimPrefix(server.URL, "http://")
	store, err := bucket.Open("s3://bucket/x?insecure=true&region=r&endpoint="+address, bucket.Patience{})
	if err != nil {
		t.Fatal(err)
	}
	return store
}

const listHead = `<?xml version="1.0"?><ListBucketResult><IsTruncated>true</IsTruncated>` +
	`<NextContinuationToken>more</NextContinuationToken>`

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
	entries := func(names ...string) string {
		text := listHead
		for _, name := range names {
			text += "<Contents><Key>x/" + name + "</Key><Size>1</Size></Contents>"
		}
		return text + "</ListBucketResult>"
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
		"the same page": {func(w io.Writer, _ int) { _, _ = io.WriteString(w, entries("a", "b")) }, "in the order of names", 2},
		"backwards": {func(w io.Writer, page int) {
			_, _ = fmt.Fprint(w, entries(fmt.Sprintf("%09d", 1_000_000-page)))
		}, "in the order of names", 1},
		"of others": {func(w io.Writer, _ int) {
			_, _ = io.WriteString(w, listHead+"<Contents><Key>y/a</Key></Contents></ListBucketResult>")
		}, "in the order of names", 0},
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
