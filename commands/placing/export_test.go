package placing

import (
	"context"
	"time"
)

// Pace is exported for tests.
type Pace = pace

// NewPace is exported for tests.
func NewPace(places chan struct{}) *Pace { return newPace(places) }

// End is exported for tests.
func (p *Pace) End() { p.end() }

// Pause is exported for tests.
func (p *Pace) Pause(ctx context.Context) error { return p.pause(ctx) }

// HasWorked says that a search has computed for so long.
func (p *Pace) HasWorked(d time.Duration) { p.worked = d }

// SetPlaces has a stage's searches take other places. Nothing must be searched meanwhile.
func (s *Stage) SetPlaces(places chan struct{}) { s.places = places }
