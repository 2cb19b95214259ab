package vitals

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/allot-project/allot/api/audit"
	"github.com/allot-project/allot/cmd/internal/datafolder"
	"github.com/allot-project/allot/ledger/archive"
	"github.com/allot-project/allot/ledger/archive/bucket"
	"github.com/allot-project/allot/ledger/embedded"
	"github.com/allot-project/allot/ledger/system"
	"github.com/allot-project/allot/projector"
)

// How a full disk is handled: commands are refused while less than a reserve is free, before anything fails.
// If another process takes the rest at once and JetStream fails, the server ends, and the next start answers
// reads from what is on the disk. Once there is room it ends again, and the one after it goes on.

const (
	// fastestFill is how many bytes a second come to a disk at most: as many as the
	// fastest take. What is free is measured again before half of it could be gone.
	fastestFill = 8 << 30
	// leastPause and mostPause bound the time between two measurements.
	leastPause = 10 * time.Millisecond
	mostPause  = time.Second
	sizesEvery = time.Minute
	// nearlyTimes: the disk is nearly full when less than so many reserves are free.
	nearlyTimes = 4
	// leastRoom is how many bytes above the reserve let a server begin again that began without room.
	leastRoom = 4 << 20
)

// Disks watches what a server keeps, and the disks that it is kept on.
type Disks struct {
	DisksConfig
	stores  []*watched
	free    atomic.Int64 // on the fullest disk of the data folder
	reserve atomic.Int64
	alarm   alarm
	full    atomic.Pointer[error] // why the log must not be written: it is full
	armed   atomic.Bool
	cramped atomic.Bool // the start found no room for something that is kept
	ends    bool        // of the watch
	quit    chan struct{}
	ended   sync.WaitGroup
}

// DisksConfig says what is kept, and where.
type DisksConfig struct {
	Data      *datafolder.Folder
	Views     *projector.Projector
	NATS      *embedded.Server // nil: an external NATS server keeps the log
	Archives  []*archive.Archive
	Reserve   DiskReserve
	RoomAgain func(error) // called once if there is room again that the start did not find
	Logger    *slog.Logger
	Clock     *Clock // while it is not believed, commands are refused, too
}

// store is a place where this server keeps something.
type watched struct {
	name string
	// folder is where it is; "": in a bucket, which has no end.
	folder string
	// guarded: commands are refused while its disk is nearly full.
	guarded bool
	// size is how much it holds; nil: it is not asked for.
	size func() (int64, error)
	// reserve is what is to stay free on a disk of a size.
	reserve func(size int64) int64

	alarm alarm

	mu    sync.Mutex
	now   audit.Store // what was measured last; guarded by mu
	sizes growth
	room  growth
}

func (c *DisksConfig) all() []*watched {
	here := func(name, folder string, size func() (int64, error)) *watched {
		return &watched{name: name, folder: c.Data.Path(folder), guarded: true, size: size, reserve: c.Reserve.of}
	}
	list := []*watched{
		here("all else", "", nil),
		here("read models", datafolder.ReadModels, func() (int64, error) {
			return int64(c.Views.StoreStats().DiskBytes), nil
		}),
		here("snapshots", datafolder.Snapshots, func() (int64, error) {
			return datafolder.BytesIn(c.Data.Path(datafolder.Snapshots))
		}),
	}
	if c.NATS != nil {
		list = append(list, here("log", "log", func() (int64, error) {
			stored, err := c.NATS.Stored()
			return int64(stored.Bytes), err
		}))
	}
	for _, a := range c.Archives { // its parts, and the copies beside them
		size := func() (int64, error) {
			_, parts := a.Stored()
			return parts, nil
		}
		list = append(list, &watched{
			name: "archive " + a.String(), folder: bucket.FolderOf(a.Store()), size: size, reserve: DiskReserve{}.of,
		})
	}
	return list
}

var errNoSpace = errors.New("the disk is full")

// errReadModelsWait: Pebble asks for more at once than the reserve holds.
var errReadModelsWait = fmt.Errorf("%w: the read models wait for room. Free some space, and writes go on by themselves", errNoSpace)

// Start starts to watch the disks.
func (d *Disks) Start(config DisksConfig) error {
	d.DisksConfig, d.stores, d.quit = config, config.all(), make(chan struct{})
	if err := d.measure(); err != nil {
		return err
	}
	d.ended.Go(d.watch)
	return nil
}

// Stop ends the watch.
func (d *Disks) Stop() {
	close(d.quit)
	d.ended.Wait()
}

// MeasureStores starts to measure what the stores hold. A file system that does not
// answer holds up neither the others nor a stop, because nothing waits for it.
func (d *Disks) MeasureStores(context.Context) error {
	for _, one := range d.stores {
		if one.size != nil {
			go one.watch(d.quit, d.Logger)
		}
	}
	return nil
}

// Arm lets the watch refuse commands. Those of the start must go through
// before, so that a server with a nearly full disk can start and be read.
func (d *Disks) Arm(context.Context) error {
	d.armed.Store(true)
	return nil
}

// Disarm lets commands through again, for another start of the writer.
func (d *Disks) Disarm() { d.armed.Store(false) }

// Cramped says whether the start found no room for something that is kept.
func (d *Disks) Cramped(so bool) { d.cramped.Store(so) }

// NotEligible returns why another server should lead if one can, or nil.
func (d *Disks) NotEligible() error {
	if full := d.full.Load(); full != nil {
		return *full
	}
	return nil
}

// Refuse returns why the log must not be written now, or nil.
func (d *Disks) Refuse() error {
	if !d.armed.Load() {
		return nil
	}
	if err := d.Clock.Fault(); err != nil {
		return err
	}
	if err := d.NotEligible(); err != nil || !d.Views.Full() {
		return err
	}
	return errReadModelsWait
}

// Room is how many bytes there are above the reserve.
func (d *Disks) Room() int64 { return d.free.Load() - d.reserve.Load() }

func (d *Disks) measure() error {
	free, reserve, left := int64(math.MaxInt64), int64(0), int64(math.MaxInt64)
	for _, one := range d.stores {
		if !one.guarded {
			continue
		}
		here, size, err := system.RoomAt(one.folder)
		if err != nil {
			return fmt.Errorf("the free space of the disk at %s cannot be measured: %w", one.folder, err)
		}
		if wanted := one.reserve(size); here-wanted < left {
			free, reserve, left = here, wanted, here-wanted
		}
	}
	d.free.Store(free)
	d.reserve.Store(reserve)
	if left >= 0 {
		d.full.Store(nil)
		return nil
	}
	full := fmt.Errorf(
		"%w: %d bytes are free, but --disk-reserve keeps %d. Free some space, and writes go on by themselves", errNoSpace, free, reserve,
	)
	d.full.Store(&full)
	return nil
}

func (d *Disks) watch() {
	told := ""
	for {
		select {
		case <-time.After(pauseFor(d.Room())):
		case <-d.quit:
			return
		}
		err := d.look()
		if now := fmt.Sprint(err != nil); now != told {
			d.tell(err, told != "")
			told = now
		}
		d.warn()
	}
}

// pauseFor is how long so much room lasts for certain.
func pauseFor(room int64) time.Duration {
	lasts := time.Duration(float64(room) / 2 / fastestFill * float64(time.Second))
	return max(leastPause, min(lasts, mostPause))
}

// warn says that the disk is nearly full, before commands are refused.
func (d *Disks) warn() {
	if free, reserve := d.free.Load(), d.reserve.Load(); d.alarm.rings(free, reserve) {
		d.Logger.Warn("the disk is nearly full: commands are refused when less than the reserve is free",
			"free", free, "reserve", reserve, "days_left", d.daysLeft())
	}
}

// daysLeft is how long the disk of the data folder lasts that is full first.
func (d *Disks) daysLeft() float64 {
	days := math.Inf(1)
	for _, one := range d.stores {
		if one.guarded {
			days = min(days, one.room.days(d.reserve.Load()))
		}
	}
	return days
}

// alarm rings once when a disk gets nearly full. It is of one goroutine.
type alarm struct{ rang bool }

func (a *alarm) rings(free, reserve int64) bool {
	if a.rang && free < (nearlyTimes+1)*reserve {
		return false // not much has changed
	}
	a.rang = free < nearlyTimes*reserve
	return a.rang
}

// tell logs a change between room and no room.
func (d *Disks) tell(err error, before bool) {
	switch {
	case err != nil:
		d.Logger.Error("commands are refused", "error", err)
	case before:
		d.Logger.Info("commands are taken again", "free", d.free.Load())
	}
}

// look measures the disks, and ends a server that began without room once there is some. It
// returns why writes are refused, or nil.
func (d *Disks) look() error {
	if err := d.measure(); err != nil {
		return err
	}
	if d.Room() >= leastRoom && (d.cramped.Load() || d.Views.InMemory()) && !d.ends {
		d.ends = true
		d.RoomAgain(errRoomAgain)
	}
	return d.Refuse()
}

// errRoomAgain ends a server whose disk was full when it started.
var errRoomAgain = errors.New("the disk was full at the start, and has room again: the next start goes on with writes")

func (d *Disks) measured() (list []audit.Store) {
	for _, one := range d.stores {
		one.mu.Lock()
		if one.now.Name != "" {
			list = append(list, one.now)
		}
		one.mu.Unlock()
	}
	return list
}

// Now measures the disk for auditors.
func (d *Disks) Now() audit.Disk {
	data := int64(d.Views.StoreStats().DiskBytes)
	if d.NATS != nil {
		stored, err := d.NATS.Stored()
		if err != nil {
			d.Logger.Warn("the size of the log is not known", "error", err)
		}
		data += int64(stored.Bytes)
	}
	return audit.Disk{Free: d.free.Load(), Reserve: d.reserve.Load(), Data: data, Stores: d.measured()}
}

func (s *watched) watch(quit <-chan struct{}, logger *slog.Logger) {
	tick, told := time.Tick(sizesEvery), false
	for {
		err := s.measure(time.Now(), logger)
		if err != nil && !told {
			logger.Warn("the size of a store is not known", "store", s.name, "error", err)
		}
		told = err != nil
		select {
		case <-tick:
		case <-quit:
			return
		}
	}
}

func (s *watched) measure(now time.Time, logger *slog.Logger) error {
	bytes, err := s.size()
	if err != nil {
		return err
	}
	s.sizes.note(now, bytes)
	found := audit.Store{Name: s.name, Bytes: bytes}
	if pace, known := s.sizes.pace(); known {
		found.BytesPerDay = &pace
	}
	if s.folder != "" {
		free, size, err := system.RoomAt(s.folder)
		if err != nil {
			return err
		}
		reserve := s.reserve(size)
		s.room.note(now, free)
		found.Free, found.Reserve = &free, &reserve
		if days := s.room.days(reserve); !math.IsInf(days, 1) {
			found.DaysLeft = &days
		}
		if s.alarm.rings(free, reserve) && !s.guarded {
			logger.Warn("the disk of an archive is nearly full: when it is, the log keeps what the archive does not take",
				"store", s.name, "free", free, "reserve", reserve)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now = found
	return nil
}

// growth tells from the free space of a disk how long it will last, and from the
// size of a store how fast it grows.
type growth struct {
	mu      sync.Mutex
	samples []sample // the oldest first; guarded by mu
}

type sample struct {
	at    time.Time
	bytes int64
}

const (
	// sampleEvery and mostSamples: what is told is the mean of a day.
	sampleEvery = 10 * time.Minute
	mostSamples = 24*6 + 1
)

func (g *growth) note(now time.Time, bytes int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if n := len(g.samples); n > 0 && now.Sub(g.samples[n-1].at) < sampleEvery {
		return
	}
	g.samples = append(g.samples, sample{now, bytes})
	if len(g.samples) > mostSamples {
		g.samples = append(g.samples[:0], g.samples[1:]...)
	}
}

// pace returns by how many bytes a day what was noted grew in the last day; false: that is not known yet.
func (g *growth) pace() (bytes float64, known bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.samples) < 2 {
		return 0, false
	}
	first, last := g.samples[0], g.samples[len(g.samples)-1]
	return float64(last.bytes-first.bytes) / last.at.Sub(first.at).Hours() * 24, true
}

// days returns after how many days only a reserve is left, at the pace of the last
// day; +Inf: what is free does not become less, or that is not known yet.
func (g *growth) days(reserve int64) float64 {
	pace, known := g.pace()
	if !known || pace >= 0 {
		return math.Inf(1)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return max(0, float64(g.samples[len(g.samples)-1].bytes-reserve)) / -pace
}

// The default reserve, without --disk-reserve.
const (
	defaultReserve = 256 << 20
	reserveShare   = 50 // at most this fraction of the disk: one part in 50
)

// DiskReserve is how much of the disk must stay free.
type DiskReserve struct {
	bytes int64
	given bool
}

// UnmarshalText reads bytes, or a number with KiB, MiB, GiB or TiB.
func (r *DiskReserve) UnmarshalText(text []byte) error {
	if string(text) == "auto" {
		*r = DiskReserve{}
		return nil
	}
	number, unit := string(text), int64(1)
	for i, suffix := range []string{"KiB", "MiB", "GiB", "TiB"} {
		if rest, ok := strings.CutSuffix(number, suffix); ok {
			number, unit = rest, 1<<(10*(i+1))
			break
		}
	}
	n, err := strconv.ParseInt(strings.TrimSpace(number), 10, 64)
	if err != nil || n < 0 || n > math.MaxInt64/unit {
		return fmt.Errorf("%q is neither a number of bytes, such as 256MiB, nor auto", text)
	}
	*r = DiskReserve{n * unit, true}
	return nil
}

func (r DiskReserve) of(size int64) int64 {
	if r.given {
		return r.bytes
	}
	return min(defaultReserve, size/reserveShare)
}
