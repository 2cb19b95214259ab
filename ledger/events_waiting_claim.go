package ledger

import "fmt"

// ClaimWaits says that nothing was found for a claim, and that it waits until
// something is or its time is over.
type ClaimWaits struct {
	Claim    UUID   `json:"claim"` // the id of the command
	Project  string `json:"project"`
	User     string `json:"user"`
	Priority int64  `json:"priority,omitempty"`
	// Lifetime is how long it waits from the record's time, in nanoseconds.
	Lifetime int64 `json:"lifetime"`
	// Bound is the project that its client was bound to.
	Bound string `json:"bound,omitempty"`
	// Asked is the claim, as the client sent it.
	Asked Document `json:"asked"`
}

var claimWaits = registerAt(2, 107, ClaimWaits.form)

func (ClaimWaits) kind() *eventKind { return claimWaits }

// Topic implements Event.
func (ClaimWaits) Topic() Topic { return Topic{} }

func (ev ClaimWaits) form(c *coder) ClaimWaits {
	c.eventFields(7).uuid(&ev.Claim).text(&ev.Project).text(&ev.User).int(&ev.Priority).int(&ev.Lifetime)
	c.text(&ev.Bound).document(&ev.Asked)
	return ev
}

func (ev ClaimWaits) apply(s *State, at moment) error {
	if _, exists := s.WaitingClaim(ev.Claim); exists || ev.Claim.IsNil() {
		return fmt.Errorf("%w: claim %s waits twice", ErrInvariant, ev.Claim)
	}
	if ev.Lifetime <= 0 || ev.Project == "" {
		return fmt.Errorf("%w: claim %s of project %q waits for %d", ErrInvariant, ev.Claim, ev.Project, ev.Lifetime)
	}
	s.setWaiting(nil, ev.Waiting(at.sequence, at.time))
	return nil
}

// Waiting is the waiting claim, by the commit and the time of its record.
func (ev ClaimWaits) Waiting(sequence uint64, time int64) *WaitingClaim {
	return &WaitingClaim{
		UUID: ev.Claim, Sequence: sequence, Since: time, Until: time + ev.Lifetime, Project: ev.Project, User: ev.User,
		Priority: ev.Priority, Bound: ev.Bound, Asked: ev.Asked,
	}
}

// The ways in which the waiting of a claim ends.
const (
	WaitGranted   = "granted"   // the same record says what it got
	WaitExpired   = "expired"   // its time was over
	WaitCancelled = "cancelled" // somebody asked for that
	WaitRefused   = "refused"   // it had become impossible for good
)

// ClaimWaitEnded says that a claim waits no more.
type ClaimWaitEnded struct {
	Claim UUID   `json:"claim"`
	How   string `json:"how"` // granted, expired, cancelled or refused
	// Code and Message are those of the rejection, if it was refused.
	Code    string `json:"code,omitempty"`
	Message string `json:"message,omitempty"`
}

var claimWaitEnded = registerAt(2, 108, ClaimWaitEnded.form)

func (ClaimWaitEnded) kind() *eventKind { return claimWaitEnded }

// Topic implements Event.
func (ClaimWaitEnded) Topic() Topic { return Topic{} }

func (ev ClaimWaitEnded) form(c *coder) ClaimWaitEnded {
	c.eventFields(4).uuid(&ev.Claim).text(&ev.How).text(&ev.Code).text(&ev.Message)
	return ev
}

func (ev ClaimWaitEnded) apply(s *State, _ moment) error {
	before, waits := s.WaitingClaim(ev.Claim)
	if !waits {
		return fmt.Errorf("%w: claim %s does not wait", ErrInvariant, ev.Claim)
	}
	switch ev.How {
	case WaitGranted, WaitExpired, WaitCancelled, WaitRefused:
	default:
		return fmt.Errorf("%w: the waiting of claim %s cannot end as %q", ErrInvariant, ev.Claim, ev.How)
	}
	s.setWaiting(before, nil)
	return nil
}
