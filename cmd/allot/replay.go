package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/projector"
	"github.com/allot-project/allot/snapshots"
)

// replayCommand is "allot replay": everything again, from the log alone.
type replayCommand struct {
	sourceFlags `embed:""`
	serverFlags `embed:"" prefix:"server-"`
	To          uint64 `help:"Last sequence; 0: the last one there is." default:"0"`
	Into        string `help:"Folder for the read models and a snapshot, which must not exist; without it they are thrown away." type:"path" placeholder:"DIR"`
	Compare     bool   `help:"Compare with the server at --server-http: both must be at the same sequence."`
}

// Run replays, and says what came of it.
func (c *replayCommand) Run(ctx context.Context) (err error) {
	log, closeLog, err := c.open(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeLog()) }()
	if c.To == 0 {
		if c.To, err = log.Last(ctx); err != nil {
			return err
		}
	}
	dir := c.Into
	if dir == "" {
		if dir, err = os.MkdirTemp("", "allot-replay-"); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	} else if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("%s exists", dir)
	}
	result, err := replayInto(ctx, log, c.To, dir)
	if err != nil {
		return err
	}
	fmt.Printf("commits      %d\nrecords      %d, %.0f a second\nhead         %s\nstate        %s\nread models  %s\n",
		result.Sequence, result.records, float64(result.records)/result.took.Seconds(), result.Digest, result.State, result.ReadModels)
	if c.Compare {
		return c.compare(ctx, result)
	}
	return nil
}

// replayed is what a replay comes to.
type replayed struct {
	audited
	records int
	took    time.Duration
}

// audited are the digests of a ledger at a sequence, as GET /audit/digest
// answers them.
type audited struct {
	ledger.Head
	State      ledger.Digest `json:"-"`
	ReadModels ledger.Digest `json:"read_models"`
}

// replayInto makes read models and a snapshot from a log's commits up to one.
func replayInto(ctx context.Context, log ledger.Log, to uint64, dir string) (result *replayed, err error) {
	quiet := slog.New(slog.DiscardHandler)
	views, err := projector.Open(filepath.Join(dir, "readmodel"), quiet)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, views.Close()) }()
	show, end := progressBar("replaying")
	defer end()
	state := ledger.NewState()
	result = &replayed{}
	begun := time.Now()
	err = ledger.ReadCommits(ctx, log, ledger.Head{}, to, func(commit *ledger.Commit) error {
		changes, err := state.Fold(commit)
		if err != nil {
			return &ledger.BadEntryError{Sequence: commit.Sequence, Err: err}
		}
		result.records += len(commit.Records)
		show(commit.Sequence, to)
		return views.Fold(commit, changes)
	})
	if err != nil {
		return nil, err
	}
	result.took, result.Head = time.Since(begun), state.Head()
	if result.State, err = state.Digest(); err != nil {
		return nil, err
	}
	if result.ReadModels, err = views.Digest(); err != nil {
		return nil, err
	}
	snaps, err := snapshots.Open(filepath.Join(dir, "snapshots"), quiet)
	if err != nil {
		return nil, err
	}
	return result, snaps.Save(state)
}

// compare asks the server for its digests.
func (c *replayCommand) compare(ctx context.Context, mine *replayed) error {
	resp, err := c.get(ctx, "/audit/digest", nil)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }() // nothing was written
	var theirs audited
	if err := json.NewDecoder(resp.Body).Decode(&theirs); err != nil {
		return fmt.Errorf("the server sent something else than digests: %w", err)
	}
	switch {
	case theirs.Sequence != mine.Sequence:
		return fmt.Errorf("the server is at sequence %d, the replay at %d: compare again while nothing is written", theirs.Sequence, mine.Sequence)
	case theirs.Head != mine.Head:
		return fmt.Errorf("the server has another commit %d: its digest is %s", theirs.Sequence, theirs.Digest)
	case theirs.ReadModels != mine.ReadModels:
		return fmt.Errorf("the server's read models differ: their digest is %s", theirs.ReadModels)
	}
	fmt.Println("the server has the same")
	return nil
}

// verifyCommand is "allot verify": the log, and whatever else there is in a
// data folder, checked against the log.
type verifyCommand struct {
	sourceFlags `embed:""`
}

// Run replays the log, and compares snapshots and read models on the way.
func (c *verifyCommand) Run(ctx context.Context) (err error) {
	log, closeLog, err := c.open(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeLog()) }()
	last, err := log.Last(ctx)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "allot-verify-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	result, err := replayInto(ctx, log, last, dir)
	if err != nil {
		return fmt.Errorf("the log is not good: %w", err)
	}
	fmt.Printf("log          good: %d commits, %d records, digest %s\n", result.Sequence, result.records, result.Digest)
	if c.Data == "" {
		return nil
	}
	return errors.Join(c.snapshots(ctx, log), c.readModels(ctx, log, result))
}

// snapshots compares every snapshot of the folder with the State that the log
// gives.
func (c *verifyCommand) snapshots(ctx context.Context, log ledger.Log) error {
	folder := filepath.Join(c.Data, "snapshots")
	if _, err := os.Stat(folder); errors.Is(err, os.ErrNotExist) {
		fmt.Println("snapshots    none")
		return nil
	}
	paths, err := filepath.Glob(filepath.Join(folder, "*"))
	if err != nil {
		return err
	}
	var failures []error
	good := 0
	for _, path := range paths {
		stored, err := snapshots.Read(path)
		if err == nil {
			err = matches(ctx, log, stored)
		}
		if err != nil {
			failures = append(failures, fmt.Errorf("snapshot %s is not good: %w", path, err))
			continue
		}
		good++
	}
	fmt.Printf("snapshots    %d of %d good\n", good, len(paths))
	return errors.Join(failures...)
}

// matches replays a log up to a State's head and compares.
func matches(ctx context.Context, log ledger.Log, stored *ledger.State) error {
	last, err := log.Last(ctx)
	if err != nil {
		return err
	}
	if stored.Head().Sequence > last {
		return fmt.Errorf("%w: it is of sequence %d, and the log ends at %d", ledger.ErrLogBehind, stored.Head().Sequence, last)
	}
	state := ledger.NewState()
	err = ledger.ReadCommits(ctx, log, ledger.Head{}, stored.Head().Sequence, func(commit *ledger.Commit) error {
		_, err := state.Fold(commit)
		return err
	})
	if err != nil {
		return err
	}
	want, err := state.Digest()
	if err != nil {
		return err
	}
	got, err := stored.Digest()
	if err == nil && got != want {
		err = fmt.Errorf("of sequence %d it has digest %s, and the log gives %s", stored.Head().Sequence, got, want)
	}
	return err
}

// readModels compares the folder's read models with new ones, as of where
// they are: a server that was killed has not synced its last ones.
func (c *verifyCommand) readModels(ctx context.Context, log ledger.Log, want *replayed) (err error) {
	folder := filepath.Join(c.Data, "readmodel")
	if _, err := os.Stat(folder); errors.Is(err, os.ErrNotExist) {
		fmt.Println("read models  none")
		return nil
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("the read models are not good: %w", err)
		}
	}()
	head, got, err := projector.Inspect(folder)
	if err != nil {
		return err
	}
	if head.Sequence > want.Sequence {
		return fmt.Errorf("%w: they are at sequence %d, and the log ends at %d", ledger.ErrLogBehind, head.Sequence, want.Sequence)
	}
	if head.Sequence < want.Sequence {
		dir, err := os.MkdirTemp("", "allot-verify-")
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
		if want, err = replayInto(ctx, log, head.Sequence, dir); err != nil {
			return err
		}
	}
	if head != want.Head || got != want.ReadModels {
		return fmt.Errorf("at sequence %d their digest is %s, and the log gives %s", head.Sequence, got, want.ReadModels)
	}
	fmt.Printf("read models  good at sequence %d: digest %s\n", head.Sequence, got)
	return nil
}
