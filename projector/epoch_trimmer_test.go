package projector

import (
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/allot-project/allot/ledger/bucket"
	"github.com/allot-project/allot/ledger/memlog"
	"github.com/allot-project/allot/projector/past"
)

// TestEpochEnds: the log decides where epochs end, whenever somebody looks: read models
// that shed versions all the time, now and then, or at the end write the same files. They
// stay while they are few among the records in the read models.
func TestEpochEnds(t *testing.T) {
	t.Parallel()
	const commits = 60
	var lists [][]string
	var want []string
	for _, looks := range []int{1, 7, commits} { // every so many commits
		log, folder := &memlog.Log{}, t.TempDir()
		store, err := bucket.Open("file://"+folder, bucket.Patience{})
		if err != nil {
			t.Fatal(err)
		}
		files, err := past.Open([]bucket.Store{store}, past.Options{Folder: filepath.Join(t.TempDir(), "past")})
		if err != nil {
			t.Fatal(err)
		}
		p := opened(t, t.TempDir())
		times := longLog(t, commits, log, p)
		p.ReadFrom(log)
		p.ReadPastFrom(files)
		before := answers(p, times)
		last := p.Checkpoint().Sequence
		worker := p.trimmer()
		worker.cfg = HotHistory{Age: time.Nanosecond, Records: 20, Now: time.Now, Logger: worker.cfg.Logger}
		horizons := make(map[uint64]bool)
		for i, end := 0, uint64(1); end < last; i, end = i+1, end+1 {
			p.origin.past.Store(nil)
			cooled(t, p, log, end)
			p.ReadPastFrom(files)
			if i%looks != looks-1 && end < last-1 {
				continue
			}
			if err := worker.versionsLeave(t.Context(), p.models.Load()); err != nil {
				t.Fatal(err)
			}
			horizons[p.HotFrom()] = true
			ends, err := worker.epochsDue(p.models.Load())
			if err != nil || len(ends) > 0 {
				t.Errorf("%d epochs are due still: %v", len(ends), err)
			}
		}
		same(t, "at the end", answers(p, times), before)
		var list []string
		err = store.List(t.Context(), "past/", "", func(o bucket.Object) error {
			list = append(list, o.Name)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		lists = append(lists, list)
		if len(list) > len(want) {
			want = list
		}
		if looks == 1 && len(horizons) < 2 {
			t.Errorf("versions have left in %d steps", len(horizons))
		}
	}
	if len(want) < 3 {
		t.Errorf("%d files", len(want))
	}
	for _, list := range lists {
		if !slices.Equal(list, want[:len(list)]) || len(list) < len(want)/2 {
			t.Errorf("files:\n%v\nwant\n%v", list, want)
		}
	}
}
