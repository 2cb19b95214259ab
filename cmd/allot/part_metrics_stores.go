package main

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/allot-project/allot/ledger/embedded"
	"github.com/allot-project/allot/projector"
)

// scrapeMemory is how long one answer of a store is used. All its numbers are
// read within one scrape.
const scrapeMemory = time.Second

// remembered asks again only after some time.
type remembered[T any] struct {
	ask func() T

	mu    sync.Mutex
	asked time.Time // guarded by mu
	said  T         // guarded by mu
}

func (r *remembered[T]) get() T {
	r.mu.Lock()
	defer r.mu.Unlock()
	if time.Since(r.asked) > scrapeMemory {
		r.said, r.asked = r.ask(), time.Now()
	}
	return r.said
}

// count adds a number that only grows.
func (g gauges) count(name, help string, value func() float64) {
	g.registry.MustRegister(
		prometheus.NewCounterFunc(prometheus.CounterOpts{Namespace: "allot", Name: name, Help: help}, value),
	)
}

// addStores adds the stores' own numbers.
func (s *server) addStores(g gauges) {
	models := &remembered[projector.StoreStats]{ask: s.views.StoreStats}
	of := func(value func(projector.StoreStats) float64) func() float64 {
		return func() float64 { return value(models.get()) }
	}
	g.add("read_models_bytes", "Bytes of the read models on the disk.",
		of(func(s projector.StoreStats) float64 { return float64(s.DiskBytes) }))
	g.add("read_models_wal_bytes", "Bytes of the read models in their write-ahead log.",
		of(func(s projector.StoreStats) float64 { return float64(s.WALBytes) }))
	g.add("read_models_compaction_debt_bytes", "Bytes of the read models that wait for compaction.",
		of(func(s projector.StoreStats) float64 { return float64(s.DebtBytes) }))
	g.add("read_models_read_amplification", "Number of tables that one read may have to search.",
		of(func(s projector.StoreStats) float64 { return float64(s.ReadAmplification) }))
	g.count("read_models_cache_hits_total", "Blocks of the read models that were found in memory.",
		of(func(s projector.StoreStats) float64 { return float64(s.CacheHits) }))
	g.count("read_models_cache_misses_total", "Blocks of the read models that were read from the disk.",
		of(func(s projector.StoreStats) float64 { return float64(s.CacheMisses) }))
	g.count("read_models_compactions_total", "Compactions of the read models since the start.",
		of(func(s projector.StoreStats) float64 { return float64(s.Compactions) }))
	g.count("read_models_flushes_total", "Flushes of the read models since the start.",
		of(func(s projector.StoreStats) float64 { return float64(s.Flushes) }))
	g.count("read_models_held_up_seconds_total",
		"How long commits were held up because more came than is compacted.",
		of(func(s projector.StoreStats) float64 { return s.HeldUp.Seconds() }))
	if s.log.nats == nil {
		return // an external NATS server has its own metrics
	}
	nats := &remembered[embedded.Stored]{ask: func() embedded.Stored {
		stored, err := s.log.nats.Stored()
		if err != nil {
			s.logger.Warn("metrics lack the size of JetStream's streams", "error", err)
		}
		return stored
	}}
	g.add("log_bytes", "Bytes in JetStream's streams: the log, and rejected commands.",
		func() float64 { return float64(nats.get().Bytes) })
	g.add("nats_connections", "Connections of the embedded NATS server, including this process's own.",
		func() float64 { return float64(nats.get().Connections) })
}
