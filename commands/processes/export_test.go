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
		list[i] = newWaitingClaim(&one.WaitingClaim)
	}
	return inOrder(s, list, func(one *waitingClaim) (commands.Outcome, error) { return grant(one.UUID), nil })
}

// MaxNoted is how many changes of waiting claims a Freed notes.
const MaxNoted = maxNoted

// Forget has a Freed be as one that could not note everything.
func (f *Freed) Forget() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.noted, f.missed = nil, true
}

// Noted takes what a Freed has noted.
func (f *Freed) Noted() (changes []ledger.WaitingClaimChange, missed bool) {
	_, changes, missed = f.take()
	return changes, missed
}
