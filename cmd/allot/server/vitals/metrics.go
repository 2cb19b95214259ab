package vitals

import (
	"fmt"
	"math"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/allot-project/allot/api/notices"
	"github.com/allot-project/allot/api/port"
	"github.com/allot-project/allot/api/tracing"
	"github.com/allot-project/allot/cmd/internal/datafolder"
	"github.com/allot-project/allot/commands/fair"
	"github.com/allot-project/allot/commands/leading"
	"github.com/allot-project/allot/commands/members"
	"github.com/allot-project/allot/commands/processes"
	"github.com/allot-project/allot/commands/rejected"
	"github.com/allot-project/allot/commands/writer"
	"github.com/allot-project/allot/ledger/archive"
	"github.com/allot-project/allot/ledger/witness"
	"github.com/allot-project/allot/projector/check"
	"github.com/allot-project/allot/projector/store"
	"github.com/allot-project/allot/snapshots/copies"
)

// Metrics are what the numbers of a running server are read from. What is nil, the server
// does not have. A function returns nil until what it returns has first started here.
type Metrics struct {
	*Disks
	Instruments *Instruments
	Port        *port.Port // of REST
	Replica     *leading.Replica
	Scrubber    *check.Scrubber
	Tracer      *tracing.Tracer
	Limits      *processes.LimitStatus // of following Keystone's
	Witnesses   *witness.Group
	Writer      func() *writer.Writer
	Notices     func() *notices.Publisher
	Keeper      func() *rejected.Keeper
	Archiver    func() *archive.Archiver
	Storing     func() *copies.Keeper
}

// Serve serves /metrics on a port of its own: numbers only, and nothing that needs
// authentication. The guard stands before it.
func (m *Metrics) Serve(address string, guard func(http.Handler) http.Handler) (*http.Server, error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("--metrics %s: %w", address, err)
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(m.registry(), promhttp.HandlerOpts{}))
	door := port.New(listener, fair.NewPool(), m.Logger)
	server := door.Server(guard(mux))
	go func() {
		if err := door.Serve(server, nil); err != nil {
			m.Logger.Error("metrics are not served any more", "error", err) // the ledger works without them
		}
	}()
	m.Logger.Info("serving metrics", "http", listener.Addr())
	return server, nil
}

// numeric are the kinds of numbers that metrics are read from.
type numeric interface{ int | int64 | uint64 | float64 }

// add adds a number that is read when a scraper asks: a counter if its name ends in _total.
func add[N numeric](to *prometheus.Registry, name, help string, value func() N) {
	read := func() float64 { return float64(value()) }
	if strings.HasSuffix(name, total) {
		to.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Namespace: "allot", Name: name, Help: help}, read))
		return
	}
	to.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Namespace: "allot", Name: name, Help: help}, read))
}

const total = "_total"

// of returns what reads a number of something, which is 0 until there is something.
func of[T any, N numeric](now func() *T, value func(*T) N) func() N {
	return func() (number N) {
		if it := now(); it != nil {
			return value(it)
		}
		return number
	}
}

func one(so bool) float64 {
	if so {
		return 1
	}
	return 0
}

func (m *Metrics) registry() *prometheus.Registry {
	g := m.Instruments.registry
	g.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	g.MustRegister(storeMetrics{m.Disks})
	m.addState(g)
	m.addWriter(g)
	m.addReplica(g)
	m.addNotices(g)
	m.addOptional(g)
	if len(m.Archives) > 0 {
		m.addArchives(g)
	}
	if m.Witnesses != nil {
		g.MustRegister(witnessMetrics{m.Witnesses})
	}
	add(g, "http_connections", "Connections over HTTP.", m.Port.Connections)
	add(g, "http_refused_total", "Connections and requests over HTTP that were refused because their address, or all "+
		"together, had too many.", m.Port.Refused)
	if m.Scrubber != nil {
		m.addScrubber(g)
	}
	return g
}

func (m *Metrics) addNotices(g *prometheus.Registry) {
	add(g, "notices_published_total", "Notices of changes that were published over NATS.",
		of(m.Notices, func(p *notices.Publisher) int64 { return p.Counts().Published }))
	add(g, "notices_missed_total", "Commits whose notices were not published: followers read the history instead.",
		of(m.Notices, func(p *notices.Publisher) int64 { return p.Counts().Missed }))
	add(g, "notices_seconds_total", "Seconds spent making and publishing notices.",
		of(m.Notices, func(p *notices.Publisher) float64 { return p.Counts().Took.Seconds() }))
	add(g, "notices_waiting", "Commits whose notices are to be published.",
		of(m.Notices, func(p *notices.Publisher) int64 { return p.Counts().Waiting }))
}

func (m *Metrics) addOptional(g *prometheus.Registry) {
	if m.Limits != nil {
		add(g, "limits_follow_failures_total", "How often Keystone's limits could not be read or followed.",
			m.Limits.Failures)
		add(g, "limits_followed_timestamp_seconds", "When the ledger last had Keystone's limits; 0: not since the start.",
			func() float64 { return float64(m.Limits.Followed()) / 1e9 })
	}
	if m.Tracer != nil {
		add(g, "trace_spans_total", "Spans of traces that were made.",
			func() int64 { return m.Tracer.Counts().Made })
		add(g, "trace_spans_sent_total", "Spans of these that the receiver of traces has taken.",
			func() int64 { return m.Tracer.Counts().Sent })
	}
}

func (m *Metrics) addState(g *prometheus.Registry) {
	add(g, "log_sequence", "Sequence of the newest commit that can be read.", func() uint64 { return m.Views.View().Sequence() })
	add(g, "read_models_ready", "1: the read models can be read and written; 0: they are damaged, and the server ends.",
		func() float64 { return one(m.Views.Ready() == nil) })
	add(g, "disk_free_bytes", "Bytes free on the fullest disk of the data folder.", m.free.Load)
	add(g, "disk_reserve_bytes", "Commands are refused while fewer bytes than this are free.", m.reserve.Load)
	add(g, "disk_days_left", "Days until only the reserve is free, at the pace of the last day; +Inf: the disk does not fill.",
		m.daysLeft)
	m.addFolder(g, "snapshots_bytes", "Bytes of the snapshots.", datafolder.Snapshots)
	m.addFolder(g, "archive_cache_bytes", "Bytes of archives' parts that were read back.", ArchiveFolder)
}

// ArchiveFolder is the name in a data folder of what archives need: parts that are being packed.
const ArchiveFolder = "archive"

func (m *Metrics) addFolder(g *prometheus.Registry, name, help, folder string) {
	add(g, name, help, func() int64 {
		bytes, err := datafolder.BytesIn(m.Data.Path(folder))
		if err != nil {
			m.Logger.Warn("metrics lack the size of a folder", "folder", folder, "error", err)
		}
		return bytes
	})
}

func (m *Metrics) addReplica(g *prometheus.Registry) {
	if m.Replica == nil {
		return
	}
	add(g, "replica_role", "1: this server leads; 0: it follows.",
		func() float64 { return one(m.Replica.Role() == members.RoleLeader) })
	add(g, "replica_term", "Number of the newest known term.", func() uint64 {
		_, term, _ := m.Replica.Standing()
		return term
	})
	add(g, "replica_led", "1: some server leads, as far as this one knows.",
		func() float64 { return one(m.Replica.Led() == nil) })
	add(g, "replica_lag_commits", "Commits that are known to exist and are not folded here yet.", func() uint64 {
		commits, _ := m.Replica.Lag()
		return commits
	})
	add(g, "replica_lag_seconds", "Seconds since there have been such commits.", func() float64 {
		_, since := m.Replica.Lag()
		return since.Seconds()
	})
	add(g, "log_wedged", "1: the log takes no commits although its servers say that they are well.",
		func() float64 { return one(m.Replica.Wedged() != nil) })
}

func (m *Metrics) addWriter(g *prometheus.Registry) {
	add(g, "commands_waiting", "Commands in the writer's queue.", of(m.Writer, (*writer.Writer).Waiting))
	add(g, "log_stuck", "1: the log takes no commits, and commands are refused.",
		of(m.Writer, func(w *writer.Writer) float64 { return one(w.Stuck() != nil || m.Refuse() != nil) }))
	add(g, "commands_refused_total", "Commands that were refused because the log could not be written.",
		of(m.Writer, (*writer.Writer).Refused))
	if m.Keeper != nil {
		add(g, "rejected_dropped", "Rejected commands that were dropped instead of kept, since the start.",
			of(m.Keeper, (*rejected.Keeper).Dropped))
	}
}

func (m *Metrics) addScrubber(g *prometheus.Registry) {
	add(g, "scrub_damage", "Damage on the disk that the last complete check found, or the check under way so far.",
		func() int { return m.Scrubber.Status().Found })
	add(g, "scrub_rounds", "Complete checks of the disk so far.", func() int { return m.Scrubber.Status().Rounds })
	add(g, "scrub_read_bytes", "Bytes read in the check under way.", func() int64 { return m.Scrubber.Status().Bytes })
	add(g, "scrub_total_bytes", "Bytes to read in that check, as of its beginning.",
		func() int64 { return m.Scrubber.Status().Total })
	add(g, "scrub_timestamp_seconds", "When that check began.",
		func() float64 { return float64(m.Scrubber.Status().Begun.UnixNano()) / 1e9 })
}

// addArchives adds the metrics of the archives that this server writes: those of a follower are 0.
func (m *Metrics) addArchives(g *prometheus.Registry) {
	most := func(value func(archive.Status) float64) func() float64 {
		return of(m.Archiver, func(a *archive.Archiver) (found float64) {
			for _, one := range a.Status() {
				found = max(found, value(one))
			}
			return found
		})
	}
	sum := func(value func(archive.Status) float64) func() float64 {
		return of(m.Archiver, func(a *archive.Archiver) (found float64) {
			for _, one := range a.Status() {
				found += value(one)
			}
			return found
		})
	}
	add(g, "archive_lag_commits", "Commits that the archive that is furthest behind does not have.",
		most(func(s archive.Status) float64 { return float64(s.Commits) }))
	add(g, "archive_lag_bytes", "Bytes of these commits that are packed and not sealed.",
		most(func(s archive.Status) float64 { return float64(s.LogBytes) }))
	add(g, "archive_lag_seconds", "Age of the oldest of these, as far as they are packed.",
		most(func(s archive.Status) float64 {
			if s.Since.IsZero() {
				return 0
			}
			return time.Since(s.Since).Seconds()
		}))
	add(g, "archive_faulty", "Archives that take nothing now: the server's log says why.",
		sum(func(s archive.Status) float64 { return one(s.Fault != "") }))
	add(g, "archive_parts", "Parts in all archives.", sum(func(s archive.Status) float64 { return float64(s.Parts) }))
	add(g, "archive_bytes", "Bytes of these.", sum(func(s archive.Status) float64 { return float64(s.Bytes) }))
	add(g, "archive_failures_total", "Failures to archive a part. It is tried again.",
		sum(func(s archive.Status) float64 { return float64(s.Failures) }))
	add(g, "archive_success_timestamp_seconds", "When a part was last verified in an archive.",
		most(func(s archive.Status) float64 {
			if s.Success.IsZero() {
				return 0
			}
			return float64(s.Success.UnixNano()) / 1e9
		}))
	m.addCopies(g)
}

func (m *Metrics) addCopies(g *prometheus.Registry) {
	add(g, "archive_copies_total", "Copies of State and read models that were stored in archives.",
		of(m.Storing, func(k *copies.Keeper) uint64 { return k.Status().Stored }))
	add(g, "archive_copies_bytes_total", "Bytes that were written for them.",
		of(m.Storing, func(k *copies.Keeper) int64 { return k.Status().Bytes }))
	add(g, "archive_copies_failures_total", "Failures to store one. It is tried again.",
		of(m.Storing, func(k *copies.Keeper) uint64 { return k.Status().Failures }))
	add(g, "archive_copies_sequence", "Sequence of the newest copy that this server has stored in all archives.",
		of(m.Storing, func(k *copies.Keeper) uint64 { return k.Status().Last.Sequence }))
}

// modelMetric is a number of the read models.
type modelMetric struct {
	name, help string
	value      func(store.Stats) float64
}

func (m modelMetric) desc() *prometheus.Desc {
	return prometheus.NewDesc("allot_read_models_"+m.name, m.help, nil, nil)
}

var modelMetrics = []modelMetric{
	{"bytes", "Bytes of the read models on the disk.",
		func(s store.Stats) float64 { return float64(s.DiskBytes) }},
	{"wal_bytes", "Bytes of the read models in their write-ahead log.",
		func(s store.Stats) float64 { return float64(s.WALBytes) }},
	{"compaction_debt_bytes", "Bytes of the read models that wait for compaction.",
		func(s store.Stats) float64 { return float64(s.DebtBytes) }},
	{"read_amplification", "Number of tables that one read may have to search.",
		func(s store.Stats) float64 { return float64(s.ReadAmplification) }},
	{"cache_hits_total", "Blocks of the read models that were found in memory.",
		func(s store.Stats) float64 { return float64(s.CacheHits) }},
	{"cache_misses_total", "Blocks of the read models that were read from the disk.",
		func(s store.Stats) float64 { return float64(s.CacheMisses) }},
	{"compactions_total", "Compactions of the read models since the start.",
		func(s store.Stats) float64 { return float64(s.Compactions) }},
	{"flushes_total", "Flushes of the read models since the start.",
		func(s store.Stats) float64 { return float64(s.Flushes) }},
	{"held_up_seconds_total", "How long commits were held up because more came than is compacted.",
		func(s store.Stats) float64 { return s.HeldUp.Seconds() }},
}

// storeMetrics are the numbers of the stores, which are asked once for each scrape.
type storeMetrics struct{ disks *Disks }

func (m storeMetrics) Describe(out chan<- *prometheus.Desc) {
	for _, one := range modelMetrics {
		out <- one.desc()
	}
	for _, desc := range []*prometheus.Desc{logBytes, connections, storeBytes, storePace, storeFree, storeDays} {
		out <- desc
	}
}

func (m storeMetrics) Collect(out chan<- prometheus.Metric) {
	stats := m.disks.Views.StoreStats()
	for _, one := range modelMetrics {
		kind := prometheus.GaugeValue
		if strings.HasSuffix(one.name, total) {
			kind = prometheus.CounterValue
		}
		out <- prometheus.MustNewConstMetric(one.desc(), kind, one.value(stats))
	}
	if m.disks.NATS != nil { // an external NATS server has its own metrics
		stored, err := m.disks.NATS.Stored()
		if err != nil {
			m.disks.Logger.Warn("metrics lack the size of JetStream's streams", "error", err)
		}
		out <- prometheus.MustNewConstMetric(logBytes, prometheus.GaugeValue, float64(stored.Bytes))
		out <- prometheus.MustNewConstMetric(connections, prometheus.GaugeValue, float64(stored.Connections))
	}
	for _, one := range m.disks.measured() {
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

var (
	logBytes    = prometheus.NewDesc("allot_log_bytes", "Bytes in JetStream's streams: the log, and rejected commands.", nil, nil)
	connections = prometheus.NewDesc("allot_nats_connections",
		"Connections of the embedded NATS server, including this process's own.", nil, nil)
	storeBytes = prometheus.NewDesc("allot_store_bytes", "Bytes of a store of the ledger's contents.", []string{"store"}, nil)
	storePace  = prometheus.NewDesc("allot_store_bytes_per_day",
		"Bytes by which a store grows a day, at the pace of the last day.", []string{"store"}, nil)
	storeFree = prometheus.NewDesc("allot_store_free_bytes",
		"Bytes free on the disk of a store; none for buckets.", []string{"store"}, nil)
	storeDays = prometheus.NewDesc("allot_store_days_left",
		"Days until only the reserve is free on the disk of a store, at the pace of the last day; +Inf: the disk does not fill.",
		[]string{"store"}, nil)
)

// witnessMetrics are those of each witness, by the names of their keys.
type witnessMetrics struct{ *witness.Group }

var (
	witnessSize = prometheus.NewDesc("allot_witness_cosigned_records",
		"Records of the last checkpoint that a witness has cosigned; 0: none.", []string{"witness"}, nil)
	witnessTime = prometheus.NewDesc("allot_witness_cosigned_timestamp_seconds",
		"When a witness has cosigned its last checkpoint, by its own clock; 0: not since the start.", []string{"witness"}, nil)
)

func (witnessMetrics) Describe(to chan<- *prometheus.Desc) {
	to <- witnessSize
	to <- witnessTime
}

func (m witnessMetrics) Collect(to chan<- prometheus.Metric) {
	for _, one := range m.Status() {
		seconds := 0.0
		if !one.Time.IsZero() {
			seconds = float64(one.Time.Unix())
		}
		to <- prometheus.MustNewConstMetric(witnessSize, prometheus.GaugeValue, float64(one.Size), one.Name)
		to <- prometheus.MustNewConstMetric(witnessTime, prometheus.GaugeValue, seconds, one.Name)
	}
}
