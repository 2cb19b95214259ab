package placement

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"

	"github.com/allot-project/allot/api/present"
	"github.com/allot-project/allot/api/rest"
	"github.com/allot-project/allot/commands/fair"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/projector"
	"github.com/allot-project/allot/projector/candidates"
)

// flushBytes is how many bytes of an answer are collected before they are sent.
const flushBytes = 32 << 10

// candidatesWriter writes an answer while it is found. Pieces that repeat are
// encoded once; everything else is appended to one buffer.
type candidatesWriter struct {
	ctx     context.Context
	work    *fair.Work // other work runs while the client takes the answer
	version version
	world   *candidates.World
	req     *candidates.Request
	classes *ledger.ClassTable

	out      io.Writer
	buf      []byte
	err      error // destination of out
	count    int
	names    map[ledger.ClassID][]byte // encoded
	suffixes [][]byte                  // encoded, per group
	view     projector.View            // of the world
	traits   map[string]*writtenTrait
	listed   []*writtenTrait      // scratch memory of traitList
	used     map[ledger.UUID]bool // providers in the candidates; nil: not wanted
	root     *ledger.Provider     // the last of roots
	roots    []*ledger.Provider   // of the candidates' trees; some are there again and again
}

type writtenTrait struct {
	encoded []byte
	made    int64
}

func candidatesAnswer(r *request, world *candidates.World, q *candidateQuery) (*response, error) {
	classes, err := r.View.Classes()
	if err != nil {
		return nil, err
	}
	return &response{status: http.StatusOK, cache: true, stream: func(out io.Writer) error {
		work := r.Fair.Begin(r.Client())
		defer work.End()
		c := &candidatesWriter{
			ctx: r.Context(), work: work, version: r.version, view: r.View, world: world, req: &q.request, classes: classes,
			out:   out,
			names: map[ledger.ClassID][]byte{}, traits: map[string]*writtenTrait{},
		}
		if !c.wholeTrees() {
			c.used = make(map[ledger.UUID]bool)
		}
		for _, g := range q.request.Groups {
			c.suffixes = append(c.suffixes, quote(g.Suffix))
		}
		return c.write(r, q)
	}}, nil
}

func (c *candidatesWriter) write(r *request, q *candidateQuery) error {
	c.add(`{"allocation_requests":[`)
	page, err := c.requests(q)
	if err != nil {
		return err
	}
	c.add(`],"provider_summaries":{`)
	c.summaries()
	c.add(`}`)
	if page != nil {
		if err := c.ranking(page); err != nil {
			return err
		}
	}
	if q.explain {
		explanation, err := candidates.Explain(c.work.Within(c.ctx), c.world, c.req, c.classes)
		if err != nil {
			return err
		}
		encoded, err := ledger.PlainJSON(explanation)
		if err != nil {
			return err
		}
		c.add(`,"explanation":`)
		c.buf = append(c.buf, encoded...)
	}
	c.add(`}`)
	c.flush(0)
	return c.err
}

// requests writes the candidates: as they are found, or a page of them in the
// order of a preference.
func (c *candidatesWriter) requests(q *candidateQuery) (*present.RankedPage, error) {
	ctx := c.work.Within(c.ctx)
	if q.prefer == nil {
		return nil, candidates.Search(ctx, c.world, c.req, func(candidate *candidates.Candidate) bool {
			c.candidate(candidate)
			return c.err == nil
		})
	}
	page, err := present.Ranked(ctx, c.view, c.world, c.req, q.prefer, q.marker)
	if errors.Is(err, present.ErrQuery) {
		return nil, rest.BadRequest("Invalid query string parameters: %v", err)
	}
	if err != nil {
		return nil, err
	}
	for i := range page.Candidates {
		c.candidate(&page.Candidates[i].Candidate)
	}
	return page, nil
}

// ranking writes the score of each candidate, and the marker of the page behind
// it. They stand apart, so that a candidate is still what Placement takes as
// allocations.
func (c *candidatesWriter) ranking(page *present.RankedPage) error {
	type place struct {
		Score  float64 `json:"score"`
		Marker string  `json:"marker,omitempty"`
	}
	places := make([]place, len(page.Candidates))
	for i := range places {
		places[i] = place{page.Candidates[i].Score, page.Markers[i]}
	}
	encoded, err := ledger.PlainJSON(places)
	if err != nil {
		return err
	}
	c.add(`,"ranking":`)
	c.buf = append(c.buf, encoded...)
	return nil
}

func (c *candidatesWriter) add(text string) { c.buf = append(c.buf, text...) }

// flush sends the buffer if it has more than some bytes.
func (c *candidatesWriter) flush(above int) {
	if len(c.buf) > above && c.err == nil {
		err := c.work.Aside(c.ctx, func() { _, c.err = c.out.Write(c.buf) })
		if c.err == nil {
			c.err = err
		}
		c.buf = c.buf[:0]
	}
}

func quote(text string) []byte {
	encoded, err := ledger.PlainJSON(text)
	if err != nil {
		panic(err) // strings can always be encoded
	}
	return encoded
}

func (c *candidatesWriter) class(id ledger.ClassID) {
	if c.names[id] == nil {
		c.names[id] = quote(c.classes.Name(id))
	}
	c.buf = append(c.buf, c.names[id]...)
}

func (c *candidatesWriter) uuid(id ledger.UUID) {
	c.buf = append(c.buf, '"')
	c.buf, _ = id.AppendText(c.buf) // never fails
	c.buf = append(c.buf, '"')
}

func (c *candidatesWriter) int(n int64) { c.buf = strconv.AppendInt(c.buf, n, 10) }

// comma separates the elements of a list: it precedes all but the first.
func (c *candidatesWriter) comma(first *bool) {
	if !*first {
		c.buf = append(c.buf, ',')
	}
	*first = false
}

// candidate writes one element of allocation_requests: the allocations as a list
// below 1.12, with mappings from 1.34.
func (c *candidatesWriter) candidate(candidate *candidates.Candidate) {
	first := c.count == 0
	c.comma(&first)
	c.count++
	open, end := `{"allocations":{`, `}`
	if c.version < candidatesDictSince {
		open, end = `{"allocations":[`, `]`
	}
	c.add(open)
	for i, use := range candidate.Uses {
		if slices.ContainsFunc(candidate.Uses[:i], func(u candidates.Use) bool { return u.Provider == use.Provider }) {
			continue // already written with its provider
		}
		first := i == 0
		c.comma(&first)
		c.allocations(use.Provider, candidate.Uses[i:])
		c.note(use.Provider)
	}
	c.add(end)
	if c.version >= mappingsSince {
		c.mappings(candidate)
	}
	c.add(`}`)
	c.flush(flushBytes)
}

func (c *candidatesWriter) allocations(p *ledger.Provider, uses []candidates.Use) {
	if c.version < candidatesDictSince {
		c.add(`{"resource_provider":{"uuid":`)
		c.uuid(p.UUID)
		c.add(`},"resources":{`)
	} else {
		c.uuid(p.UUID)
		c.add(`:{"resources":{`)
	}
	first := true
	for _, use := range uses {
		if use.Provider == p {
			c.comma(&first)
			c.class(use.Class)
			c.add(`:`)
			c.int(use.Amount)
		}
	}
	c.add(`}}`)
}

func (c *candidatesWriter) mappings(candidate *candidates.Candidate) {
	c.add(`,"mappings":{`)
	first := true
	for i, members := range candidate.Groups {
		c.comma(&first)
		c.buf = append(c.buf, c.suffixes[i]...)
		c.add(`:[`)
		first := true
		for _, p := range members {
			c.comma(&first)
			c.uuid(p.UUID)
		}
		c.add(`]`)
	}
	c.add(`}`)
}

// note remembers whose summary is to follow.
func (c *candidatesWriter) note(p *ledger.Provider) {
	if c.used != nil {
		c.used[p.UUID] = true
	}
	if c.root != nil && c.root.UUID == p.Root {
		return
	}
	c.root = p
	if p.Root != p.UUID {
		c.root, _ = c.world.Provider(p.Root) // a provider's root is there as long as the provider
	}
	c.roots = append(c.roots, c.root)
	if len(c.roots) > 2*c.world.Len() {
		c.sortRoots()
	}
}

// sortRoots leaves each root once, in the order in which they were made.
func (c *candidatesWriter) sortRoots() {
	asMade(
		c.roots, func(p *ledger.Provider) int64 { return p.CreatedAt },
		func(a, b *ledger.Provider) int { return a.UUID.Compare(b.UUID) },
	)
	c.roots = slices.Compact(c.roots)
}

// wholeTrees reports whether the summaries are of every provider of the trees in
// the candidates, as they are from 1.29, and where no provider has a parent.
func (c *candidatesWriter) wholeTrees() bool {
	return c.version >= nestedCandidatesSince || !c.world.Nested()
}

// summaries writes provider_summaries. Trees and the providers in them are in the
// order in which they were made.
func (c *candidatesWriter) summaries() {
	c.sortRoots()
	first := true
	each := func(p *ledger.Provider) {
		if c.used == nil || c.used[p.UUID] {
			c.comma(&first)
			c.summary(p)
			c.flush(flushBytes)
		}
	}
	for _, root := range c.roots {
		if c.world.Nested() {
			c.world.Tree(root.UUID, each)
		} else {
			each(root)
		}
	}
}

func (c *candidatesWriter) summary(p *ledger.Provider) {
	c.uuid(p.UUID)
	c.add(`:{"resources":{`)
	first := true
	for i := range p.Inventories {
		inv := &p.Inventories[i]
		if c.version < allClassesSince && !requested(c.req, inv.Class) {
			continue
		}
		c.comma(&first)
		c.class(inv.Class)
		c.add(`:{"capacity":`)
		c.int(inv.Units())
		c.add(`,"used":`)
		c.int(inv.Used)
		c.add(`}`)
	}
	c.add(`}`)
	if c.version >= summaryTraitsSince {
		c.traitList(p.Traits)
	}
	if c.version >= nestedCandidatesSince {
		c.add(`,"root_provider_uuid":`)
		c.uuid(p.Root)
		c.add(`,"parent_provider_uuid":`)
		if p.Parent.IsNil() {
			c.add(`null`)
		} else {
			c.uuid(p.Parent)
		}
	}
	c.add(`}`)
}

// traitList writes traits in the order in which they were made: the standard
// ones, by name, then custom ones.
func (c *candidatesWriter) traitList(names []string) {
	list := c.listed[:0]
	for _, name := range names {
		list = append(list, c.trait(name))
	}
	slices.SortStableFunc(list, func(a, b *writtenTrait) int { return cmp.Compare(a.made, b.made) })
	c.add(`,"traits":[`)
	first := true
	for _, t := range list {
		c.comma(&first)
		c.buf = append(c.buf, t.encoded...)
	}
	c.add(`]`)
	c.listed = list
}

func (c *candidatesWriter) trait(name string) *writtenTrait {
	if c.traits[name] == nil {
		written := &writtenTrait{encoded: quote(name)}
		trait, found, err := c.view.Trait(name)
		if found {
			written.made = trait.CreatedAt
		}
		c.err = cmp.Or(c.err, err)
		c.traits[name] = written
	}
	return c.traits[name]
}

func requested(req *candidates.Request, class ledger.ClassID) bool {
	return slices.ContainsFunc(req.Groups, func(g candidates.Group) bool {
		return slices.ContainsFunc(g.Resources, func(r candidates.Resource) bool { return r.Class == class })
	})
}
