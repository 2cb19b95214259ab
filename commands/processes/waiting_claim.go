package processes

import (
	"encoding/json"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/ledger"
)

// waitingClaim is a claim that waits, as it is tried.
type waitingClaim struct {
	*ledger.WaitingClaim
	claim *commands.Claim
	asks  map[string]int64 // by class
	shape string           // equal for claims of which none has a chance where another had none; empty: unlike all others
	// placed: what it asks for may have to do with more than classes and their amounts.
	placed bool
	// forRoom: it was tried, and waits for nothing but more of a class that it asks for,
	// as far as only consumers change.
	forRoom bool
}

func newWaitingClaim(w *ledger.WaitingClaim) *waitingClaim {
	one := &waitingClaim{WaitingClaim: w, asks: make(map[string]int64)}
	claim, err := commands.ParseWaiting(w.Asked)
	if err != nil {
		return one // the decision ends its waiting
	}
	one.claim = claim
	one.placed = claim.Prefer != nil && (claim.Prefer.Name != "" || len(claim.Prefer.Near) > 0)
	isNew := true
	var members []commands.ClaimConsumer
	for _, consumer := range claim.For {
		if consumer.Request < len(claim.Requests) {
			for _, group := range claim.Requests[consumer.Request].Groups {
				for class, amount := range group.Resources {
					one.asks[class] += amount * int64(max(1, consumer.Count))
				}
			}
		}
		isNew = isNew && consumer.Generation == nil && !consumer.AnyGeneration
		members = append(members, commands.ClaimConsumer{Request: consumer.Request, Count: consumer.Count})
	}
	one.placed = one.placed || len(one.asks) == 0
	if isNew {
		if text, err := json.Marshal(&commands.Claim{
			For: members, Requests: claim.Requests, Prefer: claim.Prefer, Gang: claim.Gang,
		}); err == nil {
			one.shape = string(text)
		}
	}
	return one
}

// deadlines is a heap: the first is that which is over first.
type deadlines []deadline

type deadline struct {
	at int64 // Unix nanoseconds
	*waitingClaim
}

func (d deadlines) Len() int { return len(d) }

func (d deadlines) Less(i, j int) bool { return d[i].at < d[j].at }

func (d deadlines) Swap(i, j int) { d[i], d[j] = d[j], d[i] }

func (d *deadlines) Push(one any) { *d = append(*d, one.(deadline)) }

func (d *deadlines) Pop() any {
	last := (*d)[len(*d)-1]
	(*d)[len(*d)-1] = deadline{}
	*d = (*d)[:len(*d)-1]
	return last
}
