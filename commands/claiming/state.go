package claiming

import (
	"context"
	"errors"
	"fmt"

	"github.com/allot-project/allot/commands/demand"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/projector/candidates"
)

const (
	// maxInState is up to how many providers a State itself is searched, which takes as long as
	// there are any, and maxStepsInState bounds that.
	maxInState      = 4096
	maxStepsInState = 200_000
)

// InState searches a State itself for what a claim asks for: what-if questions do, whose State is
// in no index.
func InState(s *ledger.State, c *demand.Claim) (*demand.Found, *demand.Rejection) {
	if n := s.ProviderCount(); n > maxInState {
		return nil, &demand.Rejection{
			Code:    demand.CodeClaimBudget,
			Message: fmt.Sprintf("a claim is not tried out among more than %d providers, and there are %d", maxInState, n),
		}
	}
	providers := make([]*ledger.Provider, 0, s.ProviderCount())
	s.Providers(func(p *ledger.Provider) bool { providers = append(providers, p); return true })
	var limits []*ledger.AggregateLimit
	s.AggregateLimits(func(l *ledger.AggregateLimit) bool { limits = append(limits, l); return true })
	search := Search{
		Limits:  limits,
		Ranking: candidates.NewRanking(candidates.NewWorld(providers)), Classes: s.Classes(), AsOf: s.Head().Sequence,
		MaxSteps: maxStepsInState, Named: demand.NamedIn(s), Consumer: func(id ledger.UUID) (*ledger.Consumer, error) {
			consumer, _ := s.Consumer(id)
			return consumer, nil
		},
	}
	found, err := search.Run(context.Background(), c)
	var rejected *demand.Rejected
	if errors.As(err, &rejected) {
		return nil, rejected.Rejection
	}
	if err != nil {
		return nil, demand.Invalid("requests", "%v", err)
	}
	found.Last = true
	return found, nil
}
