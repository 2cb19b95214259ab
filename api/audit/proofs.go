package audit

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"time"

	"github.com/allot-project/allot/api/present"
	"github.com/allot-project/allot/api/rest"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/proof"
	"github.com/allot-project/allot/ledger/witness"
	"github.com/allot-project/allot/projector"
)

// Inclusion is evidence that a record is in the log. The operator's public key, and those of
// witnesses, suffice to check it, without the log.
type Inclusion struct {
	Number     int64           `json:"number"`     // number of the record in the log, from 0
	Leaf       []byte          `json:"leaf"`       // ledger.LeafData of the record
	Path       []ledger.Digest `json:"path"`       // the sibling hashes on its path to the root
	Checkpoint string          `json:"checkpoint"` // a signed checkpoint
}

// Check checks the evidence, and returns its record.
func (i *Inclusion) Check(trust proof.Trust) (*Line, *proof.Checkpoint, error) {
	checkpoint, err := trust.Open([]byte(i.Checkpoint))
	if err != nil {
		return nil, nil, err
	}
	at, record, err := ledger.DecodeLeafData(i.Leaf)
	if err != nil {
		return nil, nil, err
	}
	if err := proof.CheckInclusion(i.Path, checkpoint, i.Number, ledger.LeafHash(i.Leaf)); err != nil {
		return nil, nil, err
	}
	line := LineOf(at, record)
	return &line, checkpoint, nil
}

// Growth proves that the log of a checkpoint holds everything of an earlier
// checkpoint's log.
type Growth struct {
	From       int64           `json:"from"` // number of records of the earlier log
	Path       []ledger.Digest `json:"path"`
	Checkpoint string          `json:"checkpoint"` // the later checkpoint, signed
}

// Check checks the evidence against the earlier checkpoint, which the auditor has
// kept, and returns the later one.
func (g *Growth) Check(trust proof.Trust, earlier *proof.Checkpoint) (*proof.Checkpoint, error) {
	later, err := trust.Open([]byte(g.Checkpoint))
	if err != nil {
		return nil, err
	}
	if g.From != earlier.Size {
		return nil, fmt.Errorf(
			"%w: it is about a log of %d records, but the checkpoint about one of %d", proof.ErrProof, g.From, earlier.Size,
		)
	}
	return later, proof.CheckGrowth(g.Path, earlier, later)
}

// ReadEvidence reads an Inclusion or a Growth. The JSON must be as it was
// answered, except for whitespace. Unknown or repeated fields and trailing text
// are refused, because other readers could read something else in them.
func ReadEvidence(text []byte, evidence any) error {
	if err := strict(text, evidence); err != nil {
		return fmt.Errorf("%w: %w", ErrEvidence, err)
	}
	again, err := ledger.PlainJSON(evidence)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrEvidence, err)
	}
	var given bytes.Buffer
	if err := json.Compact(&given, text); err != nil {
		return fmt.Errorf("%w: %w", ErrEvidence, err)
	}
	if !bytes.Equal(given.Bytes(), again) {
		return fmt.Errorf(
			"%w: it differs from the server's answer: a field is missing, repeated or written in another way", ErrEvidence,
		)
	}
	return nil
}

// ErrEvidence means that a text cannot be read as evidence.
var ErrEvidence = errors.New("audit: not evidence")

// vouched is what evidence is about: a moment, and its signed checkpoint.
type vouched struct {
	projector.View
	signed []byte
}

// proven answers with evidence. Without a moment it is that of now, for which witnesses may
// have to be asked: they are waited for without a place.
type proven struct {
	take place
	of   func(q *Questions, ctx context.Context, p *parameters, v vouched) (any, error)
}

func (f proven) serve(q *Questions, w http.ResponseWriter, r *http.Request, one *question) error {
	p, err := parse(r, one.parameters)
	if err != nil {
		return err
	}
	var v vouched
	if p.given["at"] == "" {
		if v, err = q.vouchedNow(r.Context()); err != nil {
			return err
		}
	}
	return asked(func(q *Questions, ctx context.Context, p *parameters) (any, error) {
		if p.given["at"] != "" {
			if v, err = q.vouchedThen(ctx, p); err != nil {
				return nil, err
			}
		}
		return f.of(q, ctx, p, v)
	}).answer(q, w, r, one, f.take)
}

func (q *Questions) vouchedNow(ctx context.Context) (v vouched, err error) {
	if q.Views.View().Sequence() == 0 {
		return v, errNoRecord
	}
	v.signed, v.View, err = q.Notary.Newest(ctx, q.Views)
	if errors.Is(err, witness.ErrQuorum) {
		return v, rest.TryAgain("%v", err)
	}
	return v, unsigned(err)
}

// vouchedThen has the operator's signature alone.
func (q *Questions) vouchedThen(ctx context.Context, p *parameters) (v vouched, err error) {
	if v.View, err = q.view(p); err != nil {
		return v, err
	}
	if v.Sequence() == 0 {
		return v, errNoRecord
	}
	v.signed, err = q.Notary.Checkpoint(ctx, v.View)
	return v, unsigned(err)
}

var errNoRecord = rest.BadRequest("there is no record yet")

// unsigned says that a server without a key has no checkpoints.
func unsigned(err error) error {
	if errors.Is(err, present.ErrNoKey) {
		return rest.NotFound("%v", err)
	}
	return err
}

func (*Questions) checkpoint(_ context.Context, _ *parameters, v vouched) (any, error) {
	return plain(v.signed), nil
}

// inclusion is GET /audit/proof/record?record=SEQUENCE.INDEX.
func (q *Questions) inclusion(ctx context.Context, p *parameters, v vouched) (any, error) {
	at := p.address("record")
	if p.fault != nil {
		return nil, p.fault
	}
	return q.include(ctx, v, at)
}

func (q *Questions) include(ctx context.Context, v vouched, at ledger.Address) (*Inclusion, error) {
	number, found, err := v.Leaf(at)
	if err != nil {
		return nil, err
	}
	if !found {
		return nil, rest.NotFound("there is no record %s up to sequence %d", at, v.Sequence())
	}
	evidence := &Inclusion{Number: number, Checkpoint: string(v.signed)}
	err = v.EachLeaf(ctx, q.Log, number, 1, func(data []byte) error {
		evidence.Leaf = data
		return nil
	})
	if err != nil {
		return nil, err
	}
	evidence.Path, err = v.ProveInclusion(ctx, q.Log, number)
	return evidence, err
}

// growth is GET /audit/proof/growth?from=RECORDS.
func (q *Questions) growth(ctx context.Context, p *parameters, v vouched) (any, error) {
	from := number[int64](p, "from", 1, math.MaxInt64, 0)
	if p.fault != nil {
		return nil, p.fault
	}
	size, err := v.Records()
	if err != nil {
		return nil, err
	}
	if from > size {
		return nil, rest.BadRequest("from: the log had %d records, not %d", size, from)
	}
	growth := &Growth{From: from, Checkpoint: string(v.signed)}
	growth.Path, err = v.ProveGrowth(ctx, q.Log, from)
	return growth, err
}

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
	if !time.Unix(0, root.At).Equal(at) {
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
	if err != nil {
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
