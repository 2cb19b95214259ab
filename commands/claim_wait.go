package commands

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/allot-project/allot/ledger"
)

// Bounds of claims that wait.
const (
	// MaxClaimWait is for how many seconds a claim may wait: a week.
	MaxClaimWait = 7 * 24 * 3600
	// MaxClaimPriority is the highest priority; the lowest is as far below 0.
	MaxClaimPriority = 100
	// MaxWaitingClaims is how many claims may wait at once, MaxWaitingOfProject how
	// many of one project, and MaxWaitingBytes how much they may take together.
	MaxWaitingClaims    = 10_000
	MaxWaitingOfProject = 1_000
	MaxWaitingBytes     = 16 << 20
)

// waitsFor are the rejections that may be over once something is freed.
var waitsFor = map[Code]bool{CodeNoCandidates: true, CodeClaimBudget: true, CodeOverLimit: true}

// waitsOn are those after which a claim that waits goes on waiting: what it names may
// have been taken away, and may come back.
var waitsOn = map[Code]bool{
	CodeNoCandidates: true, CodeClaimBudget: true, CodeOverLimit: true, CodeClassUnknown: true, CodeTraitUnknown: true,
	CodePreferenceUnknown: true,
}

// checkWait finds what cannot wait.
func (c *Claim) checkWait() *Rejection {
	if c.Wait < 0 || c.Wait > MaxClaimWait {
		return invalid("wait", "%d is not 0 to %d seconds", c.Wait, MaxClaimWait)
	}
	if c.Priority < -MaxClaimPriority || c.Priority > MaxClaimPriority {
		return invalid("priority", "%d is not %d to %d", c.Priority, -MaxClaimPriority, MaxClaimPriority)
	}
	if c.Priority != 0 && c.Wait == 0 {
		return invalid("priority", "only claims that may wait have one")
	}
	if c.Wait == 0 {
		return nil
	}
	for i := range c.For {
		if c.For[i].Project != c.For[0].Project {
			return invalid("wait", "a claim waits for one project, not for %s and %s", c.For[0].Project, c.For[i].Project)
		}
	}
	return nil
}

// wait decides that a claim waits.
func (c *Claim) wait(sent Submission, s *ledger.State) ([]ledger.Event, *Rejection) {
	text, err := c.appendJSON(nil)
	if err != nil {
		return nil, invalid("requests", "%v", err)
	}
	if len(text) > ledger.MaxDocumentBytes {
		return nil, &Rejection{
			Code:    CodeTooLarge,
			Message: fmt.Sprintf("the claim takes %d bytes, and one that waits may take %d", len(text), ledger.MaxDocumentBytes),
			Facts:   Facts{SizeBytes: len(text), LimitBytes: ledger.MaxDocumentBytes},
		}
	}
	asked, err := ledger.ParseDocument(text)
	if err != nil {
		return nil, invalid("requests", "%v", err)
	}
	project := c.For[0].Project
	waiting, bytes := s.WaitingCount()
	switch {
	case s.WaitingCountOf(project) >= MaxWaitingOfProject:
		return nil, tooManyWaiting(project, MaxWaitingOfProject)
	case waiting >= MaxWaitingClaims || bytes+len(asked) > MaxWaitingBytes:
		return nil, tooManyWaiting("", MaxWaitingClaims)
	}
	id := sent.ID
	if id.IsNil() { // it is tried out
		id = c.For[0].Consumer.Derive("waits")
	}
	if _, exists := s.WaitingClaim(id); exists {
		return nil, nil
	}
	return []ledger.Event{ledger.ClaimWaits{
		Claim: id, Project: project, User: c.For[0].User, Priority: c.Priority,
		Lifetime: c.Wait * int64(time.Second), Bound: sent.Project, Asked: asked,
	}}, nil
}

func tooManyWaiting(project string, most int64) *Rejection {
	whose := "there is no room for more claims that wait, of which there may be %d"
	if project != "" {
		whose = "project " + project + " has as many claims that wait as it may have, %d"
	}
	return &Rejection{
		Code: CodeTooManyWaiting, Message: fmt.Sprintf(whose, most), Facts: Facts{Project: project, Limit: &most},
	}
}

// WaitingIn finds the event that says that a claim waits; nil: there is none.
func WaitingIn(events []ledger.Event) *ledger.ClaimWaits {
	for _, event := range events {
		if waits, is := event.(ledger.ClaimWaits); is {
			return &waits
		}
	}
	return nil
}

// WaitedInVain is what a claim is answered with whose waiting has ended; nil: it was
// granted.
func WaitedInVain(id ledger.UUID, how, code, message string) *Rejection {
	switch how {
	case ledger.WaitGranted:
		return nil
	case ledger.WaitExpired:
		return &Rejection{
			Code: CodeClaimExpired, Message: "the claim waited until its time was over", Facts: Facts{Claim: &id},
		}
	case ledger.WaitCancelled:
		return &Rejection{
			Code: CodeClaimCancelled, Message: "the claim waited until it was cancelled", Facts: Facts{Claim: &id},
		}
	}
	return &Rejection{Code: Code(code), Message: "after the claim had waited: " + message, Facts: Facts{Claim: &id}}
}

// ParseWaiting reads the claim that a waiting one is.
func ParseWaiting(asked ledger.Document) (*Claim, error) {
	c := &Claim{}
	if err := json.Unmarshal([]byte(asked.Text()), c); err != nil {
		return nil, fmt.Errorf("commands: a claim that waits: %w", err)
	}
	return c, nil
}

// GrantClaim tries a waiting claim again. If something is found it has that, and waits
// no more; if it has become impossible for good, it waits no more, either. Only the
// server submits it. If the claim waits no more, or its time is over, it changes
// nothing.
type GrantClaim struct {
	operatorsOnly `json:"-"`

	Claim ledger.UUID `json:"claim"`
	Now   int64       `json:"now"` // Unix nanoseconds

	asked *Claim // to be searched for; what the State has is decided
	found *Found
}

// NewGrantClaim makes the command for a waiting claim, which is searched for before it
// is decided.
func NewGrantClaim(id ledger.UUID, now int64, asked *Claim) *GrantClaim {
	return &GrantClaim{Claim: id, Now: now, asked: asked}
}

// CommandName implements Command.
func (*GrantClaim) CommandName() string { return "GrantClaim" }

// Consumers implements Command.
func (c *GrantClaim) Consumers() []ledger.UUID {
	if c.asked == nil {
		return nil
	}
	return c.asked.Consumers()
}

// Check implements Command.
func (c *GrantClaim) Check() *Rejection { return checkUUID("claim", c.Claim) }

func (*GrantClaim) onlyHoldings() {}

// Decide implements Command.
func (c *GrantClaim) Decide(s *ledger.State) ([]ledger.Event, *Rejection) {
	w, waits := s.WaitingClaim(c.Claim)
	if !waits || w.Until <= c.Now {
		return nil, nil
	}
	claim, err := ParseWaiting(w.Asked)
	if err != nil {
		return c.refused(invalid("claim", "%v", err)), nil
	}
	claim.found = c.found
	events, rejection := claim.decideFor(s, w.Bound)
	switch {
	case rejection == nil:
		return append(events, ledger.ClaimWaitEnded{Claim: c.Claim, How: ledger.WaitGranted}), nil
	case waitsOn[rejection.Code] || rejection.Code == CodeClaimOutdated:
		return nil, rejection
	}
	return c.refused(rejection), nil
}

// decideFor decides a claim as if its client, who may be bound to a project, sent it
// now.
func (c *Claim) decideFor(s *ledger.State, bound string) ([]ledger.Event, *Rejection) {
	if bound != "" {
		if r := c.ForProject(s, bound); r != nil {
			return nil, r
		}
	}
	events, r := c.Decide(s)
	if r == nil {
		r = withinLimits(s, events)
	}
	return events, r
}

func (c *GrantClaim) refused(r *Rejection) []ledger.Event {
	return []ledger.Event{ledger.ClaimWaitEnded{
		Claim: c.Claim, How: ledger.WaitRefused, Code: string(r.Code), Message: r.Message,
	}}
}

// ExpireClaim ends the waiting of a claim whose time is over by Now. Only the server
// submits it. If the claim waits no more, or longer, it changes nothing.
type ExpireClaim struct {
	operatorsOnly `json:"-"`
	noConsumers   `json:"-"`

	Claim ledger.UUID `json:"claim"`
	Now   int64       `json:"now"` // Unix nanoseconds
}

// CommandName implements Command.
func (*ExpireClaim) CommandName() string { return "ExpireClaim" }

// Check implements Command.
func (c *ExpireClaim) Check() *Rejection { return checkUUID("claim", c.Claim) }

func (*ExpireClaim) onlyHoldings() {}

// Decide implements Command.
func (c *ExpireClaim) Decide(s *ledger.State) ([]ledger.Event, *Rejection) {
	if w, waits := s.WaitingClaim(c.Claim); !waits || w.Until > c.Now {
		return nil, nil
	}
	return []ledger.Event{ledger.ClaimWaitEnded{Claim: c.Claim, How: ledger.WaitExpired}}, nil
}

// CancelClaim ends the waiting of a claim.
type CancelClaim struct {
	noConsumers `json:"-"`

	Claim ledger.UUID `json:"claim"` // the id of its command
}

// CommandName implements Command.
func (*CancelClaim) CommandName() string { return "CancelClaim" }

// Check implements Command.
func (c *CancelClaim) Check() *Rejection { return checkUUID("claim", c.Claim) }

func (*CancelClaim) onlyHoldings() {}

// ForProject implements Command.
func (c *CancelClaim) ForProject(s *ledger.State, project string) *Rejection {
	if w, waits := s.WaitingClaim(c.Claim); waits && w.Project != project {
		return foreign(project, "claim %s", c.Claim)
	}
	return nil
}

// Decide implements Command.
func (c *CancelClaim) Decide(s *ledger.State) ([]ledger.Event, *Rejection) {
	if _, waits := s.WaitingClaim(c.Claim); !waits {
		id := c.Claim
		return nil, &Rejection{
			Code: CodeClaimNotWaiting, Message: fmt.Sprintf("no claim %s waits", id), Facts: Facts{Claim: &id},
		}
	}
	return []ledger.Event{ledger.ClaimWaitEnded{Claim: c.Claim, How: ledger.WaitCancelled}}, nil
}

// Claimed reports whether events give something to the consumers of a claim.
func Claimed(events []ledger.Event) bool {
	for _, event := range events {
		if _, is := event.(ledger.AllocationsClaimed); is {
			return true
		}
	}
	return false
}
