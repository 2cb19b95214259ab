package answers

import (
	"fmt"
	"slices"

	"github.com/allot-project/allot/commands/wire"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/projector"
)

// maxWaitingClaims is how many waiting claims one answer has at most.
const maxWaitingClaims = 1000

// WaitingClaim tells of a claim that waits, or that has waited; nil: none has the id.
func WaitingClaim(v projector.View, id ledger.UUID) (*wire.WaitingClaim, error) {
	w, found, err := v.WaitingClaim(id)
	if err != nil || !found {
		return nil, err
	}
	one := waitingClaimOf(w)
	one.Asked = &w.Asked
	return &one, nil
}

func waitingClaimOf(w *projector.WaitingClaim) wire.WaitingClaim {
	one := wire.WaitingClaim{
		Claim: w.UUID, State: wire.ClaimWaiting, Project: w.Project, User: w.User, Priority: w.Priority,
		Since: rfc3339(w.Since), Until: rfc3339(w.Until),
	}
	if w.End != nil {
		one.State, one.Code, one.Message = w.End.How, w.End.Code, w.End.Message
		one.Ended, one.Record = rfc3339(w.End.Time), w.End.Record.String()
	}
	return one
}

// WaitingClaims lists the claims that wait at a moment, by their ids, of one project or
// of all.
func WaitingClaims(v projector.View, q *wire.WaitingClaimsQuery) (*wire.WaitingClaims, error) {
	limit := q.Limit
	if limit == 0 {
		limit = maxWaitingClaims
	}
	if limit < 1 || limit > maxWaitingClaims {
		return nil, fmt.Errorf("%w: limit: %d is not a number from 1 to %d", ErrQuery, q.Limit, maxWaitingClaims)
	}
	ids, err := v.WaitingIDs()
	if err != nil {
		return nil, err
	}
	slices.SortFunc(ids, ledger.UUID.Compare)
	answer := &wire.WaitingClaims{Claims: []wire.WaitingClaim{}}
	for _, id := range ids {
		if id.Compare(q.After) <= 0 {
			continue
		}
		w, found, err := v.WaitingClaim(id)
		if err != nil {
			return nil, err
		}
		if !found || q.Project != "" && w.Project != q.Project {
			continue
		}
		if len(answer.Claims) == limit {
			answer.Next = &answer.Claims[limit-1].Claim
			break
		}
		answer.Claims = append(answer.Claims, waitingClaimOf(w))
	}
	return answer, nil
}
