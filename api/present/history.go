package present

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/allot-project/allot/api/wire"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/projector"
)

// Limits of one page of a history.
const (
	DefaultHistoryPage = 50
	MaxHistoryPage     = 1000
	// maxLooked is how many entries a filter may examine for one page. A page
	// that reaches it ends early, and the next one goes on from there.
	maxLooked = 20_000
)

// ErrQuery is in every error about a faulty query.
var ErrQuery = errors.New("the query is invalid")

// kinds are the kinds of entities whose histories the read models index, and
// whether they have a uuid.
var kinds = map[string]struct {
	kind  projector.Kind
	named bool
}{
	wire.OfConsumer:       {kind: projector.ConsumerHistory},
	wire.OfProvider:       {kind: projector.ProviderHistory},
	wire.OfProject:        {kind: projector.ProjectHistory, named: true},
	wire.OfUser:           {kind: projector.UserHistory, named: true},
	wire.OfNode:           {kind: projector.NodeHistory},
	wire.OfNodeAllocation: {kind: projector.NodeAllocationHistory},
	wire.OfChassis:        {kind: projector.ChassisHistory},
	wire.OfCommand:        {},
}

type history struct {
	projector.Subject
	Telling
	ctx    context.Context
	log    ledger.Log
	commit *ledger.Commit // that was read last; nil: none was
	view   projector.View
	query  *wire.HistoryQuery
	limit  int
	before ledger.Address // zero: from the newest
	after  ledger.Address // if ascending

	since, until time.Time // zero: not bounded
}

// History reads one page of the history that a query asks for, as of a view. The log
// has the events that are told in words, and what a command changed; without a log
// (nil) these are left out.
func History(
	ctx context.Context, t Telling, log ledger.Log, view projector.View, q *wire.HistoryQuery,
) (*wire.History, error) {
	h := &history{Telling: t, ctx: ctx, log: log, view: view, query: q, limit: q.Limit}
	if err := h.check(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrQuery, err)
	}
	page := &wire.History{Entries: []wire.HistoryEntry{}}
	if q.Of == wire.OfCommand {
		return page, h.command(page)
	}
	return page, h.fill(page)
}

func (h *history) check() error {
	var err error
	if h.Subject, err = SubjectCalled(h.query.Of, h.query.Name); err != nil {
		return err
	}
	if h.limit == 0 {
		h.limit = DefaultHistoryPage
	}
	if h.limit < 1 || h.limit > MaxHistoryPage {
		return fmt.Errorf("limit: %d is not between 1 and %d", h.limit, MaxHistoryPage)
	}
	if h.query.Before != "" {
		if h.before, err = ledger.ParseAddress(h.query.Before); err != nil {
			return fmt.Errorf("before: %w", err)
		}
	}
	if h.query.After != "" {
		if h.after, err = ledger.ParseAddress(h.query.After); err != nil {
			return fmt.Errorf("after: %w", err)
		}
		if h.query.Before != "" {
			return errors.New("after: contradicts before")
		}
	}
	for _, bound := range []struct {
		name, text string
		at         *time.Time
	}{{"since", h.query.Since, &h.since}, {"until", h.query.Until, &h.until}} {
		if bound.text == "" {
			continue
		}
		if *bound.at, err = ledger.ParseTime(bound.text); err != nil {
			return fmt.Errorf("%s: %w", bound.name, err)
		}
	}
	if !h.since.IsZero() && !h.until.IsZero() && h.until.Before(h.since) {
		return errors.New("until: is before since")
	}
	return nil
}

func (h *history) fill(page *wire.History) error {
	if h.query.After != "" {
		return h.ascend(page)
	}
	walk := &Walk{View: h.view, Subject: h.Subject, Before: h.before, Page: h.limit + 2}
	for looked := 0; ; looked++ {
		last := walk.Before
		at, record, err := walk.Next()
		if err != nil || record == nil {
			return err
		}
		if len(page.Entries) == h.limit || looked == maxLooked {
			page.Next = last.String()
			return nil
		}
		if more, err := h.add(at, record, page); err != nil || !more {
			return err
		}
	}
}

// ascend fills a page with the records after an address, oldest first.
func (h *history) ascend(page *wire.History) error {
	list, err := h.view.HistoryAfter(h.Subject, h.after, h.limit)
	if err != nil {
		return err
	}
	for _, at := range list {
		record, err := recordIn(h.view, at)
		if err != nil {
			return err
		}
		if _, err := h.add(at, record, page); err != nil {
			return err
		}
	}
	if len(list) == h.limit {
		page.Next = list[len(list)-1].String()
	}
	return nil
}

// add adds one record to a page unless a filter leaves it out. It returns false
// when all further records are too old.
func (h *history) add(at ledger.Address, record *ledger.Record, page *wire.History) (more bool, err error) {
	decided := time.Unix(0, record.Time).UTC()
	if !h.since.IsZero() && decided.Before(h.since) {
		return h.query.After != "", nil
	}
	if !h.until.IsZero() && decided.After(h.until) || h.query.Kind != "" && h.query.Kind != record.Command {
		return true, nil
	}
	entry := EntryOf(at, record)
	if entry.Before, entry.After, err = h.around(at.Sequence); err != nil {
		return false, err
	}
	if _, err = h.tell(&entry, at); err != nil {
		return false, err
	}
	page.Entries = append(page.Entries, entry)
	return true, nil
}

// tell says in words what a record did, if the log is to be read, and returns the record
// with its events.
func (h *history) tell(entry *wire.HistoryEntry, at ledger.Address) (*ledger.Record, error) {
	if h.query.Brief || h.log == nil {
		return nil, nil
	}
	record, err := h.recordAt(at)
	if err != nil {
		return nil, err
	}
	words, err := h.Record(at.Sequence, record, h.Subject)
	entry.Text = words.String()
	return record, err
}

// recordAt reads a record from the log. Entries of one commit stand together, and each would decode
// all of it.
func (h *history) recordAt(at ledger.Address) (*ledger.Record, error) {
	if h.commit == nil || h.commit.Sequence != at.Sequence {
		commit, err := ledger.ReadCommit(h.ctx, h.log, at.Sequence)
		if err != nil {
			return nil, err
		}
		h.commit = commit
	}
	return h.commit.Record(at)
}

// EntryOf returns one record as an entry of a history, without the states before
// and after.
func EntryOf(at ledger.Address, r *ledger.Record) wire.HistoryEntry {
	return wire.HistoryEntry{
		Address: at.String(), Time: rfc3339(r.Time), Actor: r.Actor, Command: r.Command,
		CommandID: r.CommandID, RequestID: r.RequestID, Cause: r.Cause,
	}
}

// Entry returns one record as it concerned a subject, without the state before.
func Entry(
	views *projector.Projector, s projector.Subject, at ledger.Address, r *ledger.Record,
) (entry wire.HistoryEntry, err error) {
	entry = EntryOf(at, r)
	h := &history{Subject: s, Telling: Telling{Views: views}, query: &wire.HistoryQuery{Brief: true}}
	_, entry.After, err = h.around(at.Sequence)
	return entry, err
}

// SubjectName returns a subject in the words of queries: its kind, and its uuid
// or id.
func SubjectName(s projector.Subject) (of, name string) {
	of = subjectNames[s.Kind]
	if kinds[of].named {
		return of, s.Name
	}
	return of, s.ID.String()
}

var subjectNames = func() map[projector.Kind]string {
	names := make(map[projector.Kind]string)
	for of, k := range kinds {
		names[k.kind] = of
	}
	return names
}()

func (h *history) command(page *wire.History) error {
	result, found, err := h.Views.Command(h.ID)
	if err != nil || !found {
		return err
	}
	record, found, err := h.view.Record(result.Address)
	if err != nil || !found {
		return err // it is after the view
	}
	entry := EntryOf(result.Address, record)
	told, err := h.tell(&entry, result.Address)
	if err == nil && told != nil {
		err = h.touched(&entry, told, result.Address)
	}
	page.Entries = append(page.Entries, entry)
	return err
}

const maxTouched = 100

// SubjectCalled is the reverse of SubjectName: the entity of a kind with a uuid or
// id.
func SubjectCalled(of, name string) (s projector.Subject, err error) {
	kind, known := kinds[of]
	if !known {
		return s, fmt.Errorf("of: %q is none of %v", of, wire.Subjects)
	}
	if name == "" {
		return s, fmt.Errorf("%s: is empty", of)
	}
	s.Kind = kind.kind
	if kind.named {
		s.Name = name
		return s, nil
	}
	if s.ID, err = ledger.ParseUUID(name); err != nil || s.ID.IsNil() {
		return s, fmt.Errorf("%s: %q is not a uuid", of, name)
	}
	return s, nil
}

// Around returns an entity before and after a commit; nil: it did not exist.
func Around(views *projector.Projector, s projector.Subject, sequence uint64) (before, after any, err error) {
	return (&history{Subject: s, Telling: Telling{Views: views}, query: &wire.HistoryQuery{}}).around(sequence)
}

// around returns the subject before and after a commit. Brief histories leave out what was before.
func (h *history) around(sequence uint64) (before, after any, err error) {
	if after, err = h.state(sequence); err == nil && sequence > 1 && !h.query.Brief {
		before, err = h.state(sequence - 1)
	}
	return before, after, err
}

// touched adds every entity that a record's events are about, before and after
// the record's commit, by kind and uuid.
func (h *history) touched(entry *wire.HistoryEntry, record *ledger.Record, at ledger.Address) error {
	before, after := make(map[string]any), make(map[string]any)
	entry.Before, entry.After = before, after
	for _, event := range record.Events {
		for _, subject := range projector.SubjectsOf(event) {
			of, name := SubjectName(subject)
			key := of + " " + name
			if _, known := after[key]; known {
				continue
			}
			if entry.Incomplete = len(after) == maxTouched; entry.Incomplete {
				return nil
			}
			was, is, err := Around(h.Views, subject, at.Sequence)
			if after[key] = is; err != nil {
				return err
			}
			if at.Sequence > 1 {
				before[key] = was
			}
		}
	}
	return nil
}

// state returns the subject after a commit; nil if it did not exist.
func (h *history) state(sequence uint64) (any, error) {
	if h.Kind == projector.ProjectHistory && h.query.Brief {
		return nil, nil // Summing up a project for each of its notices would take too long.
	}
	view, err := h.Views.ViewAt(sequence)
	if err != nil {
		return nil, err
	}
	switch h.Kind {
	case projector.ConsumerHistory:
		return OrNothing(Allocations(view, h.ID))
	case projector.ProviderHistory:
		return OrNothing(Provider(view, h.ID, nil))
	case projector.NodeHistory:
		return OrNothing(Node(view, h.ID))
	case projector.NodeAllocationHistory:
		return OrNothing(NodeAllocation(view, h.ID))
	case projector.ChassisHistory:
		return OrNothing(Chassis(view, h.ID))
	case projector.ProjectHistory:
		return Usages(view, h.Name, "")
	}
	return nil, nil // users have usages per project
}

// OrNothing returns an untyped nil for a nil pointer.
func OrNothing[T any](value *T, err error) (any, error) {
	if value == nil {
		return nil, err
	}
	return value, err
}
