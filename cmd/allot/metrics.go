package main

import (
	"errors"
	"net"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/allot-project/allot/projector/check"
)

// serveMetrics answers /metrics on a port of its own: numbers only, and
// nothing that would need authentication.
func (n *node) serveMetrics() error {
	if n.config.Metrics == "" {
		return nil
	}
	listener, err := net.Listen("tcp", n.config.Metrics)
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(n.metrics(), promhttp.HandlerOpts{}))
	n.metricsHTTP = &http.Server{Handler: n.config.fromScrapers(mux), ReadHeaderTimeout: readHeaderTimeout, ReadTimeout: readTimeout, IdleTimeout: idleTimeout}
	go func() {
		if err := n.metricsHTTP.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			n.log.Error("metrics are not served", "error", err)
		}
	}()
	n.log.Info("serving metrics", "http", listener.Addr())
	return nil
}

// metrics are read when they are asked for.
func (n *node) metrics() *prometheus.Registry {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	add := func(name, help string, value func() float64) {
		registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Namespace: "allot", Name: name, Help: help}, value))
	}
	add("log_sequence", "Sequence of the newest commit that can be read.", func() float64 { return float64(n.views.View().Sequence()) })
	add("read_models_ready", "1: the read models can be read and written; 0: they are being made again from the log.", func() float64 {
		if n.views.Ready() != nil {
			return 0
		}
		return 1
	})
	add("commands_waiting", "Commands in the writer's queue.", func() float64 { return float64(n.writer.Waiting()) })
	add("disk_free_bytes", "Bytes free on the fullest disk of the data folder.", func() float64 { return float64(n.space.free.Load()) })
	add("disk_reserve_bytes", "Commands are refused while less than this is free.", func() float64 { return float64(n.space.reserve.Load()) })
	add("log_stuck", "1: the log takes no commits, and commands are refused.", func() float64 {
		if n.writer.Stuck() || n.space.refuse() != nil {
			return 1
		}
		return 0
	})
	registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{
		Namespace: "allot", Name: "commands_refused_total", Help: "Commands that were refused because the log could not be written.",
	}, func() float64 { return float64(n.writer.Refused()) }))
	if n.keeper != nil {
		add("rejected_dropped", "Rejected commands that were not kept, since the start.", func() float64 { return float64(n.keeper.Dropped()) })
	}
	if n.scrubber != nil {
		scrubbed := func(value func(check.ScrubStatus) float64) func() float64 {
			return func() float64 { return value(n.scrubber.Status()) }
		}
		add("scrub_damage", "Damage on the disk that the last round of reading everything again found, or the one under way so far.",
			scrubbed(func(s check.ScrubStatus) float64 { return float64(s.Found) }))
		add("scrub_rounds", "Rounds of reading everything on the disk again that have ended.",
			scrubbed(func(s check.ScrubStatus) float64 { return float64(s.Rounds) }))
		add("scrub_read_bytes", "Bytes read in the round under way.", scrubbed(func(s check.ScrubStatus) float64 { return float64(s.Bytes) }))
		add("scrub_total_bytes", "Bytes that there were to read at its begin.", scrubbed(func(s check.ScrubStatus) float64 { return float64(s.Total) }))
		add("scrub_timestamp_seconds", "When the round began.", scrubbed(func(s check.ScrubStatus) float64 { return float64(s.Begun.UnixNano()) / 1e9 }))
	}
	if n.auditor == nil {
		return registry
	}
	audited := func(value func(*check.AuditResult) float64) func() float64 {
		return func() float64 {
			if last := n.auditor.Last(); last != nil {
				return value(last)
			}
			return 0
		}
	}
	add("audit_good", "1: the last audit found nothing; 0: it did, or there was none yet.", audited(func(r *check.AuditResult) float64 {
		if r.Good() {
			return 1
		}
		return 0
	}))
	add("audit_sequence", "Sequence up to which the last audit compared the log.", audited(func(r *check.AuditResult) float64 { return float64(r.Sequence) }))
	add("audit_lag_commits", "Commits since then.", func() float64 {
		sequence := audited(func(r *check.AuditResult) float64 { return float64(r.Sequence) })()
		return float64(n.views.View().Sequence()) - sequence
	})
	add("audit_timestamp_seconds", "When the last audit began.", audited(func(r *check.AuditResult) float64 { return float64(r.Begun.UnixNano()) / 1e9 }))
	add("audit_duration_seconds", "How long it took.", audited(func(r *check.AuditResult) float64 { return r.Took.Seconds() }))
	add("audit_records", "Records that it replayed.", audited(func(r *check.AuditResult) float64 { return float64(r.Records) }))
	return registry
}
