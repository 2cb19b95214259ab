package main

import (
	"slices"

	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/projector"
)

// leftHistoryPage is how many records of a history are looked at together.
const leftHistoryPage = 100

// leftProviders lists the providers of nodes that were deleted while node
// providers were off, when nobody took the provider along. A provider that was
// made after its node was deleted, or changed since by more than consumers
// that left it, is somebody else's now.
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

// providerCommands are those with which Placement's clients make a provider
// their own.
var providerCommands = []string{
	"RenameProvider", "ReparentProvider", "UpdateProvider", "ReplaceInventories", "CreateInventory", "UpdateInventory", "DeleteInventory",
	"DeleteInventories", "ReplaceProviderTraits", "ReplaceProviderAggregates", "Reshape", "Batch",
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
			if err != nil || found && slices.Contains(providerCommands, record.Command) {
				return false, err
			}
		}
	}
}
