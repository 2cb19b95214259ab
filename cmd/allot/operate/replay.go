package operate

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/allot-project/allot/cmd/internal/cli"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/projector/check"
	"github.com/allot-project/allot/snapshots"
)

// Replay is "allot replay": it rebuilds everything from the log alone.
type Replay struct {
	sourceFlags `embed:""`
	cli.Server  `embed:""`
	To          uint64 `help:"Last sequence; 0: the log's last." default:"0"`
	Into        string `help:"Folder for the read models and a snapshot, which must not exist; default: throw them away." type:"path" placeholder:"DIR"`
	Compare     bool   `help:"Compare with the digests that the server at --url had at that sequence."`
}

// Run replays, and prints the result.
func (c *Replay) Run(ctx context.Context) (err error) {
	log, closeLog, err := c.openTo(ctx, &c.To)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeLog()) }()
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
	fmt.Printf(
		"commits      %d\nrecords      %d, %.0f a second\nhead         %s\nstate        %s\nread models  %s\ntree         %d records, root %s\n",
		result.Sequence, result.records, float64(result.records)/result.took.Seconds(), result.Digest, result.State,
		result.ReadModels, result.records, result.Root,
	)
	if c.Compare {
		return c.compare(ctx, result)
	}
	return nil
}

type replayed struct {
	audited
	records int
	took    time.Duration
}

// audited are the digests of a ledger at a sequence, as GET /audit/digest answers them.
type audited struct {
	ledger.Head
	State      ledger.Digest `json:"-"`
	ReadModels ledger.Digest `json:"read_models"`
	Root       ledger.Digest `json:"root"`
}

// replayInto makes read models and a snapshot from a log's commits up to a sequence.
func replayInto(ctx context.Context, log ledger.Log, to uint64, dir string) (*replayed, error) {
	show, end := cli.ProgressBar("replaying")
	defer end()
	result := &replayed{}
	begun := time.Now()
	r, err := check.Replay(ctx, log, to, filepath.Join(dir, "readmodel"), show, func(r *check.Replayed) (err error) {
		if r.State.Head().Sequence < to {
			return nil
		}
		result.took = time.Since(begun)
		result.ReadModels, err = r.Views.Digest()
		return err
	})
	if err != nil {
		return nil, err
	}
	if head := r.State.Head(); head.Sequence < to {
		return nil, fmt.Errorf(
			"the log's last commit up to sequence %d is %d, and the entries after it are not this ledger's: use --to %d", to,
			head.Sequence, head.Sequence,
		)
	}
	result.records, result.Head, result.Root = r.Records, r.State.Head(), r.Tree.Root()
	if result.State, err = r.State.Digest(); err != nil {
		return nil, err
	}
	snaps, err := snapshots.Open(filepath.Join(dir, "snapshots"), slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, err
	}
	return result, snaps.Save(r.State)
}

func (c *Replay) compare(ctx context.Context, mine *replayed) error {
	at := url.Values{"at": {strconv.FormatUint(mine.Sequence, 10)}}
	server, err := c.Client()
	if err != nil {
		return err
	}
	var theirs audited
	if _, err := server.ReadJSON(ctx, cli.Request{Path: "/audit/digest", Query: at}, &theirs); err != nil {
		return err
	}
	switch {
	case theirs.Head != mine.Head:
		return fmt.Errorf("the server's commit %d differs: its digest is %s", theirs.Sequence, theirs.Digest)
	case theirs.Root != mine.Root:
		return fmt.Errorf("the server's tree of all records differs: its root is %s", theirs.Root)
	case theirs.ReadModels != mine.ReadModels:
		return fmt.Errorf("the server's read models differ: their digest is %s", theirs.ReadModels)
	}
	fmt.Println("the server has the same")
	return nil
}
