package server

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/allot-project/allot/api/auth"
	"github.com/allot-project/allot/cmd/internal/datafolder"
	"github.com/allot-project/allot/commands/processes"
	"github.com/allot-project/allot/projector/check"
)

// limitsEvery is how often Keystone's limits are read: that long a new one may not hold.
const limitsEvery = time.Minute

// processesPart are the processes that submit commands while this server leads: the node placer, the
// expirer, and the follower of Keystone's limits.
type processesPart struct {
	*server

	running []interface{ Stop() }
	limits  processes.LimitStatus // of following Keystone's
}

func (p *processesPart) start(context.Context) error {
	writer, views := p.writer.Load(), p.views.Projector
	p.running = []interface{ Stop() }{
		processes.StartNodePlacer(writer, views, p.logger), processes.StartExpirer(writer, views, p.clock.Now, p.logger),
	}
	if p.notary.Key != nil && p.paces.CommitConsumption { // without a signature, nothing is proved by what is committed to
		p.running = append(p.running, processes.StartConsumptionCommitter(writer, views, p.clock.Now, p.logger))
	}
	if keystone, is := p.access.auth.(*auth.Keystone); is && p.config.UnifiedLimits != "" {
		service, region, _ := strings.Cut(p.config.UnifiedLimits, "@")
		p.running = append(p.running, processes.StartLimitFollower(processes.LimitFollowerConfig{
			Source: &auth.UnifiedLimits{Keystone: keystone, Service: service, Region: region},
			Submit: writer, Views: views, Every: limitsEvery, Logger: p.logger, Status: &p.limits,
		}))
	}
	return nil
}

func (p *processesPart) stop() {
	for _, one := range slices.Backward(p.running) {
		one.Stop()
	}
}

type scrubberPart struct {
	*server

	scrubber *check.Scrubber
}

func (p *scrubberPart) start(context.Context) error {
	cfg := check.ScrubberConfig{
		Views: p.views.Projector, Snapshots: p.data.Path(datafolder.Snapshots),
		BytesPerSecond: scrubRate, Every: p.paces.ScrubEvery, Now: time.Now, Logger: p.logger,
	}
	if p.nats.Server != nil {
		files := p.data.Files()
		cfg.Log, cfg.Whole = &files, p.nats.whole
	}
	p.scrubber = check.StartScrubber(cfg)
	return nil
}

func (p *scrubberPart) stop() { p.scrubber.Stop() }
