package server

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/allot-project/allot/api/auth"
	"github.com/allot-project/allot/cmd/internal/datafolder"
	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/processes"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/projector"
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

const leftHistoryPage = 100

// leftProviders lists the providers of nodes that were deleted while node providers were off, unless a client
// has taken the provider over. A provider that was made after its node was deleted, or changed since by more
// than consumers that left it, belongs to a client.
func leftProviders(view projector.View) (left []ledger.UUID, err error) {
	var failure error
	err = view.Providers(func(p *ledger.Provider) bool {
		var isLeft bool
		if isLeft, failure = isLeftOfNode(view, p); isLeft {
			left = append(left, p.UUID)
		}
		return failure == nil
	})
	if err == nil {
		err = failure
	}
	return left, err
}

func isLeftOfNode(view projector.View, p *ledger.Provider) (bool, error) {
	_, isNode, err := view.Node(p.UUID)
	if err != nil || isNode {
		return false, err
	}
	ended, err := view.History(projector.NodeHistory, p.UUID, 0, 1)
	if err != nil || len(ended) == 0 {
		return false, err
	}
	deleted, found, err := view.Record(ended[0])
	if err != nil || !found || p.CreatedAt > deleted.Time {
		return false, err
	}
	for last := ended[0]; ; {
		since, err := view.HistoryAfter(projector.Subject{Kind: projector.ProviderHistory, ID: p.UUID}, last, leftHistoryPage)
		if err != nil || len(since) == 0 {
			return err == nil, err
		}
		for _, last = range since {
			record, found, err := view.Record(last)
			if err != nil || found && !leaves(record.Command) {
				return false, err
			}
		}
	}
}

// leaves reports whether a command leaves the owner of a provider unchanged: it changes only what consumers
// hold, or the server submits it. By any other command a client of Placement takes the provider over.
func leaves(command string) bool {
	return commands.OnlyHoldings(command) || commands.Internal[command] != nil
}

// nodeProvidersAtATime is how many nodes at most become providers in one record.
const nodeProvidersAtATime = 1000

// nodeProvidersPart turns node providers on or off, as configured.
type nodeProvidersPart struct{ *server }

func (p nodeProvidersPart) start(ctx context.Context) error {
	var left []ledger.UUID
	if p.config.NodeProviders {
		var err error
		left, err = leftProviders(p.views.View())
		switch {
		case errors.Is(err, ledger.ErrUnavailable): // a start waits for no archive
			p.logger.Warn("providers that deleted nodes have left behind are not looked for: the next start does", "error", err)
			left = nil
		case err != nil:
			return fmt.Errorf("--node-providers: %w", err)
		}
	}
	for {
		set := &commands.SetNodeProviders{On: p.config.NodeProviders, Limit: nodeProvidersAtATime, Left: left}
		outcome, err := p.writer.submit(ctx, set, "--node-providers")
		if err != nil {
			return err
		}
		if outcome.Address.Sequence == 0 {
			return p.tellLeft(left)
		}
	}
}

// tellLeft logs the providers of deleted nodes that are still in use.
func (p nodeProvidersPart) tellLeft(left []ledger.UUID) error {
	view, listed := p.views.View(), []ledger.UUID{}
	for _, id := range left {
		_, found, err := view.Provider(id)
		if err != nil {
			return fmt.Errorf("--node-providers: %w", err)
		}
		if found {
			listed = append(listed, id)
		}
	}
	if len(listed) > 0 {
		p.logger.Warn("resource providers of deleted nodes remain, because they have allocations or children: "+
			"release these, and delete the providers through Placement",
			"number", len(listed), "providers", listed[:min(len(listed), maxListedProviders)])
	}
	return nil
}

// maxListedProviders is how many providers a line of the server's log lists at most.
const maxListedProviders = 50
