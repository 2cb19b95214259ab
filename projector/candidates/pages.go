package candidates

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
)

// Position is a place in the order that a Preference gives to candidates: the
// one behind some candidate. It holds for the same request and preference only.
// In the same World exactly those candidates come after it that were not found
// up to there; in another World those that stand behind that place now.
type Position struct {
	score float64
	from  distance
	// given is how many of those with this score under this root are in front.
	given int
}

// positionBytes is the size of an encoded Position.
const positionBytes = 8 + 16 + 4

// Append encodes a Position.
func (p Position) Append(out []byte) []byte {
	out = binary.BigEndian.AppendUint64(out, math.Float64bits(p.score))
	out = binary.BigEndian.AppendUint64(out, p.from.High)
	out = binary.BigEndian.AppendUint64(out, p.from.Low)
	return binary.BigEndian.AppendUint32(out, uint32(p.given))
}

// ReadPosition decodes what Append made.
func ReadPosition(data []byte) (p Position, err error) {
	if len(data) != positionBytes {
		return p, errors.New("candidates: a position of another size")
	}
	p.score = math.Float64frombits(binary.BigEndian.Uint64(data))
	p.from = distance{High: binary.BigEndian.Uint64(data[8:]), Low: binary.BigEndian.Uint64(data[16:])}
	p.given = int(binary.BigEndian.Uint32(data[24:]))
	if math.IsNaN(p.score) || p.given < 1 || p.given > math.MaxInt32 {
		return p, errors.New("candidates: no place in an order")
	}
	return p, nil
}

// Page finds up to k candidates, the best first: of all of them, or of those
// that come after a Position. It finds in pages what Best finds at once. Each
// candidate comes with the Position behind it.
func Page(
	ctx context.Context, w *World, req *Request, pref *Preference, k int, after *Position,
) ([]Ranked, []Position, error) {
	s := newSelection(ctx, w, req, pref, k)
	s.after = after
	if err := s.page(); err != nil {
		return nil, nil, err
	}
	behind := make([]Position, len(s.found))
	for i := range s.found {
		one := &s.found[i]
		behind[i] = Position{score: one.Score, from: one.From, given: 1}
		switch {
		case i > 0 && behind[i-1].score == one.Score && behind[i-1].from == one.From:
			behind[i].given = behind[i-1].given + 1
		case after != nil && after.score == one.Score && after.from == one.From:
			behind[i].given = after.given + 1
		}
	}
	return s.found, behind, nil
}

// page looks at every tree that may have a candidate: in another order than
// all, if no sharing provider ties trees together, so that providers which are
// trees by themselves cost little.
func (s *selection) page() error {
	if s.sharing() {
		_, err := s.all()
		return err
	}
	most := 0.0
	for _, t := range s.pref.Traits {
		most += max(t.Weight, 0)
	}
	for _, a := range s.pref.Aggregates {
		most += max(a.Weight, 0)
	}
	for i := range s.pref.Near {
		most += max(s.pref.Near[i].Weight, 0)
	}
	roots := s.narrowest()
	if roots == nil {
		roots = s.world.roots
	}
	// What is added in another order may be rounded in another way.
	return s.each(roots, most+math.Abs(most)*boundSlack)
}

// passed reports whether a candidate stands in front of the page. Of those that
// are equal and under one root, which are found in the same order again, some
// are in front.
func (s *selection) passed(score float64, from distance) bool {
	if s.after == nil || precedes(s.after.score, s.after.from, score, from) {
		return false
	}
	if score != s.after.score || from != s.after.from {
		return true
	}
	s.equal++
	s.kept++
	return s.equal <= s.after.given
}
