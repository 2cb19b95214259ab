package main

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/allot-project/allot/api/audit"
	"github.com/allot-project/allot/cmd/internal/datafolder"
	"github.com/allot-project/allot/ledger/archives"
	"github.com/allot-project/allot/ledger/bucket"
	"github.com/allot-project/allot/ledger/system"
)

// roomEvery is how often stores are measured. The pace of their growth is that of
// the last day.
const roomEvery = time.Minute

// storeRooms are the stores of the ledger's contents: how much each holds, how fast
// it grows, and how long its disk lasts.
type storeRooms struct {
	list []*storeRoom
	quit chan struct{}
}

// storeRoom is one of them.
type storeRoom struct {
	name string
	// folder is where it is; "": in a bucket, of which nobody knows an end.
	folder string
	size   func() (int64, error)
	// reserve is what is to stay free on a disk of a size.
	reserve func(size int64) int64
	full    func(free, reserve int64) // told when its disk gets nearly full; nil: somebody else tells

	mu     sync.Mutex
	now    audit.Store // what was measured last; guarded by mu
	sizes  growth
	room   growth
	nearly bool // told that the disk is nearly full; of one goroutine
}

// watchRooms starts to measure the stores.
func (s *server) watchRooms(context.Context) error {
	s.rooms = &storeRooms{list: s.storeRooms(), quit: make(chan struct{})}
	for _, one := range s.rooms.list {
		// A file system that does not answer holds up neither the others nor a stop,
		// because nobody waits for the measurement of its store.
		go one.watch(s.rooms.quit, func(err error) {
			s.logger.Warn("the size of a store is not known", "store", one.name, "error", err)
		})
	}
	return nil
}

func (s *server) stopRooms() error {
	close(s.rooms.quit)
	return nil
}

// storeRooms returns the stores that this server has.
func (s *server) storeRooms() []*storeRoom {
	here := func(name, folder string, size func() (int64, error)) *storeRoom {
		return &storeRoom{name: name, folder: s.data.Path(folder), size: size, reserve: s.config.DiskReserve.of}
	}
	models := func() (int64, error) { return int64(s.views.StoreStats().DiskBytes), nil }
	list := []*storeRoom{
		here("read models", "readmodel", models),
		here("snapshots", datafolder.Snapshots, func() (int64, error) { return bytesIn(s.data.Path(datafolder.Snapshots)) }),
	}
	if s.log.nats != nil {
		list = append(list, here("log", "log", func() (int64, error) {
			stored, err := s.log.nats.Stored()
			return int64(stored.Bytes), err
		}))
	}
	for _, a := range s.archives {
		list = append(list, s.archiveRoom(a))
	}
	return list
}

// archiveRoom is that of an archive: of its parts, and of the copies beside them.
func (s *server) archiveRoom(a *archives.Archive) *storeRoom {
	return &storeRoom{
		name: "archive " + a.String(), folder: bucket.FolderOf(a.Store()), reserve: diskReserve{}.of,
		size: func() (int64, error) {
			_, parts := a.Stored()
			return parts, nil
		},
		full: func(free, reserve int64) {
			s.logger.Warn("the disk of an archive is nearly full: when it is, the log keeps what the archive does not take",
				"archive", a, "free", free, "reserve", reserve)
		},
	}
}

func (r *storeRoom) watch(quit <-chan struct{}, tell func(error)) {
	ticker := time.NewTicker(roomEvery)
	defer ticker.Stop()
	told := false
	for {
		err := r.measure(time.Now())
		if err != nil && !told {
			tell(err)
		}
		told = err != nil
		select {
		case <-ticker.C:
		case <-quit:
			return
		}
	}
}

// measure measures the store and its disk.
func (r *storeRoom) measure(now time.Time) error {
	bytes, err := r.size()
	if err != nil {
		return err
	}
	r.sizes.note(now, bytes)
	found := audit.Store{Name: r.name, Bytes: bytes}
	if pace, known := r.sizes.pace(); known {
		found.BytesPerDay = &pace
	}
	if r.folder != "" {
		if err := r.measureDisk(now, &found); err != nil {
			return err
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.now = found
	return nil
}

// measureDisk measures the disk on which the store is.
func (r *storeRoom) measureDisk(now time.Time, found *audit.Store) error {
	free, size, err := roomAt(r.folder)
	if err != nil {
		return err
	}
	reserve := r.reserve(size)
	r.room.note(now, free)
	found.Free, found.Reserve = &free, &reserve
	if days := r.room.days(reserve); !math.IsInf(days, 1) {
		found.DaysLeft = &days
	}
	nearly := free < nearlyTimes*reserve
	if nearly && !r.nearly && r.full != nil {
		r.full(free, reserve)
	}
	r.nearly = nearly
	return nil
}

// roomAt measures the disk of a folder; if there is none yet, that of the folder
// in which it will be.
func roomAt(folder string) (free, size int64, err error) {
	for {
		free, size, err = system.Room(folder)
		above := filepath.Dir(folder)
		if !errors.Is(err, os.ErrNotExist) || above == folder {
			return free, size, err
		}
		folder = above
	}
}

// measured returns what was measured last, by name.
func (r *storeRooms) measured() (list []audit.Store) {
	if r == nil {
		return nil
	}
	for _, one := range r.list {
		one.mu.Lock()
		if one.now.Name != "" {
			list = append(list, one.now)
		}
		one.mu.Unlock()
	}
	return list
}

// roomMetrics are the stores' metrics.
type roomMetrics struct{ rooms *storeRooms }

var (
	storeBytes = prometheus.NewDesc("allot_store_bytes", "Bytes of a store of the ledger's contents.", []string{"store"}, nil)
	storePace  = prometheus.NewDesc("allot_store_bytes_per_day",
		"Bytes by which a store grows a day, at the pace of the last day.", []string{"store"}, nil)
	storeFree = prometheus.NewDesc("allot_store_free_bytes",
		"Bytes free on the disk of a store; none for buckets.", []string{"store"}, nil)
	storeDays = prometheus.NewDesc("allot_store_days_left",
		"Days until only the reserve is free on the disk of a store, at the pace of the last day; +Inf: the disk does not fill.",
		[]string{"store"}, nil)
)

// Describe implements prometheus.Collector.
func (m roomMetrics) Describe(out chan<- *prometheus.Desc) {
	out <- storeBytes
	out <- storePace
	out <- storeFree
	out <- storeDays
}

// Collect implements prometheus.Collector.
func (m roomMetrics) Collect(out chan<- prometheus.Metric) {
	for _, one := range m.rooms.measured() {
		tell := func(desc *prometheus.Desc, value float64) {
			out <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, one.Name)
		}
		tell(storeBytes, float64(one.Bytes))
		if one.BytesPerDay != nil {
			tell(storePace, *one.BytesPerDay)
		}
		if one.Free != nil {
			tell(storeFree, float64(*one.Free))
			days := math.Inf(1)
			if one.DaysLeft != nil {
				days = *one.DaysLeft
			}
			tell(storeDays, days)
		}
	}
}
