package shadow

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	model "github.com/prometheus/client_model/go"

	"github.com/allot-project/allot/api/rest"
)

// buckets are those of latencies: from reads in memory to the patience of clients.
var buckets = []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}

// metrics count the work of the proxy; its page shows the comparisons among them.
type metrics struct {
	requests *prometheus.CounterVec
	took     *prometheus.HistogramVec
	compared *prometheus.CounterVec
	repaired *prometheus.CounterVec
}

func newMetrics() metrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(
			prometheus.CounterOpts{Namespace: "allot", Subsystem: "shadow", Name: name, Help: help}, labels,
		)
	}
	return metrics{
		requests: counter("requests_total", "Answers to clients' requests and to their repetitions; code 0: none.",
			"side", "route", "method", "code"),
		took: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: "allot", Subsystem: "shadow", Name: "request_duration_seconds",
			Help: "Time that a side took for these.", Buckets: buckets,
		}, []string{"side", "route", "method"}),
		compared: counter("compared_total", "Comparisons of answers, by kind of request (read, write, refused) and outcome: "+
			"same, different, passing (the same when asked again), skipped.", "kind", "outcome"),
		repaired: counter("repaired_total", "Things that were compared one by one: same, mended, failed.", "outcome"),
	}
}

// Metrics returns all metrics of the proxy.
func (s *Shadow) Metrics() *prometheus.Registry {
	all := prometheus.NewRegistry()
	all.MustRegister(s.metrics.requests, s.metrics.took, s.metrics.compared, s.metrics.repaired,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	for _, gauge := range []struct {
		name, help string
		value      func(Status) float64
	}{
		{"allot_leads", "1: Allot answers; 0: Placement does.", func(s Status) float64 { return float64(Sides[s.Lead]) }},
		{"queue_requests", "Requests that wait for the follower.",
			func(s Status) float64 { return float64(s.Queue.Requests) }},
		{"queue_bytes", "Memory of these.", func(s Status) float64 { return float64(s.Queue.Bytes) }},
		{"missed", "Things that are to be brought in line.", func(s Status) float64 { return float64(s.Queue.Missed) }},
		{"unrepaired", "Things that could not be brought in line.", func(s Status) float64 { return float64(s.UnrepairedCount) }},
		{"changed_behind", "Things that were changed behind the proxy, since the start.",
			func(s Status) float64 { return float64(s.BehindBack) }},
		{"compared_timestamp_seconds", "When everything was compared last; 0: not yet.",
			func(s Status) float64 { return float64(max(0, s.LastCompared.Unix())) }},
	} {
		options := prometheus.GaugeOpts{Namespace: "allot", Subsystem: "shadow", Name: gauge.name, Help: gauge.help}
		all.MustRegister(prometheus.NewGaugeFunc(options, func() float64 { return gauge.value(s.Status()) }))
	}
	return all
}

// answered counts an answer to a client's request, or to its repetition; status 0: none.
func (s *Shadow) answered(of Side, e *entry, status int, took time.Duration) {
	method := rest.KnownMethod(e.method)
	s.metrics.requests.WithLabelValues(of.String(), e.pattern, method, strconv.Itoa(status)).Inc()
	if status != 0 {
		s.metrics.took.WithLabelValues(of.String(), e.pattern, method).Observe(took.Seconds())
	}
}

func (s *Shadow) compared(kind, outcome string) {
	s.metrics.compared.WithLabelValues(kind, outcome).Inc()
}

func (m metrics) outcomes() map[string]map[string]int {
	all := make(map[string]map[string]int)
	each(m.compared, func(labels map[string]string, one *model.Metric) {
		kind := labels["kind"]
		if all[kind] == nil {
			all[kind] = make(map[string]int)
		}
		all[kind][labels["outcome"]] = int(one.GetCounter().GetValue())
	})
	return all
}

func each(of prometheus.Collector, show func(labels map[string]string, one *model.Metric)) {
	all := make(chan prometheus.Metric)
	go func() { of.Collect(all); close(all) }()
	for one := range all {
		var metric model.Metric
		if one.Write(&metric) != nil {
			continue // its labels are all text
		}
		labels := make(map[string]string)
		for _, label := range metric.GetLabel() {
			labels[label.GetName()] = label.GetValue()
		}
		show(labels, &metric)
	}
}
