package processes

import (
	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/projector"
)

// TryInOrder tries claims as a round of the ClaimGranter does: held is what each
// project holds of each class.
func TryInOrder(
	held map[string]map[string]int64, claims []*projector.WaitingClaim, grant func(ledger.UUID) commands.Outcome,
) error {
	s := &shares{held: held, totals: make(map[string]int64)}
	for _, amounts := range held {
		for class, amount := range amounts {
			s.totals[class] += amount
		}
	}
	list := make([]*waitingClaim, len(claims))
	for i, one := range claims {
		list[i] = newWaitingClaim(one)
	}
	return inOrder(s, list, func(one *waitingClaim) (commands.Outcome, error) { return grant(one.UUID), nil })
}
