package main

import (
	"context"
	"fmt"
	"math"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/allot-project/allot/api/notices"
	"github.com/allot-project/allot/api/port"
	"github.com/allot-project/allot/cmd/internal/datafolder"
	"github.com/allot-project/allot/commands/cluster"
	"github.com/allot-project/allot/commands/fair"
	"github.com/allot-project/allot/commands/writer"
	"github.com/allot-project/allot/projector"
	"github.com/allot-project/allot/projector/check"
)

// metricsDoor serves /metrics on a port of its own.
type metricsDoor struct {
	server *http.Server // nil: there is none
}

// serveMetrics serves numbers only, and nothing that needs authentication.
func (s *server) serveMetrics(context.Context) error {
	if s.config.Metrics == "" {
		return nil
	}
	listener, err := net.Listen("tcp", s.config.Metrics)
	if err != nil {
		return fmt.Errorf("--metrics %s: %w", s.config.Metrics, err)
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(s.registry(), promhttp.HandlerOpts{}))
	door := port.New(listener, fair.NewPool(), s.logger)
	server := door.Server(s.config.fromScrapers(mux))
	s.metrics.server = server
	go func() {
		if err := door.Serve(server, nil); err != nil {
			s.logger.Error("metrics are not served any more", "error", err) // the ledger works without them
		}
	}()
	s.logger.Info("serving metrics", "http", listener.Addr())
	return nil
}

func (s *server) stopMetrics() error {
	if s.metrics.server == nil {
		return nil
	}
	return s.metrics.server.Close()
}

// gauges are numbers that are read when a scraper asks.
type gauges struct{ registry *prometheus.Registry }

func (g gauges) add(name, help string, value func() float64) {
	g.registry.MustRegister(
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Namespace: "allot", Name: name, Help: help}, value),
	)
}

// registry returns all metrics of the server.
func (s *server) registry() *prometheus.Registry {
	g := gauges{prometheus.NewRegistry()}
	g.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	s.instruments.register(g.registry)
	g.registry.MustRegister(storeMetrics{s})
	s.addState(g)
	s.addWriter(g)
	s.addReplica(g)
	s.addNotices(g)
	s.addTraces(g)
	s.addArchives(g)
	s.addLimits(g)
	s.addConnections(g)
	if s.replica != nil {
		g.add("log_wedged", "1: the log takes no commits although its servers say that they are well.", func() float64 {
			return one(s.replica.Wedged() != nil)
		})
	}
	if s.scrubber != nil {
		s.addScrubber(g)
	}
	return g.registry
}

// addNotices adds the metrics of the publisher of notices that leads, or led
// last.
func (s *server) addNotices(g gauges) {
	published := func(value func(notices.Counts) int64) func() float64 {
		return func() float64 {
			if publisher := s.leader.notices.Load(); publisher != nil {
				return float64(value(publisher.Counts()))
			}
			return 0
		}
	}
	g.count("notices_published_total", "Notices of changes that were published over NATS.",
		published(func(c notices.Counts) int64 { return c.Published }))
	g.count("notices_missed_total", "Commits whose notices were not published: followers read the history instead.",
		published(func(c notices.Counts) int64 { return c.Missed }))
	g.count("notices_seconds_total", "Seconds spent making and publishing notices.",
		func() float64 {
			return published(func(c notices.Counts) int64 { return c.Took.Nanoseconds() })() / float64(time.Second)
		})
	g.add("notices_waiting", "Commits whose notices are to be published.",
		published(func(c notices.Counts) int64 { return c.Waiting }))
}

// addConnections adds the metrics of the REST port.
func (s *server) addConnections(g gauges) {
	p := s.rest.port
	g.add("http_connections", "Connections over HTTP.", func() float64 { return float64(p.Connections()) })
	g.count("http_refused_total", "Connections and requests over HTTP that were refused because their address, or all "+
		"together, had too many.", func() float64 { return float64(p.Refused()) })
}

// addLimits adds the metrics of following Keystone's limits.
func (s *server) addLimits(g gauges) {
	if s.config.UnifiedLimits == "" {
		return
	}
	g.count("limits_follow_failures_total", "How often Keystone's limits could not be read or followed.",
		func() float64 { return float64(s.limits.Failures()) })
	g.add("limits_followed_timestamp_seconds", "When the ledger last had Keystone's limits; 0: not since the start.",
		func() float64 { return float64(s.limits.Followed()) / 1e9 })
}

// addTraces adds the metrics of traces.
func (s *server) addTraces(g gauges) {
	if s.tracer == nil {
		return
	}
	g.count("trace_spans_total", "Spans of traces that were made.",
		func() float64 { return float64(s.tracer.Counts().Made) })
	g.count("trace_spans_sent_total", "Spans of these that the receiver of traces has taken.",
		func() float64 { return float64(s.tracer.Counts().Sent) })
}

// one returns 1 for true and 0 for false.
func one(so bool) float64 {
	if so {
		return 1
	}
	return 0
}

func (s *server) addState(g gauges) {
	g.add(
		"log_sequence", "Sequence of the newest commit that can be read.",
		func() float64 { return float64(s.views.View().Sequence()) },
	)
	g.add(
		"read_models_ready",
		"1: the read models can be read and written; 0: they are damaged, and the server ends.",
		func() float64 {
			return one(s.views.Ready() == nil)
		},
	)
	g.add(
		"disk_free_bytes", "Bytes free on the fullest disk of the data folder.",
		func() float64 { return float64(s.disks.free.Load()) },
	)
	g.add(
		"disk_reserve_bytes", "Commands are refused while fewer bytes than this are free.",
		func() float64 { return float64(s.disks.reserve.Load()) },
	)
	g.add(
		"disk_days_left", "Days until only the reserve is free, at the pace of the last day; +Inf: the disk does not fill.",
		func() float64 { return s.disks.daysLeft() },
	)
	s.addFolder(g, "snapshots_bytes", "Bytes of the snapshots.", datafolder.Snapshots)
	s.addFolder(g, "archive_cache_bytes", "Bytes of archives' parts that were read back.", archiveFolder)
}

// addFolder adds the size of a folder in the data folder.
func (s *server) addFolder(g gauges, name, help, folder string) {
	g.add(name, help, func() float64 {
		bytes, err := bytesIn(s.data.Path(folder))
		if err != nil {
			s.logger.Warn("metrics lack the size of a folder", "folder", folder, "error", err)
		}
		return float64(bytes)
	})
}

// addReplica adds the metrics of a replica.
func (s *server) addReplica(g gauges) {
	if s.replica == nil {
		return
	}
	g.add(
		"replica_role",
		"1: this server leads; 0: it follows.",
		func() float64 { return one(s.replica.Role() == cluster.RoleLeader) },
	)
	g.add("replica_term", "Number of the newest known term.", func() float64 {
		_, term, _ := s.replica.Standing()
		return float64(term)
	})
	g.add(
		"replica_led",
		"1: some server leads, as far as this one knows.",
		func() float64 { return one(s.replica.Led() == nil) },
	)
	g.add("replica_lag_commits", "Commits that are known to exist and are not folded here yet.", func() float64 {
		commits, _ := s.replica.Lag()
		return float64(commits)
	})
	g.add("replica_lag_seconds", "Seconds since there have been such commits.", func() float64 {
		_, since := s.replica.Lag()
		return since.Seconds()
	})
}

// addWriter adds the metrics of the writer that leads, or led last.
func (s *server) addWriter(g gauges) {
	written := func(value func(*writer.Writer) float64) func() float64 {
		return func() float64 {
			if writer := s.leader.writer.Load(); writer != nil {
				return value(writer)
			}
			return 0
		}
	}
	g.add(
		"commands_waiting", "Commands in the writer's queue.",
		written(func(w *writer.Writer) float64 { return float64(w.Waiting()) }),
	)
	g.add("log_stuck", "1: the log takes no commits, and commands are refused.", written(func(w *writer.Writer) float64 {
		return one(w.Stuck() != nil || s.disks.refuse() != nil)
	}))
	g.count("commands_refused_total", "Commands that were refused because the log could not be written.",
		written(func(w *writer.Writer) float64 { return float64(w.Refused()) }))
	if s.rejected == nil {
		return
	}
	g.add("rejected_dropped", "Rejected commands that were dropped instead of kept, since the start.", func() float64 {
		if keeper := s.leader.keeper.Load(); keeper != nil {
			return float64(keeper.Dropped())
		}
		return 0
	})
}

func (s *server) addScrubber(g gauges) {
	scrubbed := func(value func(check.ScrubStatus) float64) func() float64 {
		return func() float64 { return value(s.scrubber.Status()) }
	}
	g.add(
		"scrub_damage",
		"Damage on the disk that the last complete check found, or the check under way so far.",
		scrubbed(func(s check.ScrubStatus) float64 { return float64(s.Found) }),
	)
	g.add("scrub_rounds", "Complete checks of the disk so far.",
		scrubbed(func(s check.ScrubStatus) float64 { return float64(s.Rounds) }))
	g.add(
		"scrub_read_bytes", "Bytes read in the check under way.",
		scrubbed(func(s check.ScrubStatus) float64 { return float64(s.Bytes) }),
	)
	g.add(
		"scrub_total_bytes", "Bytes to read in that check, as of its beginning.",
		scrubbed(func(s check.ScrubStatus) float64 { return float64(s.Total) }),
	)
	g.add(
		"scrub_timestamp_seconds", "When that check began.",
		scrubbed(func(s check.ScrubStatus) float64 { return float64(s.Begun.UnixNano()) / 1e9 }),
	)
}

// count adds a number that only grows.
func (g gauges) count(name, help string, value func() float64) {
	g.registry.MustRegister(
		prometheus.NewCounterFunc(prometheus.CounterOpts{Namespace: "allot", Name: name, Help: help}, value),
	)
}

// modelMetric is a number of the read models.
type modelMetric struct {
	name, help string
	kind       prometheus.ValueType
	value      func(projector.StoreStats) float64
}

func (m modelMetric) desc() *prometheus.Desc {
	return prometheus.NewDesc("allot_read_models_"+m.name, m.help, nil, nil)
}

var modelMetrics = []modelMetric{
	{"bytes", "Bytes of the read models on the disk.", prometheus.GaugeValue,
		func(s projector.StoreStats) float64 { return float64(s.DiskBytes) }},
	{"wal_bytes", "Bytes of the read models in their write-ahead log.", prometheus.GaugeValue,
		func(s projector.StoreStats) float64 { return float64(s.WALBytes) }},
	{"compaction_debt_bytes", "Bytes of the read models that wait for compaction.", prometheus.GaugeValue,
		func(s projector.StoreStats) float64 { return float64(s.DebtBytes) }},
	{"read_amplification", "Number of tables that one read may have to search.", prometheus.GaugeValue,
		func(s projector.StoreStats) float64 { return float64(s.ReadAmplification) }},
	{"cache_hits_total", "Blocks of the read models that were found in memory.", prometheus.CounterValue,
		func(s projector.StoreStats) float64 { return float64(s.CacheHits) }},
	{"cache_misses_total", "Blocks of the read models that were read from the disk.", prometheus.CounterValue,
		func(s projector.StoreStats) float64 { return float64(s.CacheMisses) }},
	{"compactions_total", "Compactions of the read models since the start.", prometheus.CounterValue,
		func(s projector.StoreStats) float64 { return float64(s.Compactions) }},
	{"flushes_total", "Flushes of the read models since the start.", prometheus.CounterValue,
		func(s projector.StoreStats) float64 { return float64(s.Flushes) }},
	{"held_up_seconds_total", "How long commits were held up because more came than is compacted.",
		prometheus.CounterValue, func(s projector.StoreStats) float64 { return s.HeldUp.Seconds() }},
}

// storeMetrics are the numbers of the stores, which are asked once for each scrape.
type storeMetrics struct{ server *server }

// Describe implements prometheus.Collector.
func (m storeMetrics) Describe(out chan<- *prometheus.Desc) {
	for _, one := range modelMetrics {
		out <- one.desc()
	}
	for _, desc := range []*prometheus.Desc{logBytes, connections, storeBytes, storePace, storeFree, storeDays} {
		out <- desc
	}
}

// Collect implements prometheus.Collector.
func (m storeMetrics) Collect(out chan<- prometheus.Metric) {
	stats := m.server.views.StoreStats()
	for _, one := range modelMetrics {
		out <- prometheus.MustNewConstMetric(one.desc(), one.kind, one.value(stats))
	}
	if m.server.log.nats != nil { // an external NATS server has its own metrics
		stored, err := m.server.log.nats.Stored()
		if err != nil {
			m.server.logger.Warn("metrics lack the size of JetStream's streams", "error", err)
		}
		out <- prometheus.MustNewConstMetric(logBytes, prometheus.GaugeValue, float64(stored.Bytes))
		out <- prometheus.MustNewConstMetric(connections, prometheus.GaugeValue, float64(stored.Connections))
	}
	for _, one := range m.server.disks.measured() {
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
