package audit

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"

	"golang.org/x/mod/sumdb/note"

	"github.com/allot-project/allot/api/present"
	"github.com/allot-project/allot/api/rest"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/proof"
	"github.com/allot-project/allot/projector"
)

// Inclusion is evidence that a record is in the log. The operator's public key
// suffices to check it, without the log.
type Inclusion struct {
	Number     int64           `json:"number"`     // number of the record in the log, from 0
	Leaf       []byte          `json:"leaf"`       // ledger.LeafData of the record
	Path       []ledger.Digest `json:"path"`       // the sibling hashes on its path to the root
	Checkpoint string          `json:"checkpoint"` // a signed checkpoint
}

// Check checks the evidence, and returns its record.
func (i *Inclusion) Check(keys note.Verifiers) (*Line, *proof.Checkpoint, error) {
	checkpoint, err := proof.Open([]byte(i.Checkpoint), keys)
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
func (g *Growth) Check(keys note.Verifiers, earlier *proof.Checkpoint) (*proof.Checkpoint, error) {
	later, err := proof.Open([]byte(g.Checkpoint), keys)
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
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(evidence); err != nil {
		return fmt.Errorf("%w: %w", ErrEvidence, err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: there is text after the end", ErrEvidence)
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

// proofs answers questions about what the log proves.
type proofs struct{ *Questions }

func (q proofs) sign(ctx context.Context, v projector.View) ([]byte, error) {
	if v.Sequence() == 0 {
		return nil, rest.BadRequest("there is no record yet")
	}
	signed, err := q.Notary.Checkpoint(ctx, v)
	if errors.Is(err, present.ErrNoKey) {
		return nil, rest.NotFound("%v", err)
	}
	return signed, err
}

// checkpoint is GET /audit/checkpoint.
func (q proofs) checkpoint(ctx context.Context, p parameters) (any, error) {
	view, err := q.view(p)
	if err != nil {
		return nil, err
	}
	signed, err := q.sign(ctx, view)
	return plain(signed), err
}

// inclusion is GET /audit/proof/record?record=SEQUENCE.INDEX.
func (q proofs) inclusion(ctx context.Context, p parameters) (any, error) {
	at, err := p.address("record")
	if err != nil {
		return nil, err
	}
	view, err := q.view(p)
	if err != nil {
		return nil, err
	}
	evidence, err := q.include(ctx, view, at)
	if err != nil {
		return nil, err
	}
	signed, err := q.sign(ctx, view)
	evidence.Checkpoint = string(signed)
	return evidence, err
}

// include finds the evidence that a record is in the log of a view, but for the checkpoint.
func (q proofs) include(ctx context.Context, view projector.View, at ledger.Address) (*Inclusion, error) {
	number, found, err := view.Leaf(at)
	if err != nil {
		return nil, err
	}
	if !found {
		return nil, rest.NotFound("there is no record %s up to sequence %d", at, view.Sequence())
	}
	evidence := &Inclusion{Number: number}
	err = q.Log.Read(ctx, at.Sequence, at.Sequence, func(e ledger.Entry) error {
		data, err := ledger.RecordData(e.Data, at.Index)
		evidence.Leaf = ledger.LeafData(at, data)
		return err
	})
	if err != nil {
		return nil, err
	}
	evidence.Path, err = view.ProveInclusion(ctx, q.Log, number)
	return evidence, err
}

// growth is GET /audit/proof/growth?from=RECORDS.
func (q proofs) growth(ctx context.Context, p parameters) (any, error) {
	from, err := p.number("from", 1, math.MaxInt64, 0)
	if err != nil {
		return nil, err
	}
	view, err := q.view(p)
	if err != nil {
		return nil, err
	}
	size, err := view.Records()
	if err != nil {
		return nil, err
	}
	if from > size {
		return nil, rest.BadRequest("from: the log had %d records, not %d", size, from)
	}
	growth := &Growth{From: from}
	if growth.Path, err = view.ProveGrowth(ctx, q.Log, from); err != nil {
		return nil, err
	}
	signed, err := q.sign(ctx, view)
	growth.Checkpoint = string(signed)
	return growth, err
}
