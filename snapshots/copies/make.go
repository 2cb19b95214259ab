package copies

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/archive/bucket"
	"github.com/allot-project/allot/projector"
	"github.com/allot-project/allot/snapshots"
)

// Maker makes copies of State and read models.
type Maker struct {
	Views *projector.Projector
	// ReadModels is the folder of the read models, in which copies are made.
	ReadModels string
	Snapshots  *snapshots.Store
	// Fork gives a State that is not behind the newest snapshot; nil: a snapshot
	// must do, whatever its age.
	Fork func(context.Context) (*ledger.State, error)
	// Unfit says why no copy may be made now, such as a full disk; or nil.
	Unfit func() error
}

// fit says why no copy can be made now.
func (k *Maker) fit() error {
	if err := k.Views.Ready(); err != nil {
		return err
	}
	if k.Views.Checkpoint().Sequence == 0 {
		return errors.New("no read models to copy yet")
	}
	if k.Unfit != nil {
		return k.Unfit()
	}
	return nil
}

// offer is what a copy would be that is made now.
func (k *Maker) offer() offer {
	return offer{ownForm(), k.Views.Position(), int64(k.Views.StoreStats().DiskBytes)}
}

// modelsName is the folder of the read models in one with a copy.
const modelsName = "models"

// nearEnough is about how many records a snapshot may be older than the read
// models: to replay them into a State takes less than to write another one.
const nearEnough = 100_000

// write writes a copy into a folder: the State first, so that the read models
// are not behind it. It returns the path of each file, too.
func (k *Maker) write(ctx context.Context, dir string) (m manifest, paths map[ledger.Digest]string, err error) {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return m, nil, err
	}
	state, models := filepath.Join(dir, string(stateName)), filepath.Join(dir, modelsName)
	m.Form = ownForm()
	if m.State, err = k.writeState(ctx, state); err != nil {
		return m, nil, err
	}
	if m.Models, err = k.Views.Copy(models); err != nil {
		return m, nil, err
	}
	entries, err := os.ReadDir(models)
	if err != nil {
		return m, nil, err
	}
	all := []string{state}
	for _, entry := range entries {
		all = append(all, filepath.Join(models, entry.Name()))
	}
	paths = make(map[ledger.Digest]string)
	for _, path := range all {
		one, err := describe(ctx, path)
		if err != nil {
			return m, nil, err
		}
		m.Files, paths[one.Sum] = append(m.Files, one), path
	}
	return m, paths, nil
}

// writeState takes the newest snapshot, or writes one if that is old.
func (k *Maker) writeState(ctx context.Context, path string) (ledger.Head, error) {
	now := k.Views.Position()
	head, found, err := k.Snapshots.Link(path) // it fails if the snapshots have a disk of their own
	near := k.Fork == nil || missing(head.Sequence, now) <= nearEnough
	if err == nil && found && head.Sequence <= now.Head.Sequence && near {
		return head, nil
	}
	if err := os.RemoveAll(path); err != nil {
		return head, err
	}
	state, err := k.state(ctx, now.Head.Sequence)
	if err != nil {
		return head, err
	}
	// The State may be a moment ahead of the read models.
	for {
		changed := k.Views.Changed()
		if k.Views.Checkpoint().Sequence >= state.Head().Sequence {
			break
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return head, ctx.Err()
		}
	}
	return state.Head(), snapshots.Write(path, state)
}

// errNoSnapshot means that there is no State yet that a copy could have.
var errNoSnapshot = errors.New("copies: there is no snapshot yet")

func (k *Maker) state(ctx context.Context, reached uint64) (*ledger.State, error) {
	if k.Fork != nil {
		return k.Fork(ctx)
	}
	state, found, err := k.Snapshots.Load(reached)
	if err == nil && !found {
		err = errNoSnapshot
	}
	return state, err
}

// missing is about how many records there are after a sequence.
func missing(sequence uint64, now projector.Position) float64 {
	return float64(now.Records) * float64(now.Head.Sequence-sequence) / float64(now.Head.Sequence)
}

func describe(ctx context.Context, path string) (one file, err error) {
	if err := one.Name.UnmarshalText([]byte(filepath.Base(path))); err != nil {
		return one, fmt.Errorf("copies: %w", err)
	}
	in, err := os.Open(path)
	if err != nil {
		return one, err
	}
	defer func() { _ = in.Close() }() // nothing was written
	sum := sha256.New()
	one.Size, err = io.Copy(sum, &bucket.Interruptible{Context: ctx, In: in})
	one.Sum = ledger.Digest(sum.Sum(nil))
	return one, err
}
