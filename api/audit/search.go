package audit

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/allot-project/allot/api/rest"
	"github.com/allot-project/allot/api/wire"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/projector"
)

// Matches is the answer of GET /audit/search?q=TEXT: what exists and has this
// text in its name or id, or a uuid that begins with it.
type Matches struct {
	Sequence uint64  `json:"sequence"` // sequence of the commit that the answer holds for
	Matches  []Match `json:"matches"`  // whole names first, then beginnings, then the rest
	// Incomplete means that there may be more than the answer holds.
	Incomplete bool `json:"incomplete,omitempty"`
}

// Match is something that was found.
type Match struct {
	Subject
	Title string `json:"title,omitempty"` // its name, if it is addressed by its uuid
}

const (
	maxMatches     = 200
	defaultMatches = 20
	// maxSearched is how many entities of a kind are examined.
	maxSearched = 500_000
	// leastPrefix is how many digits of a consumer's uuid are needed to look for
	// it.
	leastPrefix = 4
)

func (q entities) search(ctx context.Context, p *parameters) (any, error) {
	text := p.given["q"]
	if text == "" || len(text) > maxFindBytes {
		return nil, rest.BadRequest("q: must have 1 to %d bytes", maxFindBytes)
	}
	limit := number(p, "limit", 1, maxMatches, defaultMatches)
	world, view, err := q.world(ctx, p)
	if err != nil {
		return nil, err
	}
	s := &searcher{text: strings.ToLower(text), limit: limit}
	consider := func(of, id, name string) bool {
		s.consider(of, id, name)
		return s.more(ctx)
	}
	world.Each(func(p *ledger.Provider) bool { return consider(wire.OfProvider, p.UUID.String(), p.Name) })
	actors := q.actors.each(ctx, q.Views)
	for _, walk := range []walk{eachNode, eachNodeAllocation, eachChassis, eachRule, eachOwner, actors} {
		s.looked = 0
		if err := walk(view, ledger.NilUUID, consider); err != nil {
			return nil, err
		}
	}
	s.incomplete = s.incomplete || !q.actors.whole()
	if err := errors.Join(s.addressed(view), ctx.Err()); err != nil {
		return nil, err
	}
	return s.answer(view), nil
}

// addressed finds a record by its address, and consumers by the beginnings of their uuids.
func (s *searcher) addressed(view projector.View) error {
	if at, err := ledger.ParseAddress(s.text); err == nil {
		if _, found, err := view.Record(at); err == nil && found {
			s.keep(0, Match{Subject: Subject{ofRecord, at.String()}})
		}
	}
	if id, err := ledger.ParseUUID(s.text); err == nil {
		_, holds, err := view.Consumer(id)
		if holds {
			s.keep(0, Match{Subject: Subject{wire.OfConsumer, id.String()}})
		}
		return err
	}
	begin := &finder{view: view, most: s.limit}
	begin.withPrefix(wire.OfConsumer, s.text)
	for _, one := range begin.found {
		s.keep(1, Match{Subject: one})
	}
	return begin.err
}

type searcher struct {
	text       string // in lower case
	limit      int
	ranks      [3][]Match // whole names, beginnings, parts
	looked     int        // entities of a kind that were examined
	incomplete bool
}

// more reports whether to go on, once for each entity.
func (s *searcher) more(ctx context.Context) bool {
	if s.looked++; s.looked >= maxSearched {
		s.incomplete = true
		return false
	}
	return s.looked%1000 != 0 || ctx.Err() == nil
}

// consider keeps something if its name or uuid matches. Title is the name of
// something with a uuid, name its uuid; of others title is empty.
func (s *searcher) consider(of, name, title string) {
	called := strings.ToLower(cmp.Or(title, name))
	rank := -1
	switch {
	case called == s.text || name == s.text:
		rank = 0
	case strings.HasPrefix(called, s.text) || title != "" && strings.HasPrefix(name, s.text):
		rank = 1
	case strings.Contains(called, s.text):
		rank = 2
	}
	if rank >= 0 {
		s.keep(rank, Match{Subject{of, name}, title})
	}
}

func (s *searcher) keep(rank int, one Match) {
	if len(s.ranks[rank]) == s.limit {
		s.incomplete = true
		return
	}
	s.ranks[rank] = append(s.ranks[rank], one)
}

// before returns the uuid just before one.
func before(id ledger.UUID) ledger.UUID {
	for i := len(id) - 1; i >= 0; i-- {
		id[i]--
		if id[i] != 0xff {
			break
		}
	}
	return id
}

func (s *searcher) answer(view projector.View) *Matches {
	all := slices.Concat(s.ranks[:]...)
	m := &Matches{Sequence: view.Sequence(), Matches: []Match{}, Incomplete: s.incomplete || len(all) > s.limit}
	m.Matches = append(m.Matches, all[:min(s.limit, len(all))]...)
	return m
}
