package main

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"slices"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/allot-project/allot/api/audit"
)

// topView is one look at a server.
type topView struct {
	Time             time.Time     `json:"time"`
	Server           string        `json:"server"`
	Role             string        `json:"role"`
	Status           string        `json:"status"`
	Sequence         uint64        `json:"sequence"`
	CommitsPerSecond float64       `json:"commits_per_second"`
	Rates            *topRates     `json:"rates,omitempty"` // nil: there are no metrics
	Providers        []topProvider `json:"providers"`
	Projects         []topProject  `json:"projects"`
	// Partial means that not all consumers were read.
	Partial bool `json:"partial,omitempty"`
}

// topRates are what metrics say about the time between two looks.
type topRates struct {
	Waiting          int       `json:"waiting"`
	RefusedPerSecond float64   `json:"refused_per_second"`
	LagCommits       float64   `json:"lag_commits"`
	DiskFreeBytes    float64   `json:"disk_free_bytes"`
	Doors            []topRate `json:"doors"`
	Stages           []topRate `json:"stages"`
	Commands         []topRate `json:"commands"`
}

// topRate is how often something happened, and how long it took, in seconds.
type topRate struct {
	Name            string  `json:"name"`
	PerSecond       float64 `json:"per_second"`
	FaultsPerSecond float64 `json:"faults_per_second"` // of a command: rejections
	P50             float64 `json:"p50_seconds"`
	P99             float64 `json:"p99_seconds"`
}

// topProvider is a provider with its fullest class.
type topProvider struct {
	Provider string  `json:"provider"`
	Name     string  `json:"name"`
	Class    string  `json:"class"`
	Used     int64   `json:"used"`
	Capacity int64   `json:"capacity"`
	Full     float64 `json:"full"` // share that is used
}

// topProject is a project with what its consumers hold.
type topProject struct {
	Project   string           `json:"project"`
	Consumers int              `json:"consumers"`
	Holds     map[string]int64 `json:"holds"`
}

// topWatch looks at a server again and again.
type topWatch struct {
	command  *topCommand
	last     topSample
	before   topSample
	holdings topView // providers and projects
	held     time.Time
}

// topSample is what a server says at one moment.
type topSample struct {
	at      time.Time
	health  health
	metrics map[string]*dto.MetricFamily // nil: there are none
}

// look takes a sample.
func (w *topWatch) look(ctx context.Context) error {
	status, err := fetch[health](ctx, w.command.serverFlags, healthPath, nil)
	if err != nil {
		return err
	}
	sample := topSample{at: time.Now(), health: *status}
	if w.command.Metrics != "" {
		if sample.metrics, err = readFamilies(ctx, w.command.Metrics); err != nil {
			return err
		}
	}
	w.before, w.last = w.last, sample
	return nil
}

// readFamilies reads a server's metrics.
func readFamilies(ctx context.Context, address string) (map[string]*dto.MetricFamily, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/metrics", http.NoBody)
	if err != nil {
		return nil, fmt.Errorf("--metrics %s: %w", address, err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, fmt.Errorf("--metrics %s: nobody serves metrics there: %w", address, err)
	}
	defer func() { _ = resp.Body.Close() }() // it was read
	parser := expfmt.NewTextParser(model.LegacyValidation)
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("--metrics %s: these are no metrics: it answers %s", address, resp.Status)
	}
	families, err := parser.TextToMetricFamilies(resp.Body)
	if err != nil {
		return nil, fmt.Errorf("--metrics %s: these are no metrics: %w", address, err)
	}
	return families, nil
}

// view takes a sample, and says what has happened since the last one.
func (w *topWatch) view(ctx context.Context) (*topView, error) {
	if err := w.look(ctx); err != nil {
		return nil, err
	}
	if time.Since(w.held) > holdingsEvery {
		if err := w.hold(ctx); err != nil {
			return nil, err
		}
		w.held = time.Now()
	}
	view := w.holdings
	now, took := w.last, w.last.at.Sub(w.before.at).Seconds()
	view.Time, view.Server = now.at, w.command.HTTP
	view.Role, view.Status, view.Sequence = now.health.Role, now.health.Status, now.health.Sequence
	if now.health.Sequence > w.before.health.Sequence {
		view.CommitsPerSecond = float64(now.health.Sequence-w.before.health.Sequence) / took
	}
	if now.metrics != nil {
		view.Rates = rates(delta{w.before.metrics, now.metrics, took}, w.command.Rows)
	}
	return &view, nil
}

const (
	// topPage and maxTopPages bound how many consumers are read.
	topPage     = 1000
	maxTopPages = 20
)

// hold reads who holds how much.
func (w *topWatch) hold(ctx context.Context) error {
	list, err := fetch[audit.Providers](ctx, w.command.serverFlags, "/audit/providers", nil)
	if err != nil {
		return err
	}
	providers := []topProvider{}
	for _, p := range list.Providers {
		fullest := topProvider{Provider: p.Provider.String(), Name: p.Name}
		for _, i := range p.Inventories {
			if share := float64(i.Used) / float64(max(i.Capacity, 1)); share > fullest.Full {
				fullest.Class, fullest.Used, fullest.Capacity, fullest.Full = i.Class, i.Used, i.Capacity, share
			}
		}
		if fullest.Used > 0 {
			providers = append(providers, fullest)
		}
	}
	slices.SortFunc(providers, func(a, b topProvider) int {
		return cmp.Or(cmp.Compare(b.Full, a.Full), cmp.Compare(b.Used, a.Used), cmp.Compare(a.Name, b.Name))
	})
	projects, partial, err := w.projects(ctx)
	if err != nil {
		return err
	}
	w.holdings = topView{
		Providers: providers[:min(len(providers), w.command.Rows)], Projects: projects[:min(len(projects), w.command.Rows)],
		Partial: partial,
	}
	return nil
}

// projects adds up what the consumers of each project hold.
func (w *topWatch) projects(ctx context.Context) (list []topProject, partial bool, err error) {
	sums := make(map[string]*topProject)
	query := url.Values{"limit": {fmt.Sprint(topPage)}}
	more := true
	for pages := 0; more && pages < maxTopPages; pages++ {
		page, err := fetch[audit.Consumers](ctx, w.command.serverFlags, "/audit/consumers", query)
		if err != nil {
			return nil, false, err
		}
		for _, one := range page.Consumers {
			sum := sums[one.Project]
			if sum == nil {
				sum = &topProject{Project: one.Project, Holds: make(map[string]int64)}
				sums[one.Project] = sum
			}
			sum.Consumers++
			for _, a := range one.Allocations {
				sum.Holds[a.Class] += a.Amount
			}
		}
		query.Set("after", page.Next)
		query.Set("at", fmt.Sprint(page.Sequence)) // all pages are of one moment
		more = page.Next != ""
	}
	list = []topProject{}
	for _, sum := range sums {
		list = append(list, *sum)
	}
	slices.SortFunc(list, func(a, b topProject) int {
		return cmp.Or(cmp.Compare(b.Consumers, a.Consumers), cmp.Compare(a.Project, b.Project))
	})
	return list, more, nil
}

// delta is what metrics have grown by, in some seconds.
type delta struct {
	before, after map[string]*dto.MetricFamily
	seconds       float64
}

// grown sums how much the values of a family have grown, by the value of a label,
// over the series that a filter takes.
func (d delta) grown(family, by string, takes func(labels map[string]string) bool) map[string]float64 {
	sums := make(map[string]float64)
	for sign, families := range map[float64]map[string]*dto.MetricFamily{1: d.after, -1: d.before} {
		for _, m := range families[family].GetMetric() {
			labels := labelsOf(m)
			if takes != nil && !takes(labels) {
				continue
			}
			value := m.GetCounter().GetValue()
			if m.Histogram != nil {
				value = float64(m.Histogram.GetSampleCount())
			}
			sums[labels[by]] += sign * value
		}
	}
	return sums
}

func labelsOf(m *dto.Metric) map[string]string {
	labels := make(map[string]string, len(m.GetLabel()))
	for _, l := range m.GetLabel() {
		labels[l.GetName()] = l.GetValue()
	}
	return labels
}

// gauge returns the present value of a metric without labels.
func (d delta) gauge(family string) float64 {
	for _, m := range d.after[family].GetMetric() {
		return m.GetGauge().GetValue()
	}
	return 0
}

// quantile estimates a quantile of what a histogram has taken meanwhile, by the
// value of a label: the upper bound of the bucket that it falls into.
func (d delta) quantile(family, by, value string, q float64) float64 {
	buckets := make(map[float64]float64)
	for sign, families := range map[float64]map[string]*dto.MetricFamily{1: d.after, -1: d.before} {
		for _, m := range families[family].GetMetric() {
			if by != "" && labelsOf(m)[by] != value {
				continue
			}
			for _, b := range m.GetHistogram().GetBucket() {
				buckets[b.GetUpperBound()] += sign * float64(b.GetCumulativeCount())
			}
		}
	}
	bounds := make([]float64, 0, len(buckets))
	for bound := range buckets {
		bounds = append(bounds, bound)
	}
	slices.Sort(bounds)
	if len(bounds) == 0 || buckets[bounds[len(bounds)-1]] <= 0 {
		return 0
	}
	want := q * buckets[bounds[len(bounds)-1]]
	last := 0.0
	for _, bound := range bounds {
		if !math.IsInf(bound, 1) {
			last = bound
		}
		if buckets[bound] >= want {
			return last
		}
	}
	return last
}

// rates says what metrics have grown by.
func rates(d delta, rows int) *topRates {
	r := &topRates{
		Waiting: int(d.gauge("allot_commands_waiting")), LagCommits: d.gauge("allot_replica_lag_commits"),
		DiskFreeBytes:    d.gauge("allot_disk_free_bytes"),
		RefusedPerSecond: d.grown("allot_commands_refused_total", "", nil)[""] / d.seconds,
	}
	faults := d.grown("allot_http_requests_total", "", func(l map[string]string) bool { return l["code"] >= "500" })
	r.Doors = append(r.Doors, d.rate("http", "allot_http_request_duration_seconds", "", "", faults[""]))
	faults = d.grown("allot_nats_requests_total", "", func(l map[string]string) bool {
		return l["outcome"] == "internal" || l["outcome"] == "unavailable" || l["outcome"] == "unsent"
	})
	r.Doors = append(r.Doors, d.rate("nats", "allot_nats_request_duration_seconds", "", "", faults[""]))
	for _, stage := range []string{"queue", "decide", "append", "fold"} {
		r.Stages = append(r.Stages, d.rate(stage, "allot_commit_stage_duration_seconds", "stage", stage, 0))
	}
	rejected := d.grown("allot_commands_total", "command", func(l map[string]string) bool { return l["outcome"] == "rejected" })
	r.Commands = []topRate{}
	for command, grown := range d.grown("allot_command_duration_seconds", "command", nil) {
		if grown > 0 {
			r.Commands = append(r.Commands,
				d.rate(command, "allot_command_duration_seconds", "command", command, rejected[command]))
		}
	}
	slices.SortFunc(r.Commands, func(a, b topRate) int {
		return cmp.Or(cmp.Compare(b.PerSecond, a.PerSecond), cmp.Compare(a.Name, b.Name))
	})
	r.Commands = r.Commands[:min(len(r.Commands), rows)]
	return r
}

func (d delta) rate(name, family, by, value string, faults float64) topRate {
	return topRate{
		Name: name, PerSecond: d.grown(family, by, nil)[value] / d.seconds, FaultsPerSecond: faults / d.seconds,
		P50: d.quantile(family, by, value, 0.5), P99: d.quantile(family, by, value, 0.99),
	}
}
