package vitals

import (
	"errors"
	"log/slog"
	"math"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/allot-project/allot/api/audit"
	"github.com/allot-project/allot/ledger/ledgertest"
)

// TestStoreRoom: a store says what it holds, how fast it grows and how long its disk
// lasts, and tells once that its disk is nearly full. A bucket has no disk.
func TestStoreRoom(t *testing.T) {
	now, size := time.Unix(1_700_000_000, 0), int64(1<<30)
	logs := new(ledgertest.Output)
	logger := slog.New(slog.NewTextHandler(logs, nil))
	share := int64(0) // of the disk that is to stay free: so many of what it has
	r := &watched{
		name: "archive", folder: filepath.Join(t.TempDir(), "not there yet"), size: func() (int64, error) { return size, nil },
		reserve: func(all int64) int64 { return all * share },
	}
	measured := func() audit.Store {
		t.Helper()
		ledgertest.OK(t, r.measure(now, logger))
		return (&Disks{stores: []*watched{r}}).measured()[0]
	}
	warned := func() int { return strings.Count(logs.String(), "nearly full") }
	first := measured()
	if first.BytesPerDay != nil || first.Bytes != size || first.Free == nil || *first.Reserve != 0 || warned() > 0 {
		t.Errorf("at first: %+v, and %d warnings", first, warned())
	}
	now, size, share = now.Add(12*time.Hour), size+1<<20, 1
	for range 2 {
		if second := measured(); second.BytesPerDay == nil || *second.BytesPerDay != 2<<20 || warned() != 1 {
			t.Errorf("after half a day: %+v, and %d warnings", second, warned())
		}
	}
	r.folder = ""
	if inBucket := measured(); inBucket.Free != nil || inBucket.DaysLeft != nil {
		t.Errorf("in a bucket: %+v", inBucket)
	}
	r.size = func() (int64, error) { return 0, errors.New("no answer") }
	if err := r.measure(now, logger); err == nil {
		t.Error("a store that does not say its size was measured")
	}
}

// TestDiskGrowth: the days that a disk lasts follow from the pace of the last day,
// and not from what was before.
func TestDiskGrowth(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	var g growth
	if !math.IsInf(g.days(0), 1) {
		t.Error("it is known before anything is measured")
	}
	free := int64(1 << 40)
	pass := func(hours int, aDay int64) {
		for range hours * 60 {
			now, free = now.Add(time.Minute), free-aDay/(24*60)
			g.note(now, free)
		}
	}
	pass(48, -1<<30)
	if !math.IsInf(g.days(0), 1) {
		t.Errorf("the disk gains room, and lasts %v days", g.days(0))
	}
	pass(25, 24*60<<20)
	reserve := int64(1 << 30)
	want := float64(free-reserve) / (24 * 60 << 20)
	if got := g.days(reserve); math.Abs(got-want) > want/50 {
		t.Errorf("it lasts %v days, and not %v", got, want)
	}
	if got := g.days(free + 1<<30); got != 0 {
		t.Errorf("less than the reserve is left, and it lasts %v days", got)
	}
	if len(g.samples) > mostSamples {
		t.Errorf("%d samples are kept", len(g.samples))
	}
}

// TestPauseFollowsFromRoom: what is free is measured rarely while there is much, and again
// before the fastest disk could have filled it.
func TestPauseFollowsFromRoom(t *testing.T) {
	for room, want := range map[int64]time.Duration{
		-1 << 30: leastPause, 0: leastPause, 1 << 20: leastPause, 1 << 30: time.Second / 16, 4 << 30: time.Second / 4,
		1 << 40: mostPause, math.MaxInt64: mostPause,
	} {
		if got := pauseFor(room); got != want {
			t.Errorf("with %d bytes: %v, and not %v", room, got, want)
		}
	}
}
