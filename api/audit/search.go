package audit

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/allot-project/allot/api/present"
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

// search is GET /audit/search.
func (q entities) search(ctx context.Context, p parameters) (any, error) {
	text := p["q"]
	if text == "" || len(text) > maxFindBytes {
		return nil, rest.BadRequest("q: must have 1 to %d bytes", maxFindBytes)
	}
	limit, err := p.number("limit", 1, maxMatches, defaultMatches)
	if err != nil {
		return nil, err
	}
	world, view, err := q.world(ctx, p)
	if err != nil {
		return nil, err
	}
	s := &searcher{text: strings.ToLower(text), limit: int(limit)}
	world.Each(func(p *ledger.Provider) bool {
		s.consider(wire.OfProvider, p.UUID.String(), p.Name)
		return s.more(ctx)
	})
	for _, look := range []func(context.Context, projector.View) error{s.nodes, s.rules, s.owners, s.consumers} {
		s.looked = 0
		if err := look(ctx, view); err != nil {
			return nil, err
		}
	}
	return s.answer(view), ctx.Err()
}

// searcher looks for a text.
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
	if rank < 0 {
		return
	}
	if len(s.ranks[rank]) == s.limit {
		s.incomplete = true
		return
	}
	s.ranks[rank] = append(s.ranks[rank], Match{Subject{of, name}, title})
}

func (s *searcher) nodes(ctx context.Context, view projector.View) error {
	return errors.Join(view.Nodes(0, func(n *ledger.Node) bool {
		s.consider(wire.OfNode, n.UUID.String(), n.Name)
		return s.more(ctx)
	}), view.NodeAllocations(0, func(a *ledger.NodeAllocation) bool {
		s.consider(wire.OfNodeAllocation, a.UUID.String(), cmp.Or(a.Name, a.UUID.String()))
		return s.more(ctx)
	}), view.AllChassis(0, func(c *ledger.Chassis) bool {
		s.consider(wire.OfChassis, c.UUID.String(), cmp.Or(c.Description, c.UUID.String()))
		return s.more(ctx)
	}))
}

// rules looks for what has a name, or an address, and no history.
func (s *searcher) rules(ctx context.Context, view projector.View) error {
	if at, err := ledger.ParseAddress(s.text); err == nil {
		if _, found, err := view.Record(at); err == nil && found {
			s.consider(ofRecord, at.String(), "")
		}
	}
	classes, err := view.Classes()
	if err != nil {
		return err
	}
	for _, class := range classes.All() {
		s.consider(ofClass, class.Name, "")
	}
	return errors.Join(view.Traits(func(t *ledger.Trait) bool {
		s.consider(ofTrait, t.Name, "")
		return s.more(ctx)
	}), view.Preferences(func(p *ledger.Preference, _ uint64) bool {
		s.consider(ofPreference, p.Name, "")
		return s.more(ctx)
	}), view.Topologies(func(t *ledger.Topology, _ uint64) bool {
		s.consider(ofTopology, t.Name, "")
		for _, member := range t.Members {
			s.consider(present.OfAggregate, member.Aggregate.String(), member.Name)
		}
		return s.more(ctx)
	}))
}

// The kinds of what is found and has no history.
const (
	ofRecord     = "record"
	ofClass      = "class"
	ofTrait      = "trait"
	ofPreference = "preference"
	ofTopology   = "topology"
)

// owners looks for projects and users. Usages come sorted by project.
func (s *searcher) owners(ctx context.Context, view projector.View) error {
	last, users := "", make(map[string]bool)
	return view.AllUsages(func(u *ledger.Usage) bool {
		if u.Owner.Project != last {
			last = u.Owner.Project
			s.consider(wire.OfProject, last, "")
		}
		if !users[u.Owner.User] {
			users[u.Owner.User] = true
			s.consider(wire.OfUser, u.Owner.User, "")
		}
		return s.more(ctx)
	})
}

// consumers looks for the beginning of a uuid. Consumers are sorted by it.
func (s *searcher) consumers(ctx context.Context, view projector.View) error {
	digits := strings.ReplaceAll(s.text, "-", "")
	if len(digits) < leastPrefix || len(digits) > 32 {
		return nil
	}
	first, err := ledger.ParseUUID(digits + strings.Repeat("0", 32-len(digits)))
	if err != nil {
		return nil // it is no beginning of a uuid
	}
	return view.Consumers(before(first), func(c *ledger.Consumer) bool {
		id := c.UUID.String()
		if !strings.HasPrefix(strings.ReplaceAll(id, "-", ""), digits) {
			return false
		}
		rank := 1
		if len(digits) == 32 {
			rank = 0
		}
		if len(s.ranks[rank]) == s.limit {
			s.incomplete = true
			return false
		}
		s.ranks[rank] = append(s.ranks[rank], Match{Subject: Subject{wire.OfConsumer, id}})
		return s.more(ctx)
	})
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
