package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/mod/sumdb/note"

	"github.com/allot-project/allot/cmd/internal/cli"
	"github.com/allot-project/allot/cmd/internal/datafolder"
	"github.com/allot-project/allot/ledger/archives"
	"github.com/allot-project/allot/ledger/bucket"
	"github.com/allot-project/allot/projector/check"
	"github.com/allot-project/allot/snapshots/copies"
)

// storeEvery is how often it is looked whether a copy for archives is due.
const storeEvery = 5 * time.Second

// storesOf returns where archives are.
func storesOf(list []*archives.Archive) (stores []bucket.Store) {
	for _, a := range list {
		stores = append(stores, a.Store())
	}
	return stores
}

// startStoring starts to store copies of State and read models in the archives.
func (s *server) startStoring(context.Context) error {
	if len(s.archives) == 0 || s.paces.CopyRecords == 0 {
		return nil
	}
	cfg := copies.KeeperConfig{
		Maker: s.copyMaker(), Records: s.paces.CopyRecords, Every: storeEvery, Logger: s.logger,
		Pace: check.NewPace(archiveRate),
	}
	if key := s.notary.Key; key != nil {
		cfg.Sign = func(text []byte) ([]byte, error) { return note.Sign(&note.Note{Text: string(text)}, key) }
	}
	for i, a := range s.archives {
		cfg.Targets = append(cfg.Targets, copies.Target{Store: a.Store(), Reached: func() uint64 {
			if archiver := s.leader.archiver.Load(); archiver != nil {
				return archiver.Status()[i].Verified.Sequence
			}
			return 0
		}})
	}
	keeper, err := copies.Keep(cfg)
	if err == nil {
		s.leader.storing.Store(keeper)
	}
	return err
}

func (s *server) stopStoring() error {
	if keeper := s.leader.storing.Swap(nil); keeper != nil {
		return keeper.Stop()
	}
	return nil
}

// opener returns what opens manifests of copies: with a signing key only those that
// are signed with it.
func (c *serveCommand) opener() (func([]byte) ([]byte, error), error) {
	if c.SigningKey == "" {
		return nil, nil
	}
	verifier, err := verifierOf(c.SigningKey)
	if err != nil {
		return nil, err
	}
	return openSigned(note.VerifierList(verifier)), nil
}

// openSigned returns what opens texts that are signed with one of some keys; nil:
// any text will do.
func openSigned(keys note.Verifiers) func([]byte) ([]byte, error) {
	if keys == nil {
		return nil
	}
	return func(signed []byte) ([]byte, error) {
		opened, err := note.Open(signed, keys)
		if err != nil {
			return nil, err
		}
		return []byte(opened.Text), nil
	}
}

// addCopies adds the metrics of copies in archives.
func (s *server) addCopies(g gauges) {
	of := func(value func(copies.KeeperStatus) float64) func() float64 {
		return func() float64 {
			if keeper := s.leader.storing.Load(); keeper != nil {
				return value(keeper.Status())
			}
			return 0
		}
	}
	g.count("archive_copies_total", "Copies of State and read models that were stored in archives.",
		of(func(s copies.KeeperStatus) float64 { return float64(s.Stored) }))
	g.count("archive_copies_bytes_total", "Bytes that were written for them.",
		of(func(s copies.KeeperStatus) float64 { return float64(s.Bytes) }))
	g.count("archive_copies_failures_total", "Failures to store one. It is tried again.",
		of(func(s copies.KeeperStatus) float64 { return float64(s.Failures) }))
	g.add("archive_copies_sequence", "Sequence of the newest copy that this server has stored in all archives.",
		of(func(s copies.KeeperStatus) float64 { return float64(s.Last.Sequence) }))
}

// bringCopy brings a copy from the archives to a folder whose log was restored, so
// that the first start replays only what came after it. The log is whole without it.
func (c *restoreCommand) bringCopy(
	ctx context.Context, d *datafolder.Folder, log *archives.Log, list []*archives.Archive, last uint64,
) {
	models := d.Path(datafolder.ReadModels)
	got, err := func() (*copies.Copy, error) {
		keys, err := c.verifiers()
		if err != nil {
			return nil, err
		}
		free, _, err := roomAt(models)
		if err != nil {
			return nil, err
		}
		folder := copyFolderIn(d)
		show, end := cli.ProgressBar("bringing State and read models")
		defer end()
		got, err := copies.Join(ctx, copies.JoinConfig{
			Stores: storesOf(list), Unsign: openSigned(keys), Log: log, Folder: folder, UpTo: last, Needed: true,
			Room: func() int64 { return free }, Logger: warnings(),
			Tell: func(p copies.Progress) { show(uint64(p.Bytes), uint64(p.Of)) },
		})
		if err == nil {
			err = errors.Join(os.MkdirAll(folder.Snapshots, 0o750), folder.Finish())
		}
		return got, err
	}()
	if err != nil {
		fmt.Printf("the first start replays the log: %v\n", errors.Join(err, os.RemoveAll(models)))
		return
	}
	fmt.Printf("State as of sequence %d and read models as of %d have come from %s: the first start replays what is after them\n",
		got.State.Head().Sequence, got.Models.Head.Sequence, got.From)
}
