package copies

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"path/filepath"

	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/projector"
	"github.com/allot-project/allot/snapshots"
)

// maker makes copies of State and read models.
type maker struct {
	views     *projector.Projector
	snapshots *snapshots.Store
	// fork gives a State that is not behind the newest snapshot; nil: a snapshot
	// must do, whatever its age.
	fork  func(context.Context) (*ledger.State, error)
	form  form
	spoil func(*manifest) // nil: does nothing to what it says
}

// nearEnough is about how many records a snapshot may be older than the read
// models: to replay them into a State takes less than to write another one.
const nearEnough = 100_000

// write writes a copy into a folder: the State first, so that the read models
// are not behind it.
func (k *maker) write(ctx context.Context, dir string) (m manifest, paths []string, err error) {
	if err := os.MkdirAll(dir, copyMode); err != nil {
		return m, nil, err
	}
	m.Form = k.form
	if m.State, err = k.writeState(ctx, filepath.Join(dir, stateName)); err != nil {
		return m, nil, err
	}
	if m.Models, err = k.views.Copy(filepath.Join(dir, modelsName)); err != nil {
		return m, nil, err
	}
	entries, err := os.ReadDir(filepath.Join(dir, modelsName))
	if err != nil {
		return m, nil, err
	}
	names := []string{stateName}
	for _, entry := range entries {
		names = append(names, modelsName+"/"+entry.Name())
	}
	for _, name := range names {
		path := filepath.Join(dir, filepath.FromSlash(name))
		one, err := sumFile(ctx, path)
		if err != nil {
			return m, nil, err
		}
		one.Name = name
		m.Files, paths = append(m.Files, one), append(paths, path)
	}
	if k.spoil != nil {
		k.spoil(&m)
	}
	return m, paths, nil
}

// writeState takes the newest snapshot, or writes one if that is old.
func (k *maker) writeState(ctx context.Context, path string) (ledger.Head, error) {
	now := k.views.Position()
	head, found, err := k.snapshots.Link(path) // it fails if the snapshots have a disk of their own
	near := k.fork == nil || missing(head.Sequence, now) <= nearEnough
	if err == nil && found && head.Sequence <= now.Head.Sequence && near {
		return head, nil
	}
	if err := ignoreMissing(os.Remove(path)); err != nil {
		return head, err
	}
	state, err := k.state(ctx, now.Head.Sequence)
	if err != nil {
		return head, err
	}
	// The State may be a moment ahead of the read models.
	for {
		changed := k.views.Changed()
		if k.views.Checkpoint().Sequence >= state.Head().Sequence {
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

func (k *maker) state(ctx context.Context, reached uint64) (*ledger.State, error) {
	if k.fork != nil {
		return k.fork(ctx)
	}
	state, found, err := k.snapshots.Load(reached)
	if err == nil && !found {
		err = errNoSnapshot
	}
	return state, err
}

// missing is about how many records there are after a sequence.
func missing(sequence uint64, now projector.Position) float64 {
	return float64(now.Records) * float64(now.Head.Sequence-sequence) / float64(now.Head.Sequence)
}

// sumFile reads a file's size and checksum.
func sumFile(ctx context.Context, path string) (file, error) {
	in, err := os.Open(path)
	if err != nil {
		return file{}, err
	}
	defer func() { _ = in.Close() }() // nothing was written
	sum := sha256.New()
	n, err := io.Copy(sum, &stoppable{ctx, in})
	return file{Bytes: n, Sum: hex.EncodeToString(sum.Sum(nil))}, err
}

// stoppable is a reader that ends with a context.
type stoppable struct {
	ctx context.Context
	in  io.Reader
}

// Read implements io.Reader.
func (s *stoppable) Read(p []byte) (int, error) {
	if err := s.ctx.Err(); err != nil {
		return 0, err
	}
	return s.in.Read(p)
}
