package audit

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/allot-project/allot/api/present"
	"github.com/allot-project/allot/api/present/sentences"
	"github.com/allot-project/allot/api/rest"
	"github.com/allot-project/allot/api/wire"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/projector"
)

// Page is the answer of GET /audit/history.
type Page struct {
	// Sequence is that of the commit that the answer holds for.
	Sequence uint64 `json:"sequence"`
	*wire.History
}

// history is GET /audit/history: what happened to one thing, newest first, or after an entry, oldest first.
func (q *Questions) history(ctx context.Context, p *parameters) (any, error) {
	asked, err := historyOf(p)
	if err != nil {
		return nil, err
	}
	telling := q.telling(p)
	view, err := q.view(p)
	if err != nil {
		return nil, err
	}
	list, err := present.History(ctx, telling, q.Log, view, asked)
	return &Page{Sequence: view.Sequence(), History: list}, asBad(err)
}

var historyParameters = []string{"limit", "before", "after", "since", "until", "kind", "whole_ids", "at"}

func historyOf(p *parameters) (*wire.HistoryQuery, error) {
	q := &wire.HistoryQuery{}
	for _, of := range wire.Subjects {
		if p.given[of] == "" {
			continue
		}
		if q.Of != "" {
			return nil, errOneSubject
		}
		q.Of, q.Name = of, p.given[of]
	}
	if q.Of == "" {
		return nil, errOneSubject
	}
	return q, p.into(q)
}

var errOneSubject = rest.BadRequest("give one of %s", strings.Join(wire.Subjects, ", "))

// Timeline is a page of GET /audit/timeline: records, newest first, with what
// they changed.
type Timeline struct {
	Sequence uint64         `json:"sequence"` // sequence of the commit that the answer holds for
	Entries  []TimelineItem `json:"entries"`
	// Next is the value of before for the next page. A page with few entries may
	// have one, because a filter examines a bounded number of records for a page.
	Next string `json:"next,omitempty"`
}

// Told is a record in words.
type Told struct {
	wire.HistoryEntry
	Words sentences.Words `json:"words"` // the parts of the text, with what they name
}

// TimelineItem is a record, and what it changed.
type TimelineItem struct {
	Told
	// Events are the first events of the record, and EventCount is how many it
	// has.
	Events     []ledger.EventLine `json:"events"`
	EventCount int                `json:"event_count"`
	// Changes are the first entities that the events are about, and ChangeCount
	// is how many there are.
	Changes     []Change `json:"changes"`
	ChangeCount int      `json:"change_count"`
}

// Change is an entity before and after the commit of a record; null: it did not
// exist.
type Change struct {
	Subject
	Before any `json:"before"`
	After  any `json:"after"`
}

const (
	maxTimeline     = 100
	defaultTimeline = 25
	// maxExamined is how many records a filter examines for one page.
	maxExamined = 20_000
	// maxToldEvents and maxToldChanges are how many events and changes of one
	// record a page has.
	maxToldEvents  = 10
	maxToldChanges = 10
)

// timelines answers what was done, record by record.
type timelines struct{ *Questions }

func (q timelines) timeline(ctx context.Context, p *parameters) (any, error) {
	limit, telling := number(p, "limit", 1, maxTimeline, defaultTimeline), q.telling(p)
	view, err := q.view(p)
	if err != nil {
		return nil, err
	}
	w, err := q.walker(p, view)
	if err != nil {
		return nil, err
	}
	page := &Timeline{Sequence: view.Sequence(), Entries: []TimelineItem{}}
	for len(page.Entries) < limit {
		at, record, err := w.next(ctx)
		if err != nil {
			return nil, err
		}
		if record == nil {
			if w.examined == maxExamined {
				page.Next = w.Before.String()
			}
			return page, nil
		}
		item, err := q.item(ctx, telling, at, w.Subject)
		if err != nil {
			return nil, err
		}
		page.Entries = append(page.Entries, *item)
	}
	page.Next = w.Before.String()
	return page, nil
}

// walker finds the records that a question is about, newest first.
type walker struct {
	present.Walk
	others         []projector.Subject // besides the walk's
	actor, command string
	since, until   time.Time
	examined       int
}

func (q timelines) walker(p *parameters, view projector.View) (*walker, error) {
	w := &walker{actor: p.given["actor"], command: p.given["command"]}
	w.View, w.Before = view, ledger.Address{Sequence: view.Sequence() + 1}
	var subjects []projector.Subject
	for _, of := range timelineSubjects {
		if p.given[of] == "" {
			continue
		}
		subject, err := present.SubjectCalled(of, p.given[of])
		if err != nil {
			return nil, rest.BadRequest("%v", err)
		}
		subjects = append(subjects, subject)
	}
	if len(subjects) > 0 {
		w.Subject, w.others = subjects[0], subjects[1:]
	}
	if w.since, w.until = p.span(); p.fault != nil {
		return nil, p.fault
	}
	if now := time.Now(); !w.until.IsZero() && w.until.Before(now) {
		by, err := q.Views.ViewAtTime(w.until, now)
		if err != nil && !errors.Is(err, projector.ErrBeforeFirst) {
			return nil, err
		}
		w.Before.Sequence = min(w.Before.Sequence, by.Sequence()+2) // a commit may have records of before and after the time
	}
	if p.given["before"] == "" {
		return w, nil
	}
	if before := p.address("before"); before.Sequence < w.Before.Sequence {
		w.Before = before
	}
	return w, p.fault
}

// timelineSubjects are the parameters that name what a record touched: all but the command itself.
var timelineSubjects = wire.Subjects[:len(wire.Subjects)-1]

// next returns the next record; nil: there is none, or enough were examined.
func (w *walker) next(ctx context.Context) (at ledger.Address, r *ledger.Record, err error) {
	for w.examined < maxExamined {
		if at, r, err = w.Next(); err != nil || r == nil {
			return at, nil, err
		}
		if w.examined++; w.examined%100 == 0 && ctx.Err() != nil {
			return at, nil, ctx.Err()
		}
		if !w.since.IsZero() && time.Unix(0, r.Time).Before(w.since) {
			w.examined = 0 // everything else is older: there is no next page
			return at, nil, nil
		}
		picked, err := w.picks(at, r)
		if err != nil || picked {
			return at, r, err
		}
	}
	return at, nil, nil
}

func (w *walker) picks(at ledger.Address, r *ledger.Record) (bool, error) {
	if w.actor != "" && r.Actor != w.actor || w.command != "" && r.Command != w.command ||
		!w.until.IsZero() && time.Unix(0, r.Time).After(w.until) {
		return false, nil
	}
	for _, subject := range w.others {
		after := ledger.Address{Sequence: at.Sequence, Index: at.Index + 1}
		touched := present.Walk{View: w.View, Subject: subject, Before: after}
		if last, _, err := touched.Next(); err != nil || last != at {
			return false, err
		}
	}
	return true, nil
}

// tell reads a record from the log, and says in words what it did, first to a subject.
func (q *Questions) tell(
	ctx context.Context, telling present.Telling, at ledger.Address, about projector.Subject,
) (told Told, record *ledger.Record, err error) {
	commits, _, err := q.commits(ctx, at.Sequence, at.Sequence, func(int) error { return nil })
	if err != nil {
		return told, nil, err
	}
	if len(commits) != 1 || at.Index >= len(commits[0].Records) {
		return told, nil, fmt.Errorf("audit: the log has no record %s", at)
	}
	record = &commits[0].Records[at.Index]
	told.HistoryEntry = present.EntryOf(at, record)
	told.Words, err = telling.Record(at.Sequence, record, about)
	told.Text = told.Words.String()
	return told, record, err
}

func (q timelines) item(
	ctx context.Context, telling present.Telling, at ledger.Address, about projector.Subject,
) (*TimelineItem, error) {
	told, record, err := q.tell(ctx, telling, at, about)
	if err != nil {
		return nil, err
	}
	events := record.Events
	item := &TimelineItem{
		Told: told, EventCount: len(events), Changes: []Change{},
		Events: ledger.EventLines(events[:min(maxToldEvents, len(events))]),
	}
	seen := make(map[projector.Subject]bool)
	for _, event := range events {
		for _, subject := range projector.SubjectsOf(event) {
			if seen[subject] {
				continue
			}
			seen[subject] = true
			if item.ChangeCount++; item.ChangeCount > maxToldChanges {
				continue
			}
			of, name := present.SubjectName(subject)
			one := Change{Subject: Subject{of, name}}
			if one.Before, one.After, err = present.Around(q.Views, subject, at.Sequence); err != nil {
				return nil, err
			}
			item.Changes = append(item.Changes, one)
		}
	}
	return item, nil
}
