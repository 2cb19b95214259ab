package audit

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/allot-project/allot/api/present"
	"github.com/allot-project/allot/api/rest"
	"github.com/allot-project/allot/api/wire"
	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/claiming"
	"github.com/allot-project/allot/commands/demand"
	"github.com/allot-project/allot/commands/document"
	"github.com/allot-project/allot/commands/writer"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/projector/candidates"
)

// Limits of what-if.
const (
	maxSteps     = 10_000
	maxQuestions = 100
)

// WhatIf is the body of POST /audit/what-if: commands to carry out after a
// moment, and questions about the outcome. Nothing is recorded.
type WhatIf struct {
	At    wire.Instant `json:"at,omitempty"` // sequence or RFC 3339 time; empty: now
	Steps []struct {
		// Command is a command of clients, or RemoveProvider, which removes a
		// provider with its descendants and all allocations of them.
		Command string          `json:"command"`
		Body    json.RawMessage `json:"body"`
	} `json:"steps"`
	Questions []struct {
		Query string          `json:"query"` // Allocations, Candidates, Capacity, Provider or Usages, as over NATS
		Body  json.RawMessage `json:"body"`
	} `json:"questions"`
}

// WouldBe is the answer of POST /audit/what-if.
type WouldBe struct {
	Sequence uint64      `json:"sequence"` // the commit after which the steps were carried out
	Steps    []WouldDo   `json:"steps"`
	Answers  []WouldTell `json:"answers"`
}

// WouldDo is the outcome of a step.
type WouldDo struct {
	Command   string             `json:"command"`
	Rejection *demand.Rejection  `json:"rejection,omitempty"`
	Events    []ledger.EventLine `json:"events,omitempty"`
}

// WouldTell is the answer to a query after the steps.
type WouldTell struct {
	Query  string `json:"query"`
	Result any    `json:"result"` // null: it does not exist
	Error  string `json:"error,omitempty"`
}

// whatIf is POST /audit/what-if. A large body is decoded in its client's turn, too.
func (q *Questions) whatIf(ctx context.Context, client string, body []byte) (any, error) {
	work, err := q.Fair.Long(ctx, client)
	if err != nil {
		return nil, err
	}
	defer work.End()
	asked, steps, questions, err := readWhatIf(body)
	if err != nil {
		return nil, err
	}
	state, err := q.state(ctx, string(asked.At))
	if err != nil {
		return nil, err
	}
	answer := &WouldBe{Sequence: state.Head().Sequence, Steps: []WouldDo{}, Answers: []WouldTell{}}
	fork := commands.NewScratch(state)
	for _, step := range steps {
		events, rejection, err := fork.Carry(commands.Submission{
			Actor: "what-if", Command: commands.Searching(step, claiming.InState),
		})
		if err != nil {
			return nil, err
		}
		answer.Steps = append(answer.Steps, WouldDo{commands.NameOf(step), rejection, ledger.EventLines(events)})
	}
	a := &asker{Of: present.Of{State: fork.State()}, maxSteps: q.MaxSteps}
	for _, one := range questions {
		told, err := a.ask(work.Within(ctx), one)
		if err != nil {
			return nil, err
		}
		answer.Answers = append(answer.Answers, told)
	}
	return answer, nil
}

func readWhatIf(body []byte) (asked WhatIf, steps []commands.Command, questions []wire.Query, err error) {
	if err := document.Check(body); err != nil {
		return asked, nil, nil, rest.BadRequest("the body is not JSON that can be read in one way: %v", err)
	}
	if err := strict(body, &asked); err != nil {
		return asked, nil, nil, rest.BadRequest("%v", err)
	}
	if len(asked.Steps) > maxSteps || len(asked.Questions) > maxQuestions {
		return asked, nil, nil, rest.BadRequest("give at most %d steps and %d questions", maxSteps, maxQuestions)
	}
	steps, questions = make([]commands.Command, len(asked.Steps)), make([]wire.Query, len(asked.Questions))
	for i, one := range asked.Steps {
		if steps[i], err = stepOf(one.Command, one.Body); err != nil {
			return asked, nil, nil, rest.BadRequest("step %d: %v", i, err)
		}
	}
	for i, one := range asked.Questions {
		if questions[i], err = queryOf(one.Query, one.Body); err != nil {
			return asked, nil, nil, rest.BadRequest("question %d: %v", i, err)
		}
	}
	return asked, steps, questions, nil
}

// state returns a State of now or of a moment. It belongs to the caller.
func (q *Questions) state(ctx context.Context, at string) (*ledger.State, error) {
	if at == "" && q.Present != nil {
		return q.Present.Fork(ctx)
	}
	view, err := q.viewAt(at)
	if err != nil {
		return nil, err
	}
	return writer.StateAt(ctx, q.Log, q.Snapshots, ledger.Address{Sequence: view.Sequence() + 1})
}

// strict decodes JSON with no unknown fields, and nothing after it.
func strict(data []byte, into any) error {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		return err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return errors.New("there is text after the end")
	}
	return nil
}

func stepOf(name string, body []byte) (commands.Command, error) {
	if gone := new(commands.RemoveProvider); name == commands.NameOf(gone) {
		return gone, strict(body, gone)
	}
	return commands.Decode(name, body)
}

func queryOf(name string, body []byte) (wire.Query, error) {
	empty, known := map[string]wire.Query{
		"Allocations": new(wire.AllocationsQuery), "Candidates": new(wire.CandidatesQuery),
		"Capacity": new(wire.CapacityQuery), "Provider": new(wire.ProviderQuery), "Usages": new(wire.UsagesQuery),
	}[name]
	if !known {
		return nil, fmt.Errorf("%q is none of Allocations, Candidates, Capacity, Provider and Usages", name)
	}
	if err := strict(body, empty); err != nil {
		return nil, err
	}
	if empty.Moment() != (wire.When{}) {
		return nil, errors.New("a question has no moment of its own: give at beside steps")
	}
	return empty, nil
}

type asker struct {
	present.Of
	maxSteps int
	world    *candidates.World // made when it is first needed
}

func (a *asker) ask(ctx context.Context, q wire.Query) (told WouldTell, err error) {
	told.Query = wire.NameOf(q)
	switch q := q.(type) {
	case *wire.AllocationsQuery:
		told.Result, err = present.OrNothing(present.Allocations(a, q.Consumer))
	case *wire.UsagesQuery:
		told.Result, err = present.Usages(a, q.Project, q.User)
	case *wire.ProviderQuery:
		id := q.Provider
		if q.Name != "" {
			id, _ = a.State.ProviderNamed(q.Name)
		}
		trees := func(ledger.UUID) (ledger.Forest, error) { return a.State, nil }
		told.Result, err = present.OrNothing(present.Provider(a, id, trees))
	case *wire.CandidatesQuery:
		told.Result, err = present.Candidates(ctx, a, a.candidates(), q, a.maxSteps)
	case *wire.CapacityQuery:
		told.Result, err = present.CapacityAsked(ctx, a, a.candidates(), q, a.maxSteps)
	}
	if errors.Is(err, present.ErrQuery) {
		told.Result, told.Error, err = nil, err.Error(), nil
	}
	return told, err
}

func (a *asker) candidates() *candidates.World {
	if a.world == nil {
		list := make([]*ledger.Provider, 0, a.State.ProviderCount())
		a.State.Providers(func(p *ledger.Provider) bool {
			list = append(list, p)
			return true
		})
		a.world = candidates.NewWorld(list)
	}
	return a.world
}
