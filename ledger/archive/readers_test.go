package archive_test

import (
	"context"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/archive"
	"github.com/allot-project/allot/ledger/archive/bucket"
)

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
	_, dir := inFolder(t)
	w.archive(w.config(open(t, "file://"+dir)), 120)
	store, err := bucket.Open("file://" + dir)
	if err != nil {
		t.Fatal(err)
	}
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
	asked := make(map[string]int)
	for len(asked) < 4 && ctx.Err() == nil {
		select {
		case name := <-gated.came:
			asked[name]++
		case <-ctx.Done():
			t.Errorf("only %d parts are asked for while one is on its way", len(asked))
		}
	}
	close(gated.gate)
	all.Wait()
	close(gated.came)
	for name := range gated.came {
		asked[name]++
	}
	for name, times := range asked {
		if times != 1 {
			t.Errorf("%s was fetched %d times", name, times)
		}
	}
}
