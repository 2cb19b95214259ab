package main

import (
	"context"
	"time"

	"golang.org/x/mod/sumdb/note"

	"github.com/allot-project/allot/cmd/internal/cli"
	"github.com/allot-project/allot/projector/check"
	"github.com/allot-project/allot/snapshots/copies"
)

// storeEvery is how often it is looked whether a copy for archives is due.
const storeEvery = 5 * time.Second

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
	verifier, err := cli.VerifierOf(c.SigningKey)
	if err != nil {
		return nil, err
	}
	return cli.OpenSigned(note.VerifierList(verifier)), nil
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
