package operate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/allot-project/allot/cmd/internal/datafolder"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/archive"
	"github.com/allot-project/allot/ledger/blocks"
	"github.com/allot-project/allot/ledger/chain"
	"github.com/allot-project/allot/ledger/logfile"
)

// copySet are copies of one log, and what is to be closed after them.
type copySet struct {
	list []*logCopy
	seen []blocks.Seen // heads that are known beside the copies
	// proposed are the commits of Raft logs, by sequence.
	proposed map[uint64]blocks.Proposed
	open     []func() error
}

func (s *copySet) close() (err error) {
	for _, closeOne := range s.open {
		err = errors.Join(err, closeOne())
	}
	return err
}

// copies opens the copies of the log that the flags name, after what the folder itself has.
func (c *mending) copies(ctx context.Context, own *datafolder.Folder) (*copySet, error) {
	s := &copySet{proposed: make(map[uint64]blocks.Proposed)}
	if err := c.addAll(ctx, s, own); err != nil {
		return nil, errors.Join(err, s.close())
	}
	s.addProposed()
	return s, nil
}

// addAll adds the copies. What is far away comes last.
func (c *mending) addAll(ctx context.Context, s *copySet, own *datafolder.Folder) error {
	if err := s.addFolder(ctx, own); err != nil {
		return err
	}
	var urls []string
	for _, name := range c.Archive {
		if isArchiveURL(name) {
			urls = append(urls, name)
		} else if err := s.addPath(ctx, name); err != nil {
			return err
		}
	}
	if c.NATSURL != "" {
		log, closeLog, err := sourceFlags{NATSURL: c.NATSURL}.open(ctx)
		if err != nil {
			return err
		}
		s.open = append(s.open, closeLog)
		if err = s.addFar(ctx, "the server at --nats-url", log); err != nil {
			return err
		}
	}
	if len(urls) > 0 {
		return s.addArchives(ctx, urls)
	}
	return nil
}

// addPath adds a data folder, a folder of a log, or a file that allot export wrote.
func (s *copySet) addPath(ctx context.Context, path string) error {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return fmt.Errorf("--archive: %w", err)
	case !info.IsDir():
		s.addFile(path)
		return nil
	}
	if filepath.Base(path) == "jetstream" {
		path = filepath.Dir(path)
	}
	d := &datafolder.Folder{Dir: path}
	if inUse, err := d.Has(datafolder.Lock); err != nil {
		return err
	} else if inUse {
		if d, err = datafolder.Open(path); err != nil {
			return err
		}
		s.open = append(s.open, d.Close)
	}
	before := len(s.list)
	if err := s.addFolder(ctx, d); err != nil {
		return err
	}
	if len(s.list) == before {
		return fmt.Errorf("--archive %s: it holds no log: name a data folder, or a folder that has jetstream in it", path)
	}
	return nil
}

// addFolder adds the logs in a folder, and the heads that are known there.
func (s *copySet) addFolder(ctx context.Context, d *datafolder.Folder) error {
	known, err := d.Seen()
	if err != nil {
		return err
	}
	s.seen = append(s.seen, known...)
	stores, err := d.Stores()
	if err = cmp.Or(err, s.addMark(d.Files())); err != nil { // which stays where the log was set aside
		return err
	}
	for _, files := range stores {
		if err := s.addStore(files); err != nil {
			return err
		}
		if err := s.propose(ctx, files); err != nil { // what cannot be read of it may not be needed
			fmt.Printf("%s: Raft logs: %v\n", files.Store, err)
		}
	}
	return nil
}

// propose notes what a store's Raft logs have. Of different commits of one sequence that of the later term is
// right: its leader would have had the other one, if a majority had acknowledged that.
func (s *copySet) propose(ctx context.Context, files blocks.Folder) error {
	return files.Proposed(ctx, func(one blocks.Proposed) {
		if before, has := s.proposed[one.Sequence]; !has || one.Term > before.Term {
			s.proposed[one.Sequence] = one
		}
	})
}

// addProposed adds what Raft logs have, for what no other copy has.
func (s *copySet) addProposed() {
	if len(s.proposed) == 0 {
		return
	}
	s.list = append(s.list, &logCopy{
		name: "Raft logs", spare: true,
		read: func(_ context.Context, from uint64, yield func(ledger.Entry) error) error {
			for _, sequence := range slices.Sorted(maps.Keys(s.proposed)) {
				if sequence >= from {
					if err := yield(s.proposed[sequence].Entry); err != nil {
						return err
					}
				}
			}
			return nil
		},
	})
}

func (s *copySet) addMark(files blocks.Folder) error {
	path := blocks.HighWaterPath(files.Store)
	mark, err := blocks.ReadHighWater(path)
	if err != nil && !errors.Is(err, blocks.ErrNoPosition) {
		return err // a damaged one knows nothing
	}
	s.seen = append(s.seen, blocks.Seen{Head: mark, Where: path})
	return nil
}

// addStore adds what is in a store: the blocks of a log, and the file that a log was to begin with.
func (s *copySet) addStore(files blocks.Folder) error {
	if err := s.addMark(files); err != nil {
		return err
	}
	begin, err := files.Beginning()
	if err != nil {
		return err
	}
	if begin != nil && begin.History != nil {
		s.seen = append(s.seen, blocks.Seen{Head: *begin.History, Where: files.HistoryPath()})
		s.addFile(files.HistoryPath())
	}
	s.list = append(s.list, &logCopy{
		name: files.Store,
		read: func(ctx context.Context, from uint64, yield func(ledger.Entry) error) error {
			_, err := files.ScanIntact(ctx, func(e ledger.Entry) error {
				if e.Sequence < from {
					return nil
				}
				return yield(e)
			})
			if errors.Is(err, blocks.ErrNoLog) {
				return nil
			}
			return err
		},
	})
	return nil
}

// addFile adds a file that allot export wrote. Nothing in a damaged one is sure to be whole but commits that the next
// one follows.
func (s *copySet) addFile(path string) {
	_, damage := readArchive(path, anyHeader, discardCommit)
	if damage != nil {
		fmt.Printf("%s: %v\n", path, damage)
	}
	s.list = append(s.list, &logCopy{
		name: path,
		read: func(ctx context.Context, from uint64, yield func(ledger.Entry) error) error {
			var before ledger.Entry
			_, err := readArchive(path, anyHeader, func(e ledger.Entry) error {
				if damage != nil {
					e, before = before, e
					_, prev, err := ledger.CommitLink(before.Data)
					if err != nil || prev != ledger.DigestOf(e.Data) {
						return nil
					}
				}
				if ctx.Err() != nil || e.Sequence < from {
					return ctx.Err()
				}
				return yield(e)
			})
			return err
		},
	})
}

func anyHeader(logfile.Header) error { return nil }

// addArchives adds archives, which stand in for each other.
func (s *copySet) addArchives(ctx context.Context, urls []string) error {
	list, err := archivesFlag{From: urls}.open(ctx)
	if err != nil {
		return err
	}
	folder, err := os.MkdirTemp("", "allot-archive-")
	if err != nil {
		return err
	}
	s.open = append(s.open, func() error { return os.RemoveAll(folder) })
	return s.addFar(ctx, strings.Join(urls, ", "), archive.NewLog(list, folder, cachedParts))
}

// addFar adds a log that answers each read, but slowly. That its last commit is in the merged log shows that both are
// one history, without reading all of it.
func (s *copySet) addFar(ctx context.Context, name string, log ledger.Log) error {
	last, err := log.Last(ctx)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if last == 0 {
		return nil
	}
	head, err := chain.HeadBefore(ctx, log, last+1)
	if err == nil {
		s.seen = append(s.seen, blocks.Seen{Head: head, Where: name})
	} else {
		fmt.Printf("%s: %v\n", name, err)
	}
	s.list = append(s.list, &logCopy{
		name: name, last: last,
		read: func(ctx context.Context, from uint64, yield func(ledger.Entry) error) error {
			return log.Read(ctx, from, last, yield)
		},
	})
	return nil
}

// ofCluster reports whether a folder is, or was, of one of several servers.
func ofCluster(d *datafolder.Folder) (bool, error) {
	rejoins, err := d.Has(datafolder.Rejoin)
	if err != nil || rejoins {
		return rejoins, err
	}
	stores, err := d.Stores()
	for _, files := range stores {
		if _, err := os.Stat(filepath.Join(files.Store, "jetstream", "$SYS")); err == nil {
			return true, nil
		}
	}
	return false, err
}
