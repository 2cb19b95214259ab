package server

import (
	"context"
	"errors"
	"fmt"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/projector"
)

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
