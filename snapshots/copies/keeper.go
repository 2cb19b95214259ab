package copies

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/archive/bucket"
	"github.com/allot-project/allot/ledger/background"
)

// keptStored is how many copies stay that the archive's parts reach: the newest
// one, and another one should that be damaged.
const keptStored = 2

// Target is a store that gets copies.
type Target struct {
	Store bucket.Store
	// Reached returns how far the log is in the archive there: copies that are
	// newer cannot be used with the archive alone yet.
	Reached func() uint64
}

// Pace holds up the sender, so that others come through.
type Pace interface {
	WaitN(ctx context.Context, n int) error
}

// pacedBytes is how many bytes a Pace is asked for at once.
const pacedBytes = 512 << 10

// KeeperConfig is what a Keeper needs.
type KeeperConfig struct {
	Maker
	Targets []Target
	// Records is after how many records another copy is due.
	Records int64
	// Pace must let pacedBytes through at once; nil: as fast as it goes.
	Pace Pace
	// Sign signs a manifest; nil: there is no key.
	Sign   func(text []byte) ([]byte, error)
	Every  time.Duration // how often it is looked whether a copy is due
	Logger *slog.Logger
}

// Keeper stores copies of State and read models in archives now and then, for
// servers that lack them.
type Keeper struct {
	cfg     KeeperConfig
	workers []*background.Worker // one a store

	making sync.Mutex    // held while a copy is made and stored
	last   []ledger.Head // of the newest copy in each store; guarded by making

	mu     sync.Mutex
	status KeeperStatus // guarded by mu
}

// KeeperStatus is what a Keeper has done since it began.
type KeeperStatus struct {
	Stored   uint64      // copies
	Bytes    int64       // that were written for them
	Failures uint64      // of stores, one after another
	Last     ledger.Head // of a copy that is not newer than the newest of each store
}

// folder is where copies are made. That for other replicas is another one.
func (k *Keeper) folder() string { return filepath.Join(k.cfg.ReadModels, "storing") }

// Keep begins, and removes what a former process left.
func Keep(cfg KeeperConfig) (*Keeper, error) {
	k := &Keeper{cfg: cfg, last: make([]ledger.Head, len(cfg.Targets))}
	if err := os.RemoveAll(k.folder()); err != nil {
		return nil, fmt.Errorf("copies: %w", err)
	}
	for i, target := range cfg.Targets {
		k.workers = append(k.workers, background.Start(background.Work{
			Do:    func(ctx context.Context) error { return k.look(ctx, i) },
			Every: cfg.Every, FirstPause: cfg.Every, LongestPause: max(longestPause, cfg.Every),
			Failed: func(err error, again time.Duration) {
				cfg.Logger.Warn("no copy of State and read models is stored now; it is tried again", "archive", target.Store.String(),
					"error", err, "again_in", again)
			},
		}))
	}
	return k, nil
}

// longestPause is the longest pause after failures.
const longestPause = 10 * time.Minute

// Stop ends it. A second time it does nothing.
func (k *Keeper) Stop() error {
	background.Stop(k.workers...)
	return os.RemoveAll(k.folder())
}

// Status says what it has done.
func (k *Keeper) Status() KeeperStatus {
	k.mu.Lock()
	status := k.status
	k.mu.Unlock()
	for _, w := range k.workers {
		failures, _ := w.Failures()
		status.Failures += failures
	}
	return status
}

// look stores a copy where one is due.
func (k *Keeper) look(ctx context.Context, i int) error {
	k.making.Lock()
	defer k.making.Unlock()
	due, err := k.due(ctx, i)
	if err == nil && due {
		err = errors.Join(k.store(ctx, i), os.RemoveAll(k.folder()))
	}
	if errors.Is(err, errNoSnapshot) {
		return nil
	}
	return err
}

// due reports whether a store needs a copy. The store is asked once, unless it
// fails: no other server writes copies while this one leads.
func (k *Keeper) due(ctx context.Context, i int) (bool, error) {
	now := k.cfg.Views.Position()
	lacks := func() bool {
		at := k.last[i].Sequence
		return now.Head.Sequence > at && missing(at, now) >= float64(k.cfg.Records)
	}
	if !lacks() || k.last[i].Sequence > 0 {
		return lacks(), nil
	}
	list, err := listStored(ctx, k.cfg.Targets[i].Store)
	if err != nil {
		return false, err
	}
	for _, one := range list {
		if one.models.Sequence <= now.Head.Sequence {
			k.last[i] = one.models
			break
		}
	}
	return lacks(), nil
}

// store makes a copy, and puts it into a store.
func (k *Keeper) store(ctx context.Context, i int) error {
	began, target := time.Now(), k.cfg.Targets[i]
	if err := errors.Join(k.cfg.fit(), os.RemoveAll(k.folder())); err != nil {
		return err
	}
	m, paths, err := k.cfg.write(ctx, k.folder())
	if err != nil {
		return err
	}
	written, err := k.put(ctx, target.Store, m, paths)
	if err != nil {
		return err
	}
	if err := k.prune(ctx, target); err != nil && ctx.Err() == nil {
		k.cfg.Logger.Info("old copies stay in the archive: they were not removed", "archive", target.Store.String(), "because", err)
	}
	k.stored(i, m, written)
	k.cfg.Logger.Info("State and read models are stored in an archive", "archive", target.Store.String(), "state", m.State.Sequence,
		"read_models", m.Models.Head.Sequence, "bytes", m.bytes(), "written", written, "took", time.Since(began))
	return nil
}

func (k *Keeper) stored(i int, m manifest, written int64) {
	k.last[i] = m.Models.Head
	k.mu.Lock()
	defer k.mu.Unlock()
	k.status.Stored++
	k.status.Bytes += written
	k.status.Last = slices.MinFunc(k.last, func(a, b ledger.Head) int { return cmp.Compare(a.Sequence, b.Sequence) })
}

// put writes the files of a copy that a store lacks, and its manifest at the end.
// Whatever is written is read back.
func (k *Keeper) put(
	ctx context.Context, store bucket.Store, m manifest, paths map[ledger.Digest]string,
) (written int64, err error) {
	there := make(map[string]int64)
	err = store.List(ctx, storedFiles, func(o bucket.Object) error { there[o.Name] = o.Size; return nil })
	if err != nil {
		return 0, err
	}
	for _, one := range m.Files {
		name := storedFiles + one.Sum.String()
		if size, found := there[name]; found && size == one.Size {
			continue
		}
		if err := k.putFile(ctx, store, name, one, paths[one.Sum]); err != nil {
			return written, err
		}
		there[name] = one.Size
		written += one.Size
	}
	path := filepath.Join(k.folder(), "manifest")
	if err := k.writeManifest(path, m); err != nil {
		return written, err
	}
	one, err := describe(ctx, path)
	if err != nil {
		return written, err
	}
	return written + one.Size, k.putFile(ctx, store, storedName{m.Models.Head, one.Sum}.String(), one, path)
}

func (k *Keeper) writeManifest(path string, m manifest) error {
	text, err := ledger.PlainJSON(m)
	if err != nil {
		return err
	}
	text = append([]byte(storedTitle), append(bytes.TrimSpace(text), '\n')...)
	if k.cfg.Sign != nil {
		if text, err = k.cfg.Sign(text); err != nil {
			return err
		}
	}
	return os.WriteFile(path, text, 0o600)
}

// putFile writes an object, and reads it back.
func (k *Keeper) putFile(ctx context.Context, store bucket.Store, name string, one file, path string) error {
	in, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }() // nothing was written
	for left := one.Size; left > 0 && k.cfg.Pace != nil; left -= pacedBytes {
		if err := k.cfg.Pace.WaitN(ctx, int(min(left, pacedBytes))); err != nil {
			return err
		}
	}
	if err := store.Create(ctx, name, in, one.Size); err != nil && !errors.Is(err, bucket.ErrExists) {
		return err
	}
	body, err := store.Open(ctx, name)
	if err != nil {
		return err
	}
	return errors.Join(compareCopy(ctx, io.Discard, body, one), body.Close())
}

// prune removes copies that newer ones have replaced, and files that no copy
// lists any more. It removes nothing unless it can read what stays.
func (k *Keeper) prune(ctx context.Context, target Target) error {
	list, err := listStored(ctx, target.Store)
	if err != nil {
		return err
	}
	reached, good := target.Reached(), 0
	listed := make(map[string]bool)
	var old []storedName
	for _, name := range list {
		if good >= keptStored {
			old = append(old, name)
			continue
		}
		m, err := (&storedCopy{store: target.Store, name: name}).manifest(ctx)
		if err != nil {
			return err
		}
		if name.models.Sequence <= reached {
			good++
		}
		for _, one := range m.Files {
			listed[storedFiles+one.Sum.String()] = true
		}
	}
	if len(old) == 0 {
		return nil
	}
	for _, name := range old { // first the manifests, so that none lists what is not there
		if err := target.Store.Remove(ctx, name.String()); err != nil {
			return err
		}
	}
	var unlisted []string
	err = target.Store.List(ctx, storedFiles, func(o bucket.Object) error {
		if !listed[o.Name] {
			unlisted = append(unlisted, o.Name)
		}
		return nil
	})
	for _, name := range unlisted {
		err = cmp.Or(err, target.Store.Remove(ctx, name))
	}
	return err
}
