package audit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/allot-project/allot/api/rest"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/proof"
	"github.com/allot-project/allot/projector"
)

// Statement is what a project has consumed from one whole hour to another, with evidence that
// the operator's public key suffices to check. It tells nothing of other projects.
type Statement struct {
	Project  string                `json:"project"`
	From     *time.Time            `json:"from,omitempty"` // missing: from the ledger's beginning
	To       time.Time             `json:"to"`
	Consumed []proof.ClassConsumed `json:"consumed"`
	Begin    *ProvenConsumption    `json:"begin,omitempty"`
	End      *ProvenConsumption    `json:"end"`
}

// ProvenConsumption is what a project has consumed up to a moment, with evidence.
type ProvenConsumption struct {
	Consumption *proof.Consumption   `json:"consumption,omitempty"` // missing: it never held anything by then
	Places      []proof.PlacedDigest `json:"places"`
	Record      Inclusion            `json:"record"` // of the root in the log
}

// Check checks the evidence, and returns the checkpoint that vouches for it.
func (s *Statement) Check(trust proof.Trust) (*proof.Checkpoint, error) {
	if s.End == nil || (s.From == nil) != (s.Begin == nil) {
		return nil, fmt.Errorf("%w: the statement lacks evidence of its end or its beginning", proof.ErrProof)
	}
	checkpoint, err := s.End.check(trust, s.Project, s.To)
	if err != nil {
		return nil, fmt.Errorf("to: %w", err)
	}
	if s.From != nil {
		earlier, err := s.Begin.check(trust, s.Project, *s.From)
		if err != nil {
			return nil, fmt.Errorf("from: %w", err)
		}
		if *earlier != *checkpoint || !s.From.Before(s.To) {
			return nil, fmt.Errorf("%w: its beginning and its end are not of the same log, one after the other", proof.ErrProof)
		}
	}
	consumed, err := s.consumed()
	if err == nil && !slices.Equal(consumed, s.Consumed) {
		err = fmt.Errorf("%w: the amounts are not what was consumed in between", proof.ErrProof)
	}
	return checkpoint, err
}

func (s *Statement) consumed() ([]proof.ClassConsumed, error) {
	var earlier *proof.Consumption
	if s.Begin != nil {
		earlier = s.Begin.Consumption
	}
	nothing := &proof.Consumption{Project: s.Project, Classes: []proof.ClassConsumed{}}
	return cmp.Or(s.End.Consumption, nothing).Since(cmp.Or(earlier, nothing))
}

func (p *ProvenConsumption) check(trust proof.Trust, project string, at time.Time) (*proof.Checkpoint, error) {
	_, checkpoint, err := p.Record.Check(trust)
	if err != nil {
		return nil, err
	}
	root, err := rootIn(p.Record.Leaf)
	if err != nil {
		return nil, err
	}
	if root.At != at.UnixNano() {
		return nil, fmt.Errorf("%w: the root is of %s", proof.ErrProof, time.Unix(0, root.At).UTC().Format(time.RFC3339))
	}
	return checkpoint, proof.CheckConsumption(*root, project, p.Consumption, p.Places)
}

var errNoRoot = errors.New("the record states no root of consumption")

func rootIn(leaf []byte) (*ledger.ConsumptionRoot, error) {
	_, record, err := ledger.DecodeLeafData(leaf)
	if err != nil {
		return nil, err
	}
	for _, event := range record.Events {
		if set, is := event.(ledger.ConsumptionRootSet); is {
			return &set.ConsumptionRoot, nil
		}
	}
	return nil, fmt.Errorf("%w: %w", proof.ErrProof, errNoRoot)
}

// statement is GET /audit/proof/consumption?project=ID&from=TIME&to=TIME.
func (q *Questions) statement(ctx context.Context, p *parameters, v vouched) (any, error) {
	s := &Statement{Project: p.given["project"]}
	if s.Project == "" || p.given["to"] == "" {
		return nil, rest.BadRequest("project and to: are needed")
	}
	var err error
	if s.End, s.To, err = q.provenAt(ctx, v, p, "to"); err != nil {
		return nil, err
	}
	if p.given["from"] != "" {
		begin, from, err := q.provenAt(ctx, v, p, "from")
		if err != nil {
			return nil, err
		}
		if s.Begin, s.From = begin, &from; !from.Before(s.To) {
			return nil, rest.BadRequest("to: %s is not after from", p.given["to"])
		}
	}
	s.Consumed, err = s.consumed()
	return s, err
}

func (q *Questions) provenAt(
	ctx context.Context, v vouched, p *parameters, name string,
) (*ProvenConsumption, time.Time, error) {
	at := p.moment(name)
	if p.fault != nil {
		return nil, at, p.fault
	}
	where, found, err := v.ConsumptionRecord(at.UnixNano())
	if err != nil {
		return nil, at, err
	}
	if !found {
		return nil, at, noRoot(v.View, name, p.given[name])
	}
	record, err := q.include(ctx, v, where)
	if err != nil {
		return nil, at, err
	}
	moment, err := q.Views.MomentAt(at, at)
	if err != nil && !errors.Is(err, projector.ErrBeforeFirst) {
		return nil, at, err
	}
	tree, consumed, err := v.ConsumptionTree(moment, p.given["project"])
	if err != nil {
		return nil, at, err
	}
	places, err := tree.Prove(p.given["project"])
	return &ProvenConsumption{Consumption: consumed, Places: places, Record: *record}, at.UTC(), err
}

func noRoot(view projector.View, name, at string) error {
	first, newest, err := view.ConsumptionRoots()
	switch {
	case err != nil:
		return err
	case first == 0:
		return rest.NotFound("%s: the ledger is committed to no consumption yet: a server with --signing-key does it "+
			"at each whole hour", name)
	}
	hour := func(at int64) string { return time.Unix(0, at).UTC().Format(time.RFC3339) }
	return rest.NotFound("%s: the ledger is not committed to what was consumed up to %s: it is at whole hours from %s to %s",
		name, at, hour(first), hour(newest))
}
