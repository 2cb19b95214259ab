package audit

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/allot-project/allot/api/present"
	"github.com/allot-project/allot/api/present/sentences"
	"github.com/allot-project/allot/api/rest"
	"github.com/allot-project/allot/api/wire"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/projector"
)

// Timeline is a page of GET /audit/timeline: records, newest first, with what
// they changed.
type Timeline struct {
	Sequence uint64         `json:"sequence"` // sequence of the commit that the answer holds for
	Entries  []TimelineItem `json:"entries"`
	// Next is the value of before for the next page. A page with few entries may
	// have one, because a filter examines a bounded number of records for a page.
	Next string `json:"next,omitempty"`
}

// TimelineItem is a record, and what it changed.
type TimelineItem struct {
	wire.HistoryEntry
	// Events are the first events of the record, and EventCount is how many it
	// has.
	Events     []ledger.EventLine `json:"events"`
	EventCount int                `json:"event_count"`
	// Words are the parts of the text, with what they name.
	Words sentences.Words `json:"words"`
	// Changes are the first entities that the events are about, and ChangeCount
	// is how many there are.
	Changes     []Change          `json:"changes"`
	ChangeCount int               `json:"change_count"`
	Names       map[string]string `json:"names"` // of the providers and nodes in the changes, by uuid
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

// timeline is GET /audit/timeline.
func (q timelines) timeline(ctx context.Context, p parameters) (any, error) {
	limit, err := p.number("limit", 1, maxTimeline, defaultTimeline)
	if err != nil {
		return nil, err
	}
	view, err := q.view(p)
	if err != nil {
		return nil, err
	}
	w, err := q.walker(p, view)
	if err != nil {
		return nil, err
	}
	telling, err := q.telling(p)
	if err != nil {
		return nil, err
	}
	page := &Timeline{Sequence: view.Sequence(), Entries: []TimelineItem{}}
	for len(page.Entries) < int(limit) {
		at, record, err := w.next(ctx)
		if err != nil {
			return nil, err
		}
		if record == nil {
			if w.examined >= maxExamined {
				page.Next = w.before.String()
			}
			return page, nil
		}
		item, err := q.item(ctx, telling, at, record, w.about())
		if err != nil {
			return nil, err
		}
		page.Entries = append(page.Entries, *item)
	}
	page.Next = w.before.String()
	return page, nil
}

// walker finds the records that a question is about, newest first.
type walker struct {
	view            projector.View
	before          ledger.Address // the last record examined
	subjects        []projector.Subject
	actor, command  string
	since, until    time.Time
	waiting         []ledger.Address // to be examined
	records         []*ledger.Record // of the commit of that sequence
	recordsSequence uint64
	examined        int
}

// about is what the sentences are for.
func (w *walker) about() (s projector.Subject) {
	if len(w.subjects) > 0 {
		s = w.subjects[0]
	}
	return s
}

func (q timelines) walker(p parameters, view projector.View) (*walker, error) {
	w := &walker{
		view: view, before: ledger.Address{Sequence: view.Sequence() + 1}, actor: p["actor"], command: p["command"],
	}
	for _, of := range timelineSubjects {
		if p[of] == "" {
			continue
		}
		subject, err := present.SubjectCalled(of, p[of])
		if err != nil {
			return nil, rest.BadRequest("%v", err)
		}
		w.subjects = append(w.subjects, subject)
	}
	var err error
	if w.since, err = p.moment("since"); err != nil {
		return nil, err
	}
	if w.until, err = p.moment("until"); err != nil {
		return nil, err
	}
	if !w.since.IsZero() && !w.until.IsZero() && w.until.Before(w.since) {
		return nil, rest.BadRequest("until: is before since")
	}
	if now := time.Now(); !w.until.IsZero() && w.until.Before(now) {
		by, err := q.commitsBy(w.until, now)
		if err != nil {
			return nil, err
		}
		w.before.Sequence = min(w.before.Sequence, by+2) // a commit may have records of before and after the time
	}
	if p["before"] == "" {
		return w, nil
	}
	before, err := p.address("before")
	if before.Sequence < w.before.Sequence {
		w.before = before
	}
	return w, err
}

// timelineSubjects are the parameters that name what a record touched.
var timelineSubjects = []string{
	wire.OfConsumer, wire.OfProvider, wire.OfProject, wire.OfUser, wire.OfNode, wire.OfNodeAllocation,
}

// next returns the next record; nil: there is none, or enough were examined.
func (w *walker) next(ctx context.Context) (ledger.Address, *ledger.Record, error) {
	for w.examined < maxExamined {
		if len(w.waiting) == 0 {
			if err := w.fill(); err != nil || len(w.waiting) == 0 {
				return ledger.Address{}, nil, err
			}
		}
		at := w.waiting[0]
		w.waiting, w.before = w.waiting[1:], at
		w.examined++
		if w.examined%100 == 0 && ctx.Err() != nil {
			return at, nil, ctx.Err()
		}
		record, err := w.record(at)
		if err != nil {
			return at, nil, err
		}
		if !w.since.IsZero() && time.Unix(0, record.Time).Before(w.since) {
			w.examined = 0 // everything else is older: there is no next page
			return at, nil, nil
		}
		picked, err := w.picks(at, record)
		if err != nil || picked {
			return at, record, err
		}
	}
	return ledger.Address{}, nil, nil
}

// fill finds the next addresses: those in the history of the first subject, or
// all of one commit.
func (w *walker) fill() error {
	if len(w.subjects) > 0 {
		list, err := historyBefore(w.view, w.subjects[0], w.before)
		w.waiting = list
		return err
	}
	for len(w.waiting) == 0 && (w.before.Sequence > 1 || w.before.Index > 0) {
		if w.before.Index == 0 {
			w.before = ledger.Address{Sequence: w.before.Sequence - 1, Index: math.MaxInt}
		}
		if err := w.load(w.before.Sequence); err != nil {
			return err
		}
		end := min(w.before.Index, len(w.records))
		for i := range end {
			w.waiting = append(w.waiting, ledger.Address{Sequence: w.before.Sequence, Index: end - 1 - i})
		}
		w.before.Index = 0
	}
	return nil
}

// historyBefore lists records of a history strictly before an address, newest
// first; none: there are no more.
func historyBefore(view projector.View, s projector.Subject, before ledger.Address) ([]ledger.Address, error) {
	upTo := before.Sequence
	if before.Index > 0 {
		upTo++ // the commit of the address may have earlier records
	}
	for limit := maxTimeline; ; limit *= 4 {
		list, err := view.HistoryOf(s, upTo, limit)
		if err != nil {
			return nil, err
		}
		whole := len(list) < limit
		list = slices.DeleteFunc(list, func(a ledger.Address) bool {
			return a.Sequence == before.Sequence && a.Index >= before.Index
		})
		if len(list) > 0 || whole {
			return list, nil
		}
	}
}

func (w *walker) load(sequence uint64) (err error) {
	if w.recordsSequence != sequence {
		w.records, err = w.view.RecordsOf(sequence)
		w.recordsSequence = sequence
	}
	return err
}

func (w *walker) record(at ledger.Address) (*ledger.Record, error) {
	if err := w.load(at.Sequence); err != nil {
		return nil, err
	}
	if at.Index >= len(w.records) {
		return nil, fmt.Errorf("audit: the read models have no record %s", at)
	}
	return w.records[at.Index], nil
}

// picks reports whether a record is asked for.
func (w *walker) picks(at ledger.Address, r *ledger.Record) (bool, error) {
	if w.actor != "" && r.Actor != w.actor || w.command != "" && r.Command != w.command ||
		!w.until.IsZero() && time.Unix(0, r.Time).After(w.until) {
		return false, nil
	}
	for _, subject := range w.subjects[min(1, len(w.subjects)):] {
		list, err := historyBefore(w.view, subject, ledger.Address{Sequence: at.Sequence, Index: at.Index + 1})
		if err != nil || len(list) == 0 || list[0] != at {
			return false, err
		}
	}
	return true, nil
}

// item reads a record from the log, and what it changed.
func (q timelines) item(
	ctx context.Context, telling present.Telling, at ledger.Address, r *ledger.Record, about projector.Subject,
) (*TimelineItem, error) {
	commits, _, err := q.commits(ctx, at.Sequence, at.Sequence)
	if err != nil {
		return nil, err
	}
	if len(commits) != 1 || at.Index >= len(commits[0].Records) {
		return nil, fmt.Errorf("audit: the log has no record %s", at)
	}
	events := commits[0].Records[at.Index].Events
	item := &TimelineItem{
		HistoryEntry: present.EntryOf(at, r), EventCount: len(events), Changes: []Change{}, Names: make(map[string]string),
		Events: ledger.EventLines(events[:min(maxToldEvents, len(events))]),
	}
	if item.Words, err = telling.Record(at.Sequence, &commits[0].Records[at.Index], about); err != nil {
		return nil, err
	}
	item.Text = item.Words.String()
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
	return item, q.nameAll(item, at.Sequence)
}

// nameAll names the providers and nodes in the changes.
func (q timelines) nameAll(item *TimelineItem, sequence uint64) error {
	view, err := q.Views.ViewAt(sequence)
	if err != nil {
		return err
	}
	add := func(id ledger.UUID) {
		key := id.String()
		if _, known := item.Names[key]; known || err != nil {
			return
		}
		var name string
		if name, err = q.nameOf(view, key); name != "" {
			item.Names[key] = name
		}
	}
	for _, change := range item.Changes {
		for _, state := range []any{change.Before, change.After} {
			switch s := state.(type) {
			case *wire.Allocations:
				for _, a := range s.Allocations {
					add(a.Provider)
				}
			case *wire.NodeAllocation:
				if s.Node != nil {
					add(*s.Node)
				}
			case *wire.Provider:
				if s.Parent != nil {
					add(*s.Parent)
				}
			}
		}
	}
	return err
}

// commitsBy returns the sequence of the last commit by a time; 0: there was none.
func (q timelines) commitsBy(at, now time.Time) (uint64, error) {
	view, err := q.Views.ViewAtTime(at, now)
	if errors.Is(err, projector.ErrBeforeFirst) {
		return 0, nil
	}
	return view.Sequence(), err
}
