package server

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/mod/sumdb/note"

	"github.com/allot-project/allot/api/present"
	"github.com/allot-project/allot/cmd/internal/cli"
	"github.com/allot-project/allot/cmd/internal/datafolder"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/blocks"
	"github.com/allot-project/allot/ledger/durable"
	"github.com/allot-project/allot/ledger/proof"
	"github.com/allot-project/allot/ledger/witness"
	"github.com/allot-project/allot/projector"
	"github.com/allot-project/allot/snapshots"
	"github.com/allot-project/allot/snapshots/copies"
)

type notaryPart struct {
	*server

	*present.Notary
	vouchers *proof.Folder // nil: there is no key
}

func (p *notaryPart) start(context.Context) error {
	signer, err := cli.LoadSigner(p.config.SigningKey)
	p.Notary = &present.Notary{Key: signer}
	if err != nil || signer == nil {
		return err
	}
	if p.vouchers, err = proof.OpenFolder(p.data.Path(datafolder.Checkpoints)); err != nil || len(p.config.Witness) == 0 {
		return err
	}
	return p.openWitnesses()
}

// witnesses reads who cosigns checkpoints.
func (c *Command) witnesses() (cfg witness.Config, err error) {
	if len(c.Witness) == 0 {
		return cfg, nil
	}
	if c.SigningKey == "" {
		return cfg, errors.New("--witness needs --signing-key: witnesses cosign what is signed")
	}
	for _, text := range c.Witness {
		one, err := witness.Parse(text)
		if err != nil {
			return cfg, fmt.Errorf("--witness: %w", err)
		}
		cfg.Witnesses = append(cfg.Witnesses, one)
	}
	cfg.Quorum = proof.Majority(len(cfg.Witnesses))
	if err := cfg.Check(); err != nil {
		return cfg, fmt.Errorf("--witness: %w", err)
	}
	return cfg, nil
}

// witnessPatience is how long a witness may take to cosign a checkpoint.
const witnessPatience = 5 * time.Second

func (p *notaryPart) openWitnesses() error {
	cfg, err := p.config.witnesses()
	if err != nil {
		return err
	}
	operator, err := cli.VerifierOf(p.config.SigningKey)
	if err != nil {
		return err
	}
	cfg.Operator, cfg.Folder = note.VerifierList(operator), p.data.Path(datafolder.Checkpoints)
	cfg.Patience, cfg.Logger = witnessPatience, p.logger
	p.Witnesses, err = witness.Open(cfg)
	return err
}

func (p *notaryPart) stop() {
	if p.Witnesses != nil {
		p.Witnesses.Close()
	}
}

// save signs the present log, and stores the signed checkpoint. It has witnesses cosign it, too.
func (p *notaryPart) save() {
	p.saveAlone()
	if p.Witnesses == nil || p.views.View().Sequence() == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), signTime)
	defer cancel()
	if _, _, err := p.Newest(ctx, p.views.Projector); err != nil {
		p.logger.Warn("the newest checkpoint is not cosigned", "error", err)
	}
}

func (p *notaryPart) saveAlone() {
	view := p.views.View()
	if p.vouchers == nil || view.Sequence() == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), signTime)
	defer cancel()
	signed, err := p.Checkpoint(ctx, view)
	if err == nil {
		err = p.vouchers.Save(view.Sequence(), signed)
	}
	if err != nil {
		p.logger.Error("checkpoint not signed", "error", err)
	}
}

// signTime bounds how long the log may take to answer with the last records of a
// checkpoint, if more have come meanwhile.
const signTime = 10 * time.Second

// signStart stores a signed checkpoint of the log that the server has found.
func (p *notaryPart) signStart(context.Context) error {
	p.saveAlone() // If it cannot be stored, the failure is logged, and the next checkpoint may succeed.
	return nil
}

// errOtherBegan: two servers were to begin the log at the same time.
var errOtherBegan = errors.New("another server has begun the ledger meanwhile; nothing is lost: start this one again, and it joins")

// sameLedger fails if another server has begun another ledger in the log that this one was to begin.
func (p *notaryPart) sameLedger(state *ledger.State) error {
	if id := state.LedgerID(); !id.IsNil() && id != p.Ledger {
		return fmt.Errorf("%w: it is %s", errOtherBegan, id)
	}
	return nil
}

// otherBegan is sameLedger for a commit in which a ledger may begin.
func (p *notaryPart) otherBegan(commit *ledger.Commit) error {
	for _, record := range commit.Records {
		for _, event := range record.Events {
			if begun, is := event.(ledger.LedgerCreated); is && begun.Ledger != p.Ledger {
				return fmt.Errorf("%w: it is %s", errOtherBegan, begun.Ledger)
			}
		}
	}
	return nil
}

type viewsPart struct {
	*server

	*projector.Projector
}

func (p *viewsPart) start(context.Context) (err error) {
	p.Projector, err = projector.Open(p.data.Path(datafolder.ReadModels), p.logger)
	return err
}

// highWaterPart is the head of the newest commit, kept beside the log.
type highWaterPart struct {
	*server

	*blocks.HighWater
}

func (p *highWaterPart) start(context.Context) (err error) {
	if err := durable.SyncFolder(p.data.Dir); err != nil { // the names of what the parts before have made
		return err
	}
	p.HighWater, err = p.data.Files().OpenHighWater(p.config.Cluster.on())
	return err
}

// seen is what is known of the log besides what read models and snapshots know.
func (p *highWaterPart) seen() ([]ledger.Head, error) {
	signed, err := p.data.Signed()
	if err != nil {
		return nil, err
	}
	seen := []ledger.Head{p.Head()}
	for _, one := range signed {
		seen = append(seen, one.Head)
	}
	return seen, nil
}

type snapshotsPart struct {
	*server

	*snapshots.Store
	due *snapshots.Schedule
}

func (p *snapshotsPart) start(context.Context) (err error) {
	p.due = snapshots.NewSchedule(snapshots.ScheduleOptions{
		Save: p.save, Records: p.paces.SnapshotRecords, Age: p.paces.SnapshotAge,
	})
	if p.Store, err = snapshots.Open(p.data.Path(datafolder.Snapshots), p.logger); err == nil {
		p.KeepFor(p.durableModels)
	}
	return err
}

// durableModels returns the sequence that the read models have reached, whatever ends this server.
func (p *snapshotsPart) durableModels() (uint64, error) {
	reached := p.views.Checkpoint().Sequence
	return reached, p.views.Sync()
}

// leave saves the State at the end, unless there is a snapshot of it, so that the next start replays nothing.
func (p *snapshotsPart) leave(state *ledger.State) {
	p.due.Wait()
	if state == nil || state.Head().Sequence == 0 {
		return // unknown, or not begun
	}
	heads, err := p.Heads()
	if err == nil && (len(heads) == 0 || heads[0].Sequence < state.Head().Sequence) {
		err = p.Save(state)
	}
	if err != nil {
		p.logger.Error("no snapshot is left at the end: the next start replays more of the log", "error", err)
	}
}

func (p *snapshotsPart) save(state *ledger.State) {
	if err := p.Save(state); err != nil {
		p.logger.Error("snapshot not written", "error", err)
	}
	p.notary.save()
}

func (p *snapshotsPart) maker(unfit func() error) copies.Maker {
	return copies.Maker{
		Views: p.views.Projector, ReadModels: p.data.Path(datafolder.ReadModels), Snapshots: p.Store, Unfit: unfit,
	}
}
