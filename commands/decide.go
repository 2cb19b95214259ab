package commands

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/allot-project/allot/commands/demand"
	"github.com/allot-project/allot/ledger"
)

// Decode reads a command's JSON form, as it is stored or submitted.
func Decode(name string, body []byte) (Command, error) {
	var c Command
	if empty, known := Registry[name]; known {
		c = empty()
	} else if name == NameOf(new(Batch)) {
		c = new(Batch)
	} else {
		return nil, fmt.Errorf("commands: there is no command %q", name)
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
			return fmt.Errorf("a batch holds no batches")
		}
		var err error
		if c.Commands[i], err = Decode(one.Command, one.Body); err != nil {
			return err
		}
	}
	return nil
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
