package present

import (
	"context"
	"encoding/base64"
	"maps"
	"math/big"
	"slices"
	"strings"
	"time"

	"github.com/allot-project/allot/api/wire"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/projector"
)

// Bounds of an answer about consumption.
const (
	MaxConsumed = 10_000 // rows of a page
	maxSpans    = 1500   // hours, days or months
)

const hourDigits = 9

// The keys of rows: those of what consumers held, and those of providers.
var (
	ownerKeys    = []string{"project", "user", "type", "class", "hour", "day", "month"}
	providerKeys = []string{"provider", "class", "hour", "day", "month"}
)

// span is a unit of time of UTC.
type span struct {
	begin, next func(time.Time) time.Time
	form        string
}

var spans = map[string]span{
	"hour": {
		func(t time.Time) time.Time { return t.Truncate(time.Hour) },
		func(t time.Time) time.Time { return t.Add(time.Hour) }, time.RFC3339,
	},
	"day": {
		func(t time.Time) time.Time { return t.Truncate(24 * time.Hour) },
		func(t time.Time) time.Time { return t.AddDate(0, 0, 1) }, time.DateOnly,
	},
	"month": {
		func(t time.Time) time.Time { return time.Date(t.Year(), t.Month(), 1, 0, 0, 0, 0, time.UTC) },
		func(t time.Time) time.Time { return t.AddDate(0, 1, 0) }, "2006-01",
	},
}

// Consumption tells how much was held for how long. The error wraps ErrQuery if the query is
// at fault. It reads two versions of each owner, or provider, for each span of time.
func Consumption(
	ctx context.Context, views *projector.Projector, q *wire.ConsumptionQuery, now time.Time,
) (*wire.Consumption, error) {
	c := &consuming{ctx: ctx, views: views, q: q, groups: groups{byKey: make(map[string]*group)}}
	err := c.check()
	if err == nil {
		err = c.moment(now)
	}
	if err != nil {
		return nil, err
	}
	if q.Provider.IsNil() {
		err = c.owners()
	} else {
		err = c.providers()
	}
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return nil, err
	}
	return c.answer(), c.strict()
}

type consuming struct {
	ctx   context.Context
	views *projector.Projector
	q     *wire.ConsumptionQuery
	by    []string
	unit  string // hour, day or month; empty: none

	view    projector.View     // of the interval's end
	moments []projector.Moment // between which the spans are
	spans   []string           // what they are called

	names      *projector.ClassNames
	groups     groups
	looked     int
	found      bool // what the query asks for has been there
	foundClass bool
}

// check checks all but the moments.
func (c *consuming) check() error {
	q := c.q
	if err := c.checkKeys(); err != nil {
		return err
	}
	limit, err := rowsAsked(q.Limit, MaxConsumed, MaxConsumed)
	if err != nil {
		return err
	}
	c.groups.limit = limit
	after, err := base64.RawURLEncoding.DecodeString(q.After)
	if err != nil {
		return bad("after: %q is not the next of a page before", q.After)
	}
	if q.After != "" && q.To == "" {
		return bad("to: is needed for the next page: as the page before says it")
	}
	c.groups.after = string(after)
	return nil
}

// checkKeys checks what the query is about, and by what its rows are told apart.
func (c *consuming) checkKeys() error {
	q, keys := c.q, ownerKeys
	if !q.Provider.IsNil() {
		keys = providerKeys
	}
	switch {
	case q.At != "":
		return bad("at: the moments of this question are from and to")
	case !q.Provider.IsNil() && (q.Project != "" || q.User != "" || q.Type != ""):
		return bad("provider: is not together with project, user or type; ask for each alone")
	case q.Provider.IsNil() && q.Tree:
		return bad("tree: is with provider alone")
	}
	if c.by = q.By; len(c.by) == 0 {
		c.by = []string{"class"}
	}
	for i, key := range c.by {
		if !slices.Contains(keys, key) {
			return bad("by: %q is not among %s", key, strings.Join(keys, ", "))
		}
		if slices.Contains(c.by[:i], key) {
			return bad("by: %s is there twice", key)
		}
		if _, isSpan := spans[key]; isSpan && c.unit != "" {
			return bad("by: has both %s and %s; give one", c.unit, key)
		} else if isSpan {
			c.unit = key
		}
	}
	return nil
}

func (c *consuming) moment(now time.Time) error {
	if c.q.From == "" {
		return bad("from: is needed: a sequence or an RFC 3339 time")
	}
	from, err := MomentAt(c.views, string(c.q.From), now)
	if err != nil {
		return faulty("from", err)
	}
	to, err := MomentAt(c.views, string(c.q.To), now)
	if err != nil {
		return faulty("to", err)
	}
	if to.Time < from.Time {
		return bad("to: %s is before from, %s", rfc3339(to.Time), rfc3339(from.Time))
	}
	if to.Sequence == 0 {
		return bad("to: %s is before the first commit", rfc3339(to.Time))
	}
	if c.view, err = c.views.ViewAt(to.Sequence); err != nil {
		return err
	}
	c.names = c.view.ClassNames()
	c.moments = []projector.Moment{from}
	if c.unit == "" {
		c.moments, c.spans = append(c.moments, to), []string{""}
		return nil
	}
	unit, until := spans[c.unit], time.Unix(0, to.Time)
	for begin := unit.begin(time.Unix(0, from.Time).UTC()); ; {
		if c.spans = append(c.spans, begin.Format(unit.form)); len(c.spans) > maxSpans {
			return bad("by: there are more than %d of %s in the interval; ask for a shorter one, or for longer spans",
				maxSpans, c.unit)
		}
		if begin = unit.next(begin); !begin.Before(until) {
			break
		}
		moment, err := c.views.MomentAt(begin, until)
		if err != nil {
			return err
		}
		c.moments = append(c.moments, moment)
	}
	c.moments = append(c.moments, to)
	return nil
}

func faulty(parameter string, err error) error {
	if text, is := strings.CutPrefix(err.Error(), ErrMoment.Error()+": "); is {
		return bad("%s: %s", parameter, text)
	}
	return err
}

func (c *consuming) owners() error {
	var failure error
	err := c.view.Consumption(c.q.Project, c.userOfProject(), c.moments, func(one *projector.Consumed) bool {
		if c.gone() {
			return false
		}
		kind := one.Owner.Type
		if kind == "" {
			kind = ledger.UnknownType
		}
		if c.q.User != "" && one.Owner.User != c.q.User || c.q.Type != "" && kind != c.q.Type {
			return true
		}
		c.found = true
		var class string
		if class, failure = c.names.Of(one.Class); failure == nil && c.meant(class) {
			what := &wire.ConsumptionRow{Project: &one.Owner.Project, User: &one.Owner.User, Type: &kind, Class: &class}
			c.add(what, one.UpTo, nil)
		}
		return failure == nil
	})
	if failure != nil {
		return failure
	}
	return err
}

// gone reports, each thousand spans or so, whether the answer is no longer awaited.
func (c *consuming) gone() bool {
	if c.looked += len(c.spans); c.looked < 1000 {
		return false
	}
	c.looked = 0
	return c.ctx.Err() != nil
}

// userOfProject is the user where a project is given, too: then its keys are side by side.
func (c *consuming) userOfProject() string {
	if c.q.Project == "" {
		return ""
	}
	return c.q.User
}

func (c *consuming) meant(class string) bool {
	c.foundClass = c.foundClass || class == c.q.Class
	return c.q.Class == "" || class == c.q.Class
}

func (c *consuming) providers() error {
	ids := []ledger.UUID{c.q.Provider}
	if c.q.Tree {
		var err error
		if ids, err = c.tree(); err != nil {
			return err
		}
	}
	for _, id := range ids {
		if c.ctx.Err() != nil {
			return nil
		}
		if err := c.provider(id); err != nil {
			return err
		}
	}
	if c.found || !c.q.Strict {
		return nil
	}
	history, err := c.view.History(projector.ProviderHistory, c.q.Provider, 0, 1)
	c.found = len(history) > 0
	return err
}

func (c *consuming) provider(id ledger.UUID) error {
	var failure error
	err := c.view.ProviderConsumption(id, c.moments, func(one *projector.ProviderConsumption) bool {
		c.found = true
		var class string
		if class, failure = c.names.Of(projector.ConsumedClass{ID: one.Class}); failure == nil && c.meant(class) {
			provider := id.String()
			c.add(&wire.ConsumptionRow{Provider: &provider, Class: &class}, one.Used, one.Capacity)
		}
		return failure == nil
	})
	if failure != nil {
		return failure
	}
	return err
}

// tree lists the providers of the tree in which a provider is at the interval's end.
func (c *consuming) tree() (ids []ledger.UUID, err error) {
	tree, err := treeOf(c.ctx, c.views, c.view, c.q.Provider)
	if len(tree) == 0 {
		return []ledger.UUID{c.q.Provider}, err
	}
	for _, p := range tree {
		ids = append(ids, p.UUID)
	}
	return ids, err
}

// add adds what there was in each span.
func (c *consuming) add(what *wire.ConsumptionRow, used, capacity []ledger.Integral) {
	keys := make([]string, len(c.by))
	at := -1 // the key that is the span
	for i, by := range c.by {
		if by == c.unit {
			at = i
		} else {
			keys[i] = **keyOf(what, by)
		}
	}
	var none ledger.Integral
	for i, name := range c.spans {
		held, there := used[i+1].Minus(used[i]), none
		if capacity != nil {
			there = capacity[i+1].Minus(capacity[i])
		}
		if held == none && there == none {
			continue
		}
		if at >= 0 {
			keys[at] = name
		}
		c.groups.add(keys, held, there)
	}
}

// strict is the error about what there never was.
func (c *consuming) strict() error {
	q := c.q
	classes, err := c.view.Classes()
	if err != nil || !q.Strict {
		return err
	}
	until := rfc3339(c.moments[len(c.moments)-1].Time)
	if _, known := classes.ID(q.Class); q.Class != "" && !known && !c.foundClass {
		return bad("class: there was no resource class %q until %s", q.Class, until)
	}
	switch {
	case c.found || q.Project == "" && q.User == "" && q.Type == "" && q.Provider.IsNil():
		return nil
	case !q.Provider.IsNil():
		return bad("provider: there was no provider %s until %s", q.Provider, until)
	}
	return bad("project, user, type: nothing was held by these until %s", until)
}

func (c *consuming) answer() *wire.Consumption {
	last := c.moments[len(c.moments)-1]
	answer := &wire.Consumption{
		From: rfc3339(c.moments[0].Time), To: rfc3339(last.Time), Sequence: last.Sequence,
		Rows: []wire.ConsumptionRow{},
	}
	page, next := c.groups.page()
	for _, g := range page {
		row := wire.ConsumptionRow{}
		row.AmountNS, row.Hours = g.amount.String(), hours(g.amount)
		if !c.q.Provider.IsNil() {
			idle := g.capacity.Minus(g.amount)
			row.CapacityNS, row.CapacityHours = g.capacity.String(), hours(g.capacity)
			row.IdleNS, row.IdleHours = idle.String(), hours(idle)
		}
		for i, by := range c.by {
			*keyOf(&row, by) = &g.keys[i]
		}
		answer.Rows = append(answer.Rows, row)
	}
	answer.Next = next
	return answer
}

func keyOf(row *wire.ConsumptionRow, by string) **string {
	switch by {
	case "project":
		return &row.Project
	case "user":
		return &row.User
	case "type":
		return &row.Type
	case "provider":
		return &row.Provider
	case "class":
		return &row.Class
	case "hour":
		return &row.Hour
	case "day":
		return &row.Day
	}
	return &row.Month
}

func hours(n ledger.Integral) string {
	return new(big.Rat).SetFrac(n.Big(), big.NewInt(int64(time.Hour))).FloatString(hourDigits)
}

// group is a row: what has the same keys.
type group struct {
	keys             []string
	amount, capacity ledger.Integral
}

// groups keep the first groups after one, and about as many more. One that is not among them
// when it comes never will be: their last one never moves back.
type groups struct {
	limit int
	after string
	last  string            // the last key that counts; empty: all do
	byKey map[string]*group // by all keys in one, which sorts as they do
	key   []byte            // scratch
}

func (g *groups) add(keys []string, amount, capacity ledger.Integral) {
	g.key = appendKeys(g.key[:0], keys)
	one := g.byKey[string(g.key)]
	if one == nil {
		key := string(g.key)
		if key <= g.after || g.last != "" && key > g.last {
			return
		}
		one = &group{keys: slices.Clone(keys)}
		if g.byKey[key] = one; len(g.byKey) > 2*(g.limit+1) {
			g.forget()
		}
	}
	one.amount, one.capacity = one.amount.Plus(amount), one.capacity.Plus(capacity)
}

// forget leaves the groups of the page, and the one behind it.
func (g *groups) forget() {
	sorted := slices.Sorted(maps.Keys(g.byKey))
	g.last = sorted[g.limit]
	for _, key := range sorted[g.limit+1:] {
		delete(g.byKey, key)
	}
}

// page returns the groups in order, and where the next page begins; empty: there is none.
func (g *groups) page() (list []*group, next string) {
	sorted := slices.Sorted(maps.Keys(g.byKey))
	for _, key := range sorted[:min(g.limit, len(sorted))] {
		list = append(list, g.byKey[key])
	}
	if len(sorted) > g.limit {
		next = base64.RawURLEncoding.EncodeToString([]byte(sorted[g.limit-1]))
	}
	return list, next
}

// appendKeys writes keys so that they sort as one text as they do one by one: a zero ends
// each, and one within is written as a zero and a one, which sort behind the end.
func appendKeys(b []byte, keys []string) []byte {
	for _, key := range keys {
		b = append(b, strings.ReplaceAll(key, "\x00", "\x00\x01")...)
		b = append(b, 0, 0)
	}
	return b
}
