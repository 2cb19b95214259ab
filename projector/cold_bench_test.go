package projector

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/archive"
	"github.com/allot-project/allot/ledger/proof"
)

// BenchmarkColdRecord reads records whose commits have left for an archive, a part of
// which is in the data folder: each from a stretch that nobody has asked for.
func BenchmarkColdRecord(b *testing.B) {
	for _, perCommit := range []int{1, 35, 1600} {
		b.Run(fmt.Sprintf("records in a commit=%d", perCommit), func(b *testing.B) {
			p, addresses := coldHistory(b, 50_000, perCommit)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				p.origin.kept.Purge()
				record, found, err := p.View().Record(addresses[i%len(addresses)])
				if err != nil || !found || record.Command == "" {
					b.Fatal(record, found, err)
				}
			}
		})
	}
}

// coldHistory makes read models of a history, with so many records in a commit, of which
// all commits but the newest have left for a part of an archive. It returns addresses of
// records that have left, in no order.
func coldHistory(b *testing.B, records, perCommit int) (p *Projector, addresses []ledger.Address) {
	b.Helper()
	p, err := Open(b.TempDir(), slog.New(slog.DiscardHandler))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = p.Close() }) // nothing of it is needed any more
	path := filepath.Join(b.TempDir(), "part")
	file, err := os.Create(path)
	if err != nil {
		b.Fatal(err)
	}
	part, err := archive.NewPart(file, archive.Header{First: 1})
	if err != nil {
		b.Fatal(err)
	}
	random, stays, last := rand.New(rand.NewPCG(1, 2)), marking{}, mark{}
	passing(b, records, perCommit, func(c *ledger.Commit, changes ledger.Changes) {
		encoded, err := ledger.EncodeCommit(c)
		if err == nil {
			err = part.AddLinked(ledger.Entry{Sequence: c.Sequence, Data: encoded})
		}
		if err == nil {
			err = p.Fold(c, changes)
		}
		if err != nil {
			b.Fatal(err)
		}
		last = last.next(c.Head(), c.Records)
		if stays.add(last, false); len(c.Records) == perCommit {
			addresses = append(addresses, ledger.Address{Sequence: c.Sequence, Index: random.IntN(perCommit)})
		}
	})
	marks := stays.marks[:len(stays.marks)-1]
	for len(addresses) > 0 && addresses[len(addresses)-1].Sequence > marks[len(marks)-1].head.Sequence {
		addresses = addresses[:len(addresses)-1]
	}
	for _, do := range []func() error{
		func() error { return part.End(nil, &proof.Tree{}) },
		file.Close,
		func() error { return p.models.Load().leave(1, marks) },
	} {
		if err := do(); err != nil {
			b.Fatal(err)
		}
	}
	p.ReadFrom(partLog{path: path})
	random.Shuffle(len(addresses), func(i, j int) { addresses[i], addresses[j] = addresses[j], addresses[i] })
	return p, addresses
}

// partLog is the log in a part of an archive, read as package archives reads it.
type partLog struct {
	ledger.Log

	path string
}

// Read implements ledger.Log.
func (l partLog) Read(_ context.Context, from, to uint64, yield func(ledger.Entry) error) error {
	file, err := os.Open(l.path)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }() // it was only read
	info, err := file.Stat()
	if err != nil {
		return err
	}
	return archive.ReadRange(file, info.Size(), from, to, yield)
}
