package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/allot-project/allot/commands/cluster"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/archives"
	"github.com/allot-project/allot/ledger/bucket"
	"github.com/allot-project/allot/ledger/jetstream"
	"github.com/allot-project/allot/ledger/proof"
)

// archiveFlags say where the log is archived, and in what parts.
type archiveFlags struct {
	URL         []string      `name:"archive" help:"Archive the log there in the background: file:///FOLDER, or s3://BUCKET/PREFIX?endpoint=HOST:PORT with keys from AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY. May be repeated." placeholder:"URL"`
	PartRecords int64         `name:"archive-part-records" help:"Most records in one part of an archive." default:"1000000" least:"1"`
	PartBytes   int64         `name:"archive-part-bytes" help:"Seal a part when it has so many bytes of commits, before compression." default:"67108864" least:"1"`
	PartAge     time.Duration `name:"archive-part-age" help:"Seal a part when its first record is so old: what is younger is in the log only." default:"1h" least:"10ms"`
	Rate        int64         `name:"archive-rate" help:"Read at most this many bytes of the log a second for archives; 0: as fast as it goes." default:"67108864"`
	Cache       int64         `name:"archive-cache" help:"Keep at most this many bytes of parts that were read back, in the data folder; 0: only the newest one." default:"1073741824"`
	CopyRecords int64         `name:"archive-copy-records" help:"Store a copy of State and read models in each archive after so many records, so that a server that lacks them need not replay more; 0: never." default:"10000000"`

	HotRecords *int64         `name:"hot-log-records" help:"Keep the newest N commits in the log, each of which has one record or more. What is older leaves the log when all archives have it and, of several servers, all known ones need it no more. Default: everything stays." placeholder:"N"`
	HotAge     *time.Duration `name:"hot-log-age" help:"Keep commits that are younger in the log. With both bounds, what either keeps stays." placeholder:"D"`
}

// archiveFolder is the name in a data folder of what archives need: parts that
// are being packed.
const archiveFolder = "archive"

// archiveEvery is how often the archiver looks for new commits.
const archiveEvery = time.Second

// archiveAsk is how long a start waits for an archive to say whose it is.
const archiveAsk = 5 * time.Second

func (f *archiveFlags) bounds() archives.Bounds {
	return archives.Bounds{Records: f.PartRecords, Bytes: f.PartBytes, Age: f.PartAge}
}

// check refuses URLs and bounds that cannot be.
func (f *archiveFlags) check() error {
	switch {
	case f.PartBytes > maxPartBytes:
		return fmt.Errorf("--archive-part-bytes %d: it can be from 1 to %d", f.PartBytes, int64(maxPartBytes))
	case f.HotRecords != nil && *f.HotRecords < 1:
		return fmt.Errorf("--hot-log-records %d: it must be at least 1; without it everything stays in the log", *f.HotRecords)
	case f.HotAge != nil && *f.HotAge <= 0:
		return fmt.Errorf("--hot-log-age %v: it must be more than 0; without it everything stays in the log", *f.HotAge)
	case f.bounded() && len(f.URL) == 0:
		return errors.New("--hot-log-records and --hot-log-age need --archive: what leaves the log must be in an archive")
	}
	_, err := f.open()
	return err
}

// bounded reports whether commits are to leave the log.
func (f *archiveFlags) bounded() bool { return f.HotRecords != nil || f.HotAge != nil }

// maxPartBytes bounds what one object may hold.
const maxPartBytes = 1 << 30

// open returns the archives, without speaking to them.
func (f *archiveFlags) open() ([]*archives.Archive, error) {
	list, seen := make([]*archives.Archive, len(f.URL)), make(map[string]bool)
	for i, url := range f.URL {
		a, err := openParts(url)
		if err != nil {
			return nil, err
		}
		if seen[a.String()] {
			return nil, fmt.Errorf("the archive %s is given twice", a)
		}
		list[i], seen[a.String()] = a, true
	}
	return list, nil
}

// checkBounded refuses to bound a log that a start would have to replay.
func (c *serveCommand) checkBounded() error {
	if c.Archive.bounded() && c.SnapshotRecords <= 0 && c.SnapshotAge <= 0 {
		return errors.New("--hot-log-records and --hot-log-age need snapshots, from which a start goes on: " +
			"leave --snapshot-records or --snapshot-age at more than 0")
	}
	return nil
}

// openParts returns the archive at a URL, without speaking to it.
func openParts(url string) (*archives.Archive, error) {
	store, err := bucket.Open(url, bucket.Patience{})
	if err != nil {
		return nil, err
	}
	return archives.Open(store), nil
}

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
				"another archive for a new ledger", archives.ErrOther, s.config.Data, a, id)
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
		case errors.Is(err, archives.ErrOther) || errors.Is(err, archives.ErrFormat) || errors.Is(err, bucket.ErrURL):
			return err
		case err != nil:
			s.logger.Warn("an archive cannot be read now; the log keeps everything until it can be written", "error", err)
		}
	}
	return nil
}

// archiveRest is how long archives are not asked after they were silent.
const archiveRest = 5 * time.Second

// readFolder is the name in archiveFolder of parts that were read back.
const readFolder = "read"

// joinArchives returns the log with what has left it, which archives have.
func (s *server) joinArchives(ctx context.Context, hot archives.Hot) (all ledger.Log, err error) {
	if s.archives, err = s.config.Archive.open(); err != nil {
		return nil, err
	}
	first := hot.First()
	if first > 1 && len(s.archives) == 0 {
		place := s.config.Data
		if s.log.nats == nil {
			place = s.log.nc.ConnectedUrlRedacted()
		}
		return nil, fmt.Errorf("the log in %s begins with sequence %d, because what is older has left for archives; nothing was changed: "+
			"name them with --archive", place, first)
	}
	if len(s.archives) == 0 {
		return hot, nil
	}
	folder := filepath.Join(s.data.Path(archiveFolder), readFolder)
	if err := os.RemoveAll(folder); err != nil { // nobody knows what a former server has left there
		return nil, err
	}
	older := archives.NewLog(s.archives, folder, s.config.Archive.Cache)
	older.Rest(archiveRest)
	return archives.Join(hot, older), s.reachesBack(ctx, hot, older)
}

// reachesBack refuses archives that lack the last commit before the log: they are
// older than what has left, or not the right ones. Archives that do not answer are
// told, and asked again by whoever reads that far back.
func (s *server) reachesBack(ctx context.Context, hot archives.Hot, older *archives.Log) error {
	first := hot.First()
	if first == 1 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, archiveAsk)
	defer cancel()
	err := older.Read(ctx, first-1, first-1, discardCommit)
	switch {
	case errors.Is(err, ledger.ErrLogGap):
		return fmt.Errorf("the log begins with sequence %d, and no archive has what is before it; nothing was changed: "+
			"name the archives that it had with --archive: %w", first, err)
	case errors.Is(err, archives.ErrPart):
		return fmt.Errorf("the log begins with sequence %d, and what is before it is damaged in all archives; nothing was changed: "+
			"name another archive that has it: %w", first, err)
	case err != nil:
		s.logger.Warn("the archives cannot be read now; what has left the log is out of reach until they can", "first", first, "error", err)
	}
	return nil
}

// startTrimmer starts to keep the log within its bounds.
func (s *server) startTrimmer(context.Context) (err error) {
	flags := &s.config.Archive
	if !flags.bounded() {
		return nil
	}
	hot, ok := s.log.hot.(archives.Rollable)
	if s.term != nil {
		hot, ok = s.term.BoundedLog(), true
	}
	if !ok {
		return errors.New("this log cannot be sealed in parts") // serveCommand.check refuses the flags before
	}
	cfg := archives.TrimConfig{
		Hot: hot, Archives: s.archives, Ledger: s.notary.Ledger, Head: s.log.highWater.Head,
		Replayed: s.replayed, Rate: flags.Rate, Folder: s.data.Path(archiveFolder), Every: archiveEvery, Now: time.Now,
		Logger: s.logger,
	}
	if flags.HotRecords != nil {
		cfg.Commits = uint64(*flags.HotRecords)
	}
	if flags.HotAge != nil {
		cfg.Age = *flags.HotAge
	}
	trimmer, err := archives.Trim(cfg)
	s.leader.trimmer.Store(trimmer)
	return err
}

func (s *server) stopTrimmer() error {
	if trimmer := s.leader.trimmer.Swap(nil); trimmer != nil {
		trimmer.Stop()
	}
	return nil
}

// hotLog is the part of a server in a log that others may open.
type hotLog struct{ s *server }

var _ cluster.HotLog = hotLog{}

// Ready implements cluster.HotLog. The servers of an external NATS sync what they keep;
// but to lead, this server must be able to write there.
func (h hotLog) Ready(stream string) error {
	if h.s.log.nats == nil {
		return jetstream.CheckMayContinue(h.s.log.nc)
	}
	return h.s.log.nats.SyncStreams(stream)
}

// MayLeave implements cluster.HotLog. What a start of this server would need of it
// must be in its archives.
//
// An external NATS needs no note of what may leave: nobody but its server reads the
// stream's files, and that forgets a stream before it touches them, and takes its meta.inf
// away first. After a crash it has all of the stream, which the leader lets leave again, or
// nothing.
func (h hotLog) MayLeave(ctx context.Context, before uint64) error {
	s := h.s
	replayed, err := s.replayed()
	if err != nil {
		return err
	}
	if replayed < before-1 {
		return fmt.Errorf("its next start would replay the log from commit %d on, and what is up to %d is to leave", replayed+1, before-1)
	}
	if len(s.archives) == 0 {
		return errors.New("it has no --archive, and could not read what has left")
	}
	have, err := archives.NewLog(s.archives, "", 0).Last(ctx)
	if err != nil {
		return err
	}
	if have < before-1 {
		return fmt.Errorf("its archives go up to commit %d, and what is up to %d is to leave", have, before-1)
	}
	if s.log.nats != nil {
		if err := s.log.nats.MayLeave(before); err != nil {
			return err
		}
	}
	s.log.stream.Leave(before)
	return nil
}

// replayed returns the sequence after which a start would replay the log, whatever
// ends this server: that of the newest snapshot that the read models have reached,
// as far as they are durable. 0: the whole log.
func (s *server) replayed() (uint64, error) {
	reached, err := s.durableModels()
	if err != nil {
		return 0, err
	}
	heads, err := s.snaps.Heads()
	for _, head := range heads {
		if head.Sequence <= reached {
			return head.Sequence, err
		}
	}
	return 0, err
}

// startArchiver starts writing the log into the archives.
func (s *server) startArchiver(context.Context) error {
	if len(s.archives) == 0 {
		return nil
	}
	cfg := archives.Config{
		Archives: s.archives, Ledger: s.notary.Ledger, Log: s.log.all, Head: s.log.highWater.Head,
		Bounds: s.config.Archive.bounds(), Rate: s.config.Archive.Rate, Folder: s.data.Path(archiveFolder),
		Every: archiveEvery, Now: time.Now, Logger: s.logger,
	}
	if key := s.notary.Key; key != nil {
		cfg.Sign = func(c *proof.Checkpoint) ([]byte, error) { return c.Sign(key) }
	}
	s.leader.archiver.Store(archives.Start(cfg))
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
	most := func(value func(archives.Status) float64) func() float64 {
		return func() (found float64) {
			if archiver := s.leader.archiver.Load(); archiver != nil {
				for _, one := range archiver.Status() {
					found = max(found, value(one))
				}
			}
			return found
		}
	}
	sum := func(value func(archives.Status) float64) func() float64 {
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
		most(func(s archives.Status) float64 { return float64(s.Commits) }))
	g.add("archive_lag_bytes", "Bytes of these commits that are packed and not sealed.",
		most(func(s archives.Status) float64 { return float64(s.LogBytes) }))
	g.add("archive_lag_seconds", "Age of the oldest of these, as far as they are packed.",
		most(func(s archives.Status) float64 {
			if s.Since.IsZero() {
				return 0
			}
			return time.Since(s.Since).Seconds()
		}))
	g.add("archive_faulty", "Archives that take nothing now: the server's log says why.",
		sum(func(s archives.Status) float64 { return one(s.Fault != "") }))
	g.add("archive_parts", "Parts in all archives.", sum(func(s archives.Status) float64 { return float64(s.Parts) }))
	g.add("archive_bytes", "Bytes of these.", sum(func(s archives.Status) float64 { return float64(s.Bytes) }))
	g.count("archive_failures_total", "Failures to archive a part. It is tried again.",
		sum(func(s archives.Status) float64 { return float64(s.Failures) }))
	s.addHotLog(g)
	s.addCopies(g)
	g.add("archive_success_timestamp_seconds", "When a part was last verified in an archive.",
		most(func(s archives.Status) float64 {
			if s.Success.IsZero() {
				return 0
			}
			return float64(s.Success.UnixNano()) / 1e9
		}))
}

// addHotLog adds the metrics of what leaves the log.
func (s *server) addHotLog(g gauges) {
	of := func(value func(archives.TrimStatus) float64) func() float64 {
		return func() float64 {
			if trimmer := s.leader.trimmer.Load(); trimmer != nil {
				return value(trimmer.Status())
			}
			return 0
		}
	}
	g.add("hot_log_first_sequence", "First sequence that the log itself holds; what is older is in archives only.",
		func() float64 { return float64(s.log.hot.First()) })
	g.add("hot_log_keeps", "1: nothing leaves the log now although a part is due: the server's log says why.",
		of(func(s archives.TrimStatus) float64 { return one(s.Fault != "") }))
	g.count("hot_log_left_commits_total", "Commits that have left the log since the start, verified in all archives.",
		of(func(s archives.TrimStatus) float64 { return float64(s.Commits) }))
	g.count("hot_log_left_records_total", "Records of these.",
		of(func(s archives.TrimStatus) float64 { return float64(s.Records) }))
	g.count("hot_log_left_bytes_total", "Bytes of these commits.",
		of(func(s archives.TrimStatus) float64 { return float64(s.Bytes) }))
}
