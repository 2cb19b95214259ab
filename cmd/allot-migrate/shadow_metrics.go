package main

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/allot-project/allot/api/rest"
	"github.com/allot-project/allot/cmd/allot-migrate/shadow"
)

// latencies are the buckets: from reads in memory to the patience of clients.
var latencies = []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}

// shadowMeter counts the work of the proxy.
type shadowMeter struct {
	answered  *prometheus.CounterVec
	took      *prometheus.HistogramVec
	compared  *prometheus.CounterVec
	repaired  *prometheus.CounterVec
	collected *prometheus.Registry
}

func newShadowMeter() *shadowMeter {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(
			prometheus.CounterOpts{Namespace: "allot", Subsystem: "shadow", Name: name, Help: help}, labels,
		)
	}
	m := &shadowMeter{
		answered: counter("requests_total", "Answers to clients' requests and to their repetitions; code 0: none.",
			"side", "route", "method", "code"),
		took: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: "allot", Subsystem: "shadow", Name: "request_duration_seconds",
			Help: "Time that a side took for these.", Buckets: latencies,
		}, []string{"side", "route", "method"}),
		compared: counter("compared_total", "Comparisons of answers, by kind of request (read, write, refused) and outcome: "+
			"same, different, passing (the same when asked again), skipped.", "kind", "outcome"),
		repaired: counter("repaired_total", "Things that were compared one by one: same, mended, failed.", "outcome"),
	}
	m.collected = prometheus.NewRegistry()
	m.collected.MustRegister(m.answered, m.took, m.compared, m.repaired)
	return m
}

// registry returns all metrics of a proxy.
func (m *shadowMeter) registry(proxy *shadow.Shadow) *prometheus.Registry {
	process := collectors.NewProcessCollector(collectors.ProcessCollectorOpts{})
	m.collected.MustRegister(collectors.NewGoCollector(), process)
	add := func(name, help string, value func() float64) {
		options := prometheus.GaugeOpts{Namespace: "allot", Subsystem: "shadow", Name: name, Help: help}
		m.collected.MustRegister(prometheus.NewGaugeFunc(options, value))
	}
	status := func(value func(shadow.Status) float64) func() float64 {
		return func() float64 { return value(proxy.Status()) }
	}
	add("allot_leads", "1: Allot answers; 0: Placement does.",
		func() float64 {
			if proxy.Lead() == shadow.Allot {
				return 1
			}
			return 0
		})
	add("queue_requests", "Requests that wait for the follower.",
		status(func(s shadow.Status) float64 { return float64(s.Queue.Requests) }))
	add("queue_bytes", "Memory of these.",
		status(func(s shadow.Status) float64 { return float64(s.Queue.Bytes) }))
	add("missed", "Things that are to be brought in line.",
		status(func(s shadow.Status) float64 { return float64(s.Queue.Missed) }))
	add("unrepaired", "Things that could not be brought in line.",
		status(func(s shadow.Status) float64 { return float64(s.UnrepairedCount) }))
	add("changed_behind", "Things that were changed behind the proxy, since the start.",
		status(func(s shadow.Status) float64 { return float64(s.BehindBack) }))
	add("compared_timestamp_seconds", "When everything was compared last; 0: not yet.",
		status(func(s shadow.Status) float64 {
			if s.LastCompared.IsZero() {
				return 0
			}
			return float64(s.LastCompared.Unix())
		}))
	return m.collected
}

// Answered implements shadow.Meter.
func (m *shadowMeter) Answered(of shadow.Side, route, method string, status int, took time.Duration) {
	method = rest.KnownMethod(method)
	m.answered.WithLabelValues(of.String(), route, method, strconv.Itoa(status)).Inc()
	if status != 0 {
		m.took.WithLabelValues(of.String(), route, method).Observe(took.Seconds())
	}
}

// Compared implements shadow.Meter.
func (m *shadowMeter) Compared(kind, outcome string) { m.compared.WithLabelValues(kind, outcome).Inc() }

// Repaired implements shadow.Meter.
func (m *shadowMeter) Repaired(outcome string) { m.repaired.WithLabelValues(outcome).Inc() }
