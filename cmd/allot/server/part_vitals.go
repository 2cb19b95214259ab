package server

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"

	"github.com/allot-project/allot/api/tracing"
	"github.com/allot-project/allot/cmd/allot/server/vitals"
	"github.com/allot-project/allot/cmd/internal/cli"
)

// disksPart watches the disks. The watch outlives the writer.
type disksPart struct {
	*server

	vitals.Disks
}

func (p *disksPart) start(context.Context) error {
	return p.Start(vitals.DisksConfig{
		Data: p.data.Folder, Views: p.views.Projector, NATS: p.nats.Server, Archives: p.archives.list,
		Reserve: p.config.DiskReserve, RoomAgain: p.parts.fail, Logger: p.logger,
		Clock: p.clock,
	})
}

type metricsPart struct {
	*server

	http *http.Server // nil: there is none
}

func (p *metricsPart) start(context.Context) (err error) {
	if p.config.Metrics == "" {
		return nil
	}
	m := &vitals.Metrics{
		Disks: &p.disks.Disks, Instruments: p.instruments, Port: p.rest.port, Replica: p.replica.replica,
		Scrubber: p.scrubber.scrubber, Tracer: p.traces.tracer, Writer: p.writer.Load, Notices: p.notices.Load,
		Witnesses: p.archiver.notary.Witnesses, Archiver: p.archiver.archiver.Load, Storing: p.archiver.storing.Load,
	}
	if p.rejected.stream != nil {
		m.Keeper = p.rejected.keeper.Load
	}
	if p.config.UnifiedLimits != "" {
		m.Limits = &p.processes.limits
	}
	p.http, err = m.Serve(p.config.Metrics, p.config.fromScrapers)
	return err
}

func (p *metricsPart) stop() error {
	if p.http == nil {
		return nil
	}
	return p.http.Close()
}

// supervisorPart reports the server's state to systemd, if a unit of Type=notify
// started it: that it is ready, that it lives (WatchdogSec), that it stops.
type supervisorPart struct {
	*server

	end  context.CancelFunc // nil: systemd has no watchdog for this unit
	done chan struct{}
}

// start reports that the server serves, and from then on that it lives, as often as systemd wants to hear it.
func (p *supervisorPart) start(context.Context) error {
	p.tell(daemon.SdNotifyReady)
	every, err := daemon.SdWatchdogEnabled(false)
	if err != nil {
		p.logger.Warn("systemd's watchdog cannot be used", "error", err)
	}
	if err != nil || every == 0 {
		return nil
	}
	ctx, cancel := context.WithCancel(context.Background())
	p.end, p.done = cancel, make(chan struct{})
	go p.feed(ctx, every/2)
	return nil
}

func (p *supervisorPart) feed(ctx context.Context, every time.Duration) {
	defer close(p.done)
	tick := time.Tick(every)
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick:
			p.tell(daemon.SdNotifyWatchdog)
		}
	}
}

func (p *supervisorPart) stop() {
	if p.end != nil {
		p.end()
		<-p.done
	}
	p.tell(daemon.SdNotifyStopping)
}

func (p *supervisorPart) tell(state string) {
	if _, err := daemon.SdNotify(false, state); err != nil {
		p.logger.Warn("the server's state could not be reported to systemd", "state", state, "error", err)
	}
}

type traceFlags struct {
	URL   string   `help:"Send traces of requests to this URL, as OTLP over HTTP; empty: as OTEL_EXPORTER_OTLP_ENDPOINT says, otherwise none. Credentials belong in OTEL_EXPORTER_OTLP_HEADERS." placeholder:"URL"`
	Ratio *float64 `help:"Share of the traces that begin here that are recorded, from 0 to 1; default: as OTEL_TRACES_SAMPLER says, otherwise 0.01. A request that comes with a traceparent is recorded if that says so." placeholder:"SHARE"`
}

func (f traceFlags) check() error {
	if f.Ratio != nil && (*f.Ratio < 0 || *f.Ratio > 1) {
		return fmt.Errorf("--trace-ratio %g is not a share from 0 to 1", *f.Ratio)
	}
	return nil
}

// lastSpans is how long a receiver may take for the last spans when the server stops.
const lastSpans = time.Second

type tracesPart struct {
	*server

	tracer *tracing.Tracer // nil: there are none
}

func (p *tracesPart) start(ctx context.Context) (err error) {
	if p.config.Trace.URL == "" && !tracing.Wanted() {
		return nil
	}
	p.tracer, err = tracing.Start(ctx, tracing.Options{
		URL: p.config.Trace.URL, Ratio: p.config.Trace.Ratio, Version: cli.Version(),
		Instance: cmp.Or(p.config.Cluster.Name, p.config.HTTP), Logger: p.logger,
	})
	if err != nil {
		return fmt.Errorf("--trace-url: %w", err)
	}
	return nil
}

func (p *tracesPart) stop() error {
	if p.tracer == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), lastSpans)
	defer cancel()
	return p.tracer.Stop(ctx)
}
