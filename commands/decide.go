package commands

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/allot-project/allot/commands/demand"
	"github.com/allot-project/allot/ledger"
)

// New returns an empty command.
func New(name string) (Command, error) {
	if name == NameOf(new(Batch)) {
		return new(Batch), nil
	}
	empty, known := Registry[name]
	if !known {
		return nil, fmt.Errorf("commands: there is no command %q", name)
	}
	return empty(), nil
}

// Decode reads a command's JSON form, as it is stored or submitted.
func Decode(name string, body []byte) (Command, error) {
	c, err := New(name)
	if err != nil {
		return nil, err
	}
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.DisallowUnknownFields()
	if err := dec.Decode(c); err != nil {
		return nil, fmt.Errorf("commands: %s: %w", name, err)
	}
	return c, nil
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (c *Batch) UnmarshalJSON(data []byte) error {
	var list []struct {
		Command string          `json:"command"`
		Body    json.RawMessage `json:"body"`
	}
	if err := json.Unmarshal(data, &list); err != nil {
		return err
	}
	if len(list) > MaxBatch {
		return fmt.Errorf("%d commands, at most %d", len(list), MaxBatch)
	}
	c.Commands = make([]Command, len(list))
	for i, one := range list {
		if one.Command == NameOf(c) {
			return errNested
		}
		var err error
		if c.Commands[i], err = Decode(one.Command, one.Body); err != nil {
			return err
		}
	}
	return nil
}

var errNested = errors.New("a batch holds no batches")

// EncodeMsgpack implements msgpack.CustomEncoder: a list of names, each with a command after it.
func (c *Batch) EncodeMsgpack(e *msgpack.Encoder) error {
	err := e.EncodeArrayLen(2 * len(c.Commands))
	for _, one := range c.Commands {
		err = errors.Join(err, e.EncodeMulti(NameOf(one), one))
	}
	return err
}

// DecodeMsgpack implements msgpack.CustomDecoder.
func (c *Batch) DecodeMsgpack(d *msgpack.Decoder) error {
	n, err := d.DecodeArrayLen()
	for i := 0; i < n && err == nil; i += 2 {
		var name string
		var one Command
		if name, err = d.DecodeString(); err != nil {
			break
		}
		if name == NameOf(c) {
			return errNested
		}
		if one, err = New(name); err == nil {
			err = d.Decode(one)
			c.Commands = append(c.Commands, one)
		}
	}
	return err
}

// Decide decides a submission against a State, as the writer does. It changes
// nothing.
func Decide(s Submission, state *ledger.State) ([]ledger.Event, *demand.Rejection) {
	if rejection := s.Command.check(); rejection != nil {
		return nil, rejection
	}
	return DecideChecked(s, state)
}

// DecideChecked is Decide for a submission whose command has passed Check. The
// writer checks a command once and may decide it several times.
func DecideChecked(s Submission, state *ledger.State) ([]ledger.Event, *demand.Rejection) {
	if rejection := Foreign(s, state); rejection != nil {
		return nil, rejection
	}
	events, rejection := s.Command.decide(state)
	if rejection == nil {
		rejection = limited(s.Command, state, events)
	}
	if rejection != nil {
		return nil, rejection.Redacted(func(project string) bool { return s.Project == "" || s.Project == project })
	}
	return events, nil
}

// limited holds a command to the limits, unless only the server submits it. A batch
// holds each of its commands to them, in order.
func limited(c Command, state *ledger.State, events []ledger.Event) *demand.Rejection {
	if _, isBatch := c.(*Batch); isBatch {
		return nil
	}
	if _, internal := Internal[NameOf(c)]; internal {
		return nil
	}
	return withinLimits(state, events)
}

// MaxBatch is the largest number of commands in a batch.
const MaxBatch = 10_000

// Batch carries several commands out in order, in one record: all of them or
// none. Each command is decided against the outcome of those before it. No two
// commands may change the same consumer, because a consumer has one generation
// per commit.
type Batch struct {
	Commands []Command
}

func (c *Batch) consumers() []ledger.UUID {
	var all []ledger.UUID
	for _, one := range c.Commands {
		all = append(all, one.consumers()...)
	}
	return all
}

// MarshalJSON writes each command's name beside its content, for the fingerprint.
func (c *Batch) MarshalJSON() ([]byte, error) {
	type named struct {
		Command string  `json:"command"`
		Body    Command `json:"body"`
	}
	list := make([]named, len(c.Commands))
	for i, one := range c.Commands {
		list[i] = named{NameOf(one), one}
	}
	return json.Marshal(list)
}

func (c *Batch) check() *demand.Rejection {
	if n := len(c.Commands); n == 0 || n > MaxBatch {
		return demand.Invalid("commands", "a batch has 1 to %d commands, not %d", MaxBatch, n)
	}
	for i, one := range c.Commands {
		if _, nested := one.(*Batch); nested {
			return demand.Invalid("commands", "a batch holds no batches")
		}
		if r := one.check(); r != nil {
			return c.at(i, r)
		}
	}
	return nil
}

// at adds to a rejection which of the commands it is about.
func (c *Batch) at(i int, r *demand.Rejection) *demand.Rejection {
	told := *r
	told.Message = fmt.Sprintf("command %d (%s): %s", i, NameOf(c.Commands[i]), r.Message)
	told.Facts.Command = &i
	return &told
}

func (c *Batch) forProject(s *ledger.State, project string) *demand.Rejection {
	for i, one := range c.Commands {
		if r := forProject(one, s, project); r != nil {
			return c.at(i, r)
		}
	}
	return nil
}

// decide forks the State, decides the commands against the fork in order,
// and applies each command's events to the fork before it decides the next.
func (c *Batch) decide(s *ledger.State) ([]ledger.Event, *demand.Rejection) {
	// A commit changes a consumer once at most. What commands before the batch have changed
	// in the present one is no conflict: it comes in the next one then, as each command does.
	fork, place := s.Fork(), s.Next()+1
	var all []ledger.Event
	changed := make(map[ledger.UUID]bool)
	for i, one := range c.Commands {
		events, rejection := one.decide(fork)
		if rejection == nil {
			rejection = limited(one, fork, events)
		}
		if rejection != nil {
			return nil, c.at(i, rejection)
		}
		if len(events) == 0 {
			continue
		}
		touched := ledger.ConsumersChanged(events)
		for _, id := range touched {
			if changed[id] {
				return nil, c.at(i, demand.Invalid("consumer", "consumer %s is in the batch twice", id))
			}
		}
		for _, id := range touched {
			changed[id] = true
		}
		if err := fork.Apply(place, &ledger.Record{Time: fork.LastTime(), Events: events}); err != nil {
			// The command conflicts with an earlier one of the batch.
			return nil, c.at(i, demand.Invalid("commands", "conflicts with the commands before it: %v", err))
		}
		all = append(all, events...)
	}
	return all, nil
}

// forProject returns the reason for which a client that is bound to a project may
// not submit a command, or nil.
func forProject(c Command, s *ledger.State, project string) *demand.Rejection {
	r := c.forProject(s, project)
	if r == notForProjects {
		return foreign(project, "%s", NameOf(c))
	}
	return r
}

// Foreign returns the reason for which a client that is bound to a project may not
// submit what it submits, or nil.
func Foreign(s Submission, state *ledger.State) *demand.Rejection {
	if s.Project == "" {
		return nil
	}
	return forProject(s.Command, state, s.Project)
}

// operatorsOnly is embedded by commands that clients which are bound to a project
// may not submit. It names no consumers, unless the command does.
type operatorsOnly struct{ noConsumers }

var notForProjects = &demand.Rejection{Code: demand.CodeForbidden, Message: "not for clients that are bound to a project"}

func (operatorsOnly) forProject(*ledger.State, string) *demand.Rejection { return notForProjects }

func foreign(project, format string, args ...any) *demand.Rejection {
	return demand.Refuse(demand.CodeForbidden, demand.Facts{}, "%s is not for a client that is bound to project %s",
		fmt.Sprintf(format, args...), project)
}

// checkOwners requires every consumer to belong to the project, before and after
// the command.
func checkOwners(s *ledger.State, allocations []ConsumerAllocations, project string) *demand.Rejection {
	for i := range allocations {
		if allocations[i].Project != project {
			return foreign(project, "a consumer of project %s", allocations[i].Project)
		}
		if r := checkHolder(s, allocations[i].Consumer, project); r != nil {
			return r
		}
	}
	return nil
}

// checkHolder requires a consumer, if it exists, to belong to the project. About
// a consumer of others it tells only that it may not be touched.
func checkHolder(s *ledger.State, consumer ledger.UUID, project string) *demand.Rejection {
	if c, exists := s.Consumer(consumer); exists && c.Owner.Project != project {
		return foreign(project, "consumer %s", consumer)
	}
	return nil
}

// hideHolder is checkHolder for a command that needs the consumer: one of others looks
// missing.
func hideHolder(s *ledger.State, consumer ledger.UUID, project string) *demand.Rejection {
	if checkHolder(s, consumer, project) != nil {
		return consumerNotFound(consumer)
	}
	return nil
}

// hideNodeAllocation has the node allocations of others look missing.
func hideNodeAllocation(s *ledger.State, id ledger.UUID, project string) *demand.Rejection {
	if a, exists := s.NodeAllocation(id); exists && a.Owner != project {
		return nodeAllocationNotFound(id)
	}
	return nil
}

// Scratch is a ledger in memory, for what-if questions: it begins as a copy of
// the real ledger at some moment, takes commands, and is thrown away. It records
// nothing. It is not safe for concurrent use.
type Scratch struct{ state *ledger.State }

// NewScratch begins with a State, which belongs to the Scratch from now on.
func NewScratch(state *ledger.State) *Scratch { return &Scratch{state} }

// State returns the scratch ledger's State, which must not be changed.
func (l *Scratch) State() *ledger.State { return l.state }

// Carry carries a command out in a commit of its own, and returns its events or a
// rejection. The time is that of the last record. Claims need what WithFound or Searching
// gives them.
func (l *Scratch) Carry(s Submission) ([]ledger.Event, *demand.Rejection, error) {
	events, rejection := Decide(s, l.state)
	if rejection != nil || len(events) == 0 {
		return nil, rejection, nil
	}
	record := ledger.Record{
		CommandID: s.ID, Command: NameOf(s.Command), Time: l.state.LastTime(), Actor: s.Actor, Events: events,
	}
	undo := l.state.Begin()
	next := l.state.Next()
	if err := l.state.Apply(next, &record); err != nil {
		l.state.Undo(undo, l.state.Changes())
		return nil, nil, err
	}
	l.state.Advance(ledger.Head{Sequence: next})
	return events, nil, nil
}
