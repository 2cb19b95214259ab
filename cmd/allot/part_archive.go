package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/allot-project/allot/ledger/archive"
	"github.com/allot-project/allot/ledger/archive/bucket"
	"github.com/allot-project/allot/ledger/proof"
)

// archiveFlags say where the log is archived, and in what parts.
type archiveFlags struct {
	URL []string `name:"archive" help:"Archive the log there in the background: file:///FOLDER, or s3://BUCKET/PREFIX?endpoint=HOST:PORT with keys from AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY. May be repeated." placeholder:"URL" usual:""`
}

// archiveFolder is the name in a data folder of what archives need: parts that
// are being packed.
const archiveFolder = "archive"

// archiveEvery is how often the archiver looks for new commits.
const archiveEvery = time.Second

// archiveAsk is how long a start waits for an archive to say whose it is.
const archiveAsk = 5 * time.Second

// check refuses URLs and bounds that cannot be.
func (f *archiveFlags) check() error {
	_, err := f.open()
	return err
}

// open returns the archives, without speaking to them.
func (f *archiveFlags) open() ([]*archive.Archive, error) { return archive.OpenURLs(f.URL) }

// archivesAreFree refuses to begin a ledger in an empty data folder beside an archive of
// another one: a folder that was lost, or is not mounted, looks like that. Archives that do
// not answer are asked again once the ledger has begun.
func (s *server) archivesAreFree(ctx context.Context) error {
	if !s.data.Empty || s.config.NATSURL != "" { // there may be a log, of the archives' ledger
		return nil
	}
	list, err := s.config.Archive.open()
	for _, a := range list {
		ctx, cancel := context.WithTimeout(ctx, archiveAsk)
		id, err := a.Ledger(ctx)
		cancel()
		if err == nil && !id.IsNil() {
			return fmt.Errorf("%w: %s is empty, and %s is of the ledger %s; nothing was changed: bring that back with allot restore, or name "+
				"another archive for a new ledger", archive.ErrOther, s.config.Data, a, id)
		}
	}
	return err
}

// openArchives refuses archives of another ledger. One that does not answer is
// told, and used when it does: the log keeps everything meanwhile.
func (s *server) openArchives(ctx context.Context) (err error) {
	for _, a := range s.archives {
		ctx, cancel := context.WithTimeout(ctx, archiveAsk)
		err := a.Belongs(ctx, s.notary.Ledger, false)
		cancel()
		switch {
		case errors.Is(err, archive.ErrOther) || errors.Is(err, archive.ErrFormat) || errors.Is(err, bucket.ErrURL):
			return err
		case err != nil:
			s.logger.Warn("an archive cannot be read now; the log keeps everything until it can be written", "error", err)
		}
	}
	return nil
}

// startArchiver starts writing the log into the archives.
func (s *server) startArchiver(context.Context) error {
	if len(s.archives) == 0 {
		return nil
	}
	cfg := archive.Config{
		Archives: s.archives, Ledger: s.notary.Ledger, Log: s.log.all, Head: s.log.highWater.Head,
		Bounds: s.paces.parts(), Rate: archiveRate, Folder: s.data.Path(archiveFolder),
		Every: archiveEvery, Now: time.Now, Logger: s.logger,
	}
	if key := s.notary.Key; key != nil {
		cfg.Sign = func(c *proof.Checkpoint) ([]byte, error) { return c.Sign(key) }
	}
	s.leader.archiver.Store(archive.Start(cfg))
	return nil
}

func (s *server) stopArchiver() error {
	if archiver := s.leader.archiver.Swap(nil); archiver != nil {
		archiver.Stop()
	}
	return nil
}

// addArchives adds the metrics of the archives that this server writes: those of
// a follower are 0.
func (s *server) addArchives(g gauges) {
	if len(s.config.Archive.URL) == 0 {
		return
	}
	most := func(value func(archive.Status) float64) func() float64 {
		return func() (found float64) {
			if archiver := s.leader.archiver.Load(); archiver != nil {
				for _, one := range archiver.Status() {
					found = max(found, value(one))
				}
			}
			return found
		}
	}
	sum := func(value func(archive.Status) float64) func() float64 {
		return func() (found float64) {
			if archiver := s.leader.archiver.Load(); archiver != nil {
				for _, one := range archiver.Status() {
					found += value(one)
				}
			}
			return found
		}
	}
	g.add("archive_lag_commits", "Commits that the archive that is furthest behind does not have.",
		most(func(s archive.Status) float64 { return float64(s.Commits) }))
	g.add("archive_lag_bytes", "Bytes of these commits that are packed and not sealed.",
		most(func(s archive.Status) float64 { return float64(s.LogBytes) }))
	g.add("archive_lag_seconds", "Age of the oldest of these, as far as they are packed.",
		most(func(s archive.Status) float64 {
			if s.Since.IsZero() {
				return 0
			}
			return time.Since(s.Since).Seconds()
		}))
	g.add("archive_faulty", "Archives that take nothing now: the server's log says why.",
		sum(func(s archive.Status) float64 { return one(s.Fault != "") }))
	g.add("archive_parts", "Parts in all archives.", sum(func(s archive.Status) float64 { return float64(s.Parts) }))
	g.add("archive_bytes", "Bytes of these.", sum(func(s archive.Status) float64 { return float64(s.Bytes) }))
	g.count("archive_failures_total", "Failures to archive a part. It is tried again.",
		sum(func(s archive.Status) float64 { return float64(s.Failures) }))
	s.addCopies(g)
	g.add("archive_success_timestamp_seconds", "When a part was last verified in an archive.",
		most(func(s archive.Status) float64 {
			if s.Success.IsZero() {
				return 0
			}
			return float64(s.Success.UnixNano()) / 1e9
		}))
}
