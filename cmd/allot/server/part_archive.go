package server

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/allot-project/allot/cmd/allot/server/vitals"
	"github.com/allot-project/allot/ledger/archive"
	"github.com/allot-project/allot/ledger/archive/bucket"
	"github.com/allot-project/allot/ledger/proof"
	"github.com/allot-project/allot/projector/check"
	"github.com/allot-project/allot/snapshots/copies"
)

// archiveEvery is how often the archiver looks for new commits.
const archiveEvery = time.Second

// archiveAsk is how long a start waits for an archive to say whose it is.
const archiveAsk = 5 * time.Second

// storeEvery is how often it is looked whether a copy for archives is due.
const storeEvery = 5 * time.Second

// archivesPart are the archives of this ledger.
type archivesPart struct {
	*server

	list []*archive.Archive
}

// open opens them, without speaking to them.
func (p *archivesPart) open() (err error) {
	p.list, err = archive.OpenURLs(p.config.Archive)
	return err
}

// areFree refuses to begin a ledger in an empty data folder beside an archive of
// another one: a folder that was lost, or is not mounted, looks like that. Archives that do
// not answer are asked again once the ledger has begun.
func (p *archivesPart) areFree(ctx context.Context) error {
	if !p.data.Empty || p.config.NATSURL != "" { // there may be a log, of the archives' ledger
		return nil
	}
	for _, a := range p.list {
		ctx, cancel := context.WithTimeout(ctx, archiveAsk)
		id, err := a.Ledger(ctx)
		cancel()
		if err == nil && !id.IsNil() {
			return fmt.Errorf("%w: %s is empty, and %s is of the ledger %s; nothing was changed: bring that back with allot restore, or name "+
				"another archive for a new ledger", archive.ErrOther, p.config.Data, a, id)
		}
	}
	return nil
}

// start refuses archives of another ledger. One that does not answer is
// told, and used when it does: the log keeps everything meanwhile.
func (p *archivesPart) start(ctx context.Context) error {
	for _, a := range p.list {
		ctx, cancel := context.WithTimeout(ctx, archiveAsk)
		err := a.Belongs(ctx, p.notary.Ledger, false)
		cancel()
		switch {
		case errors.Is(err, archive.ErrOther) || errors.Is(err, archive.ErrFormat) || errors.Is(err, bucket.ErrURL):
			return err
		case err != nil:
			p.logger.Warn("an archive cannot be read now; the log keeps everything until it can be written", "error", err)
		}
	}
	return nil
}

// archiverPart writes the log, and copies of State and read models, into the archives.
type archiverPart struct {
	*server

	archiver atomic.Pointer[archive.Archiver] // nil: the server archives nothing now
	storing  atomic.Pointer[copies.Keeper]    // nil: it stores no copies there now
}

func (p *archiverPart) start(context.Context) error {
	if len(p.archives.list) == 0 {
		return nil
	}
	cfg := archive.Config{
		Archives: p.archives.list, Ledger: p.notary.Ledger, Log: p.log.all, Head: p.highWater.Head,
		Bounds: archive.Bounds{Records: p.paces.PartRecords, Bytes: archive.Usual.Bytes, Age: p.paces.PartAge},
		Rate:   archiveRate, Folder: p.data.Path(vitals.ArchiveFolder),
		Every: archiveEvery, Now: time.Now, Logger: p.logger,
	}
	if key := p.notary.Key; key != nil {
		cfg.Sign = func(c *proof.Checkpoint) ([]byte, error) { return c.Sign(key) }
		pace := check.NewPace(archiveRate)
		cfg.Tiles = &archive.Tiles{Newest: p.published, Tile: func(ctx context.Context, t tlog.Tile) ([]byte, error) {
			if err := pace.WaitN(ctx, tileRead); err != nil {
				return nil, err
			}
			return p.views.View().Tile(ctx, p.log.all, t)
		}}
	}
	p.archiver.Store(archive.Start(cfg))
	return nil
}

// tileRead is about how much is read for a tile, in bytes.
const tileRead = 32 << 10

// published is the newest cosigned checkpoint; without witnesses, the one of now.
func (p *archiverPart) published() ([]byte, *proof.Checkpoint) {
	if p.notary.Witnesses != nil {
		if kept := p.notary.Witnesses.Kept(); kept != nil {
			return kept.Note, &kept.Checkpoint
		}
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), signTime)
	defer cancel()
	signed, _, err := p.notary.Newest(ctx, p.views.Projector)
	if err != nil {
		p.logger.Warn("no checkpoint for the tiles in archives", "error", err)
		return nil, nil
	}
	c, err := proof.Unverified(signed)
	if err != nil {
		p.logger.Error("no checkpoint for the tiles in archives", "error", err)
		return nil, nil
	}
	return signed, c
}

func (p *archiverPart) stop() {
	if archiver := p.archiver.Swap(nil); archiver != nil {
		archiver.Stop()
	}
}

// startStoring starts to store copies of State and read models in the archives.
func (p *archiverPart) startStoring(context.Context) error {
	if len(p.archives.list) == 0 || p.paces.CopyRecords == 0 {
		return nil
	}
	cfg := copies.KeeperConfig{
		Maker: p.snaps.maker(p.disks.NotEligible), Records: p.paces.CopyRecords, Every: storeEvery, Logger: p.logger,
		Pace: check.NewPace(archiveRate),
	}
	if key := p.notary.Key; key != nil {
		cfg.Sign = func(text []byte) ([]byte, error) { return note.Sign(&note.Note{Text: string(text)}, key) }
	}
	for i, a := range p.archives.list {
		cfg.Targets = append(cfg.Targets, copies.Target{Store: a.Store(), Reached: func() uint64 {
			if archiver := p.archiver.Load(); archiver != nil {
				return archiver.Status()[i].Verified.Sequence
			}
			return 0
		}})
	}
	keeper, err := copies.Keep(cfg)
	if err == nil {
		p.storing.Store(keeper)
	}
	return err
}

func (p *archiverPart) stopStoring() error {
	if keeper := p.storing.Swap(nil); keeper != nil {
		return keeper.Stop()
	}
	return nil
}
