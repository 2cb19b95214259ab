package audit

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/allot-project/allot/api/present"
	"github.com/allot-project/allot/api/wire"
	"github.com/allot-project/allot/ledger"
)

// Owners is the answer of GET /audit/owners: who holds how much. Without project
// and user there is a row for each project; otherwise for each project, user and
// type of consumer.
type Owners struct {
	Sequence uint64  `json:"sequence"` // sequence of the commit that the answer holds for
	Count    int     `json:"count"`    // of the rows that the question is about
	Owners   []Owner `json:"owners"`   // those with most consumers first
	// Incomplete means that the answer has not all of them.
	Incomplete bool `json:"incomplete,omitempty"`
}

// Owner is a row of Owners.
type Owner struct {
	Project   string           `json:"project"`
	User      string           `json:"user,omitempty"`
	Type      string           `json:"type,omitempty"`
	Users     int              `json:"users,omitempty"` // of a project
	Consumers int64            `json:"consumers"`
	Amounts   map[string]int64 `json:"amounts"` // by class
}

const (
	maxOwners     = 1000
	defaultOwners = 200
	// maxKeptOwners is how many rows are kept of those that may be among the first.
	maxKeptOwners = 10 * maxOwners
)

func (q entities) owners(ctx context.Context, p *parameters) (any, error) {
	view, err := q.look(p, maxOwners, defaultOwners)
	if err != nil {
		return nil, err
	}
	answer := &Owners{Sequence: view.Sequence(), Owners: []Owner{}}
	rows := ownerRows{Owners: answer, classes: view.classes, asked: p, part: strings.ToLower(p.given["q"])}
	looked := 0
	err = view.AllUsages(func(u *ledger.Usage) bool {
		rows.add(u)
		looked++
		return looked%1000 != 0 || ctx.Err() == nil
	})
	rows.finish()
	rows.keep(view.limit)
	answer.Incomplete = answer.Count > len(answer.Owners)
	return answer, cmp.Or(err, ctx.Err())
}

// ownerRows adds up usages, which come sorted by project, then user.
type ownerRows struct {
	*Owners
	classes  *ledger.ClassTable
	asked    *parameters
	part     string // of the projects' ids that are wanted
	lastUser string
	row      *Owner // that is added up
}

func (r *ownerRows) finish() {
	if r.row == nil {
		return
	}
	r.Owners.Owners = append(r.Owners.Owners, *r.row)
	r.Count++
	if r.row = nil; len(r.Owners.Owners) == maxKeptOwners {
		r.keep(maxOwners)
	}
}

func (r *ownerRows) keep(most int) {
	slices.SortStableFunc(r.Owners.Owners, func(a, b Owner) int { return cmp.Compare(b.Consumers, a.Consumers) })
	r.Owners.Owners = r.Owners.Owners[:min(most, len(r.Owners.Owners))]
}

func (r *ownerRows) add(u *ledger.Usage) {
	if !r.asked.means("project", u.Owner.Project) || !r.asked.means("user", u.Owner.User) ||
		u.Consumers == 0 || !strings.Contains(strings.ToLower(u.Owner.Project), r.part) {
		return
	}
	each := r.asked.given["project"] != "" || r.asked.given["user"] != ""
	if each || r.row == nil || r.row.Project != u.Owner.Project {
		r.finish()
		r.row = &Owner{Project: u.Owner.Project, Amounts: make(map[string]int64)}
	}
	row := r.row
	if each {
		row.User, row.Type = u.Owner.User, u.Owner.Type
	} else if row.Users == 0 || u.Owner.User != r.lastUser {
		row.Users++
		r.lastUser = u.Owner.User
	}
	row.Consumers += u.Consumers
	for _, a := range u.Amounts {
		row.Amounts[r.classes.Name(a.Class)] += a.Amount
	}
}

// Consumers is a page of GET /audit/consumers, by uuid.
type Consumers struct {
	Sequence  uint64              `json:"sequence"` // sequence of the commit that the answer holds for
	Consumers []*wire.Allocations `json:"consumers"`
	Next      string              `json:"next,omitempty"` // the value of after for the next page
}

const maxConsumers = 1000

// consumers is GET /audit/consumers: the consumers that hold something, or those
// of a project, a user or a type. A page has less than limit of them if more than
// maxSearched were examined.
func (q entities) consumers(ctx context.Context, p *parameters) (any, error) {
	var after ledger.UUID
	if p.given["after"] != "" {
		after = p.uuid("after")
	}
	view, err := q.look(p, maxConsumers, maxConsumers)
	if err != nil {
		return nil, err
	}
	page := &Consumers{Sequence: view.Sequence(), Consumers: []*wire.Allocations{}}
	looked := 0
	err = view.Consumers(after, func(c *ledger.Consumer) bool {
		if looked++; len(page.Consumers) == view.limit || looked > maxSearched {
			page.Next = after.String()
			return false
		}
		after = c.UUID
		if !p.means("project", c.Owner.Project) || !p.means("user", c.Owner.User) || !p.means("type", c.Owner.Type) {
			return looked%1000 != 0 || ctx.Err() == nil
		}
		page.Consumers = append(page.Consumers, present.AllocationsOf(c, view.classes))
		return true
	})
	return page, cmp.Or(err, ctx.Err())
}

// Reservations is the answer of GET /audit/reservations: consumers whose
// allocations end unless they are confirmed.
type Reservations struct {
	Sequence     uint64              `json:"sequence"`     // sequence of the commit that the answer holds for
	Reservations []*wire.Allocations `json:"reservations"` // those that end first first
	// Incomplete means that there are more of them.
	Incomplete bool `json:"incomplete,omitempty"`
}

const (
	maxReservations     = 1000
	defaultReservations = 200
)

// reservations is GET /audit/reservations. Only those of now are indexed, and
// those of the past are answered by histories.
func (q *Questions) reservations(_ context.Context, p *parameters) (any, error) {
	limit := number(p, "limit", 1, maxReservations, defaultReservations)
	if p.fault != nil {
		return nil, p.fault
	}
	list, err := q.Views.Reservations(limit + 1)
	if err != nil {
		return nil, err
	}
	view := q.Views.View()
	answer := &Reservations{
		Sequence: view.Sequence(), Reservations: []*wire.Allocations{}, Incomplete: len(list) > limit,
	}
	for _, one := range list[:min(limit, len(list))] {
		held, err := present.Allocations(view, one.Consumer)
		if err != nil {
			return nil, err
		}
		if held != nil && held.ReservedUntil != "" { // it may have been confirmed meanwhile
			answer.Reservations = append(answer.Reservations, held)
		}
	}
	return answer, nil
}
