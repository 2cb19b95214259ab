// Package past keeps files with what has left the read models: in archives, where each
// is written once, and for a while in a folder, where they are read.
//
// A file is known by the digest of its bytes, which the read models have. Whatever an
// archive answers with otherwise is not read.
package past

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/bucket"
)

var (
	// ErrDamaged means that an archive has other bytes than were written.
	ErrDamaged = errors.New("past: a file of past versions is damaged")
	// ErrMissing means that no archive has a file, though all of them answer.
	ErrMissing = errors.New("past: no archive has a file of past versions")
)

// File is a file of past versions.
type File struct {
	Form   uint64 // of the rows in it
	First  uint64 // views from the commit with this sequence on read it,
	Last   uint64 // up to this one, which does not
	Number int    // among the files of these views, from 0 on
	Sum    ledger.Digest
	Bytes  int64
}

// Name returns the name of the file's object.
func (f File) Name() string {
	return fmt.Sprintf("past/%d/%020d-%020d-%05d-%s.sst", f.Form, f.First, f.Last, f.Number, hex.EncodeToString(f.Sum[:]))
}

// Files are the files of past versions. It is safe for concurrent use.
type Files struct {
	stores []bucket.Store
	folder string
	bound  int64
	rest   time.Duration
	pace   *rate.Limiter
	places chan struct{} // one for each file that is being fetched

	mu     sync.Mutex
	kept   map[File]*kept // guarded by mu
	bytes  int64          // of these; guarded by mu
	turn   uint64         // guarded by mu
	failed error          // why nothing could be fetched; guarded by mu
	until  time.Time      // nobody asks again before; guarded by mu
}

// kept is a file in the folder, or one that comes.
type kept struct {
	there chan struct{} // closed when it is there, or cannot be had
	err   error         // why it cannot be had
	used  uint64        // the turn in which it was last read; 0: it is still coming
}

const (
	// fetchedAtOnce is how many files are fetched at a time, for all readers: each may
	// take its room on the disk besides those that are kept.
	fetchedAtOnce = 4
	// paceStep is how many bytes may come at once when a rate is set.
	paceStep = 1 << 20
)

// Options are those of Open.
type Options struct {
	Folder string        // what is in it is removed
	Bytes  int64         // that are kept there; what was read last always is
	Rest   time.Duration // how long archives are not asked after none of them answered
	Rate   int64         // bytes that are written and compared a second; 0: as many as there are
}

// Open returns the files in some archives.
func Open(stores []bucket.Store, o Options) (*Files, error) {
	if err := os.RemoveAll(o.Folder); err != nil { // nobody knows what a former server has left there
		return nil, err
	}
	f := &Files{
		stores: stores, folder: o.Folder, bound: o.Bytes, rest: o.Rest, pace: unpaced,
		places: make(chan struct{}, fetchedAtOnce), kept: make(map[File]*kept),
	}
	if o.Rate > 0 {
		f.pace = rate.NewLimiter(rate.Limit(o.Rate), paceStep)
	}
	return f, nil
}

// Folder returns the folder, where there is room for files that are being made.
func (f *Files) Folder() (string, error) { return f.folder, os.MkdirAll(f.folder, 0o750) }

// Stores returns the archives.
func (f *Files) Stores() []bucket.Store { return f.stores }

// Read calls read with the path of a file, which is fetched from an archive if it is not
// in the folder. What read has opened stays readable when read has returned. If no
// archive gives the file, it is a ledger.ErrArchived.
func (f *Files) Read(ctx context.Context, file File, read func(path string) error) error {
	for {
		one, mine := f.begin(file)
		if mine {
			one.err = f.bring(ctx, file)
			f.end(file, one)
		}
		select {
		case <-one.there:
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", ledger.ErrArchived, ctx.Err())
		}
		if one.err != nil && !mine && ctx.Err() == nil && errors.Is(one.err, context.Canceled) {
			continue // who fetched it has gone
		}
		if one.err != nil {
			return one.err
		}
		f.mu.Lock()
		if f.kept[file] != one {
			f.mu.Unlock()
			continue // it was dropped since
		}
		f.turn++
		one.used = f.turn
		err := read(f.path(file)) // so that it is not dropped before it is open
		f.mu.Unlock()
		if errors.Is(err, os.ErrNotExist) {
			f.Forget(file) // somebody has removed it
			continue
		}
		return err
	}
}

func (f *Files) path(file File) string { return filepath.Join(f.folder, filepath.Base(file.Name())) }

// begin says whether the caller is to fetch a file.
func (f *Files) begin(file File) (one *kept, mine bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if one = f.kept[file]; one != nil {
		return one, false
	}
	one = &kept{there: make(chan struct{})}
	f.kept[file] = one
	return one, true
}

// end notes that a file has come, or that it cannot be had, and drops those that were
// not read for the longest time.
func (f *Files) end(file File, one *kept) {
	f.mu.Lock()
	defer f.mu.Unlock()
	close(one.there)
	if one.err != nil {
		delete(f.kept, file)
		return
	}
	f.turn++
	one.used = f.turn
	f.bytes += file.Bytes
	for f.bytes > f.bound {
		oldest, found := File{}, (*kept)(nil)
		for name, k := range f.kept {
			if k != one && k.used > 0 && (found == nil || k.used < found.used) {
				oldest, found = name, k
			}
		}
		if found == nil {
			return
		}
		f.drop(oldest)
	}
}

// drop removes a file from the folder. The caller holds mu.
func (f *Files) drop(file File) {
	delete(f.kept, file)
	f.bytes -= file.Bytes
	_ = os.Remove(f.path(file)) // if it stays, it costs room until the next start
}

// Forget removes a file from the folder, whose bytes the disk has changed: it is fetched
// again.
func (f *Files) Forget(file File) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if one := f.kept[file]; one != nil && one.used > 0 {
		f.drop(file)
	}
}

// Bytes returns how many bytes are in the folder.
func (f *Files) Bytes() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.bytes
}

// bring fetches a file from the first archive that has it as it was written.
func (f *Files) bring(ctx context.Context, file File) error {
	select {
	case f.places <- struct{}{}:
		defer func() { <-f.places }()
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", ledger.ErrArchived, ctx.Err())
	}
	if err := f.resting(); err != nil {
		return err
	}
	var failed error
	missing := true
	for _, store := range f.stores {
		err := f.fetch(ctx, store, file, f.path(file), unpaced)
		if err == nil {
			return nil
		}
		missing = missing && errors.Is(err, bucket.ErrNotFound)
		failed = errors.Join(failed, err)
	}
	switch {
	case missing:
		return fmt.Errorf("%w: %w: %w", ledger.ErrArchived, ErrMissing, cmp.Or(failed, errors.New(file.Name())))
	case errors.Is(failed, ErrDamaged) && !errors.Is(failed, bucket.ErrUnavailable):
		return fmt.Errorf("%w: %w", ledger.ErrArchived, failed) // others can be read
	}
	return f.silent(ctx, failed)
}

// resting returns why archives are not asked now, or nil.
func (f *Files) resting() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.failed == nil || time.Now().After(f.until) {
		return nil
	}
	return f.failed
}

// silent notes that no archive answers.
func (f *Files) silent(ctx context.Context, err error) error {
	err = fmt.Errorf("%w: %w", ledger.ErrArchived, err)
	if errors.Is(ctx.Err(), context.Canceled) {
		return err // the reader has gone, and says nothing about archives
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.failed, f.until = err, time.Now().Add(f.rest)
	return err
}

var unpaced = rate.NewLimiter(rate.Inf, 0)

// fetch writes a file of an archive to a path, if it is as it was written. It is there
// as a whole or not at all.
func (f *Files) fetch(ctx context.Context, store bucket.Store, file File, path string, pace *rate.Limiter) (err error) {
	body, err := store.Open(ctx, file.Name())
	if err != nil {
		return fmt.Errorf("%s/%s: %w", store, file.Name(), err)
	}
	defer func() { err = errors.Join(err, body.Close()) }()
	if err := os.MkdirAll(f.folder, 0o750); err != nil {
		return err
	}
	out, err := os.CreateTemp(f.folder, ".fetch-")
	if err != nil {
		return err
	}
	hash := sha256.New()
	size, err := io.Copy(io.MultiWriter(out, hash), &paced{ctx, io.LimitReader(body, file.Bytes+1), pace})
	if err != nil {
		err = fmt.Errorf("%s/%s: %w", store, file.Name(), err)
	} else if size != file.Bytes || ledger.Digest(hash.Sum(nil)) != file.Sum {
		err = fmt.Errorf("%w: %s/%s", ErrDamaged, store, file.Name())
	}
	if err = errors.Join(err, out.Close()); err == nil {
		err = os.Rename(out.Name(), path)
	}
	if err != nil {
		err = errors.Join(err, ignoreMissing(os.Remove(out.Name())))
	}
	return err
}

func ignoreMissing(err error) error {
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

// Put writes a file into an archive, if it is not there, and reads it back.
func (f *Files) Put(ctx context.Context, store bucket.Store, file File, path string) (err error) {
	in, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	if err := wait(ctx, f.pace, file.Bytes); err != nil {
		return err
	}
	err = store.Create(ctx, file.Name(), in, file.Bytes)
	if err != nil && !errors.Is(err, bucket.ErrExists) {
		return fmt.Errorf("%s/%s: %w", store, file.Name(), err)
	}
	back := path + ".back"
	if err := f.fetch(ctx, store, file, back, f.pace); err != nil {
		return err
	}
	return os.Remove(back)
}

// Lacking returns the first of some files that an archive does not have, at most
// mostLacking of them. All are of one form, and sorted by name.
func (f *Files) Lacking(
	ctx context.Context, store bucket.Store, form uint64, all iter.Seq2[File, error],
) (lacking []File, err error) {
	next, stop := iter.Pull2(all)
	defer stop()
	file, failed, more := next()
	// before notes that the files whose names are before one are not there.
	before := func(name string) error {
		for more && failed == nil && (name == "" || file.Name() < name) {
			if lacking = append(lacking, file); len(lacking) == mostLacking {
				return errEnough
			}
			file, failed, more = next()
		}
		return failed
	}
	err = store.List(ctx, fmt.Sprintf("past/%d/", form), "", func(o bucket.Object) error {
		err := before(o.Name)
		if err == nil && more && file.Name() == o.Name {
			file, failed, more = next()
		}
		return cmp.Or(err, failed)
	})
	if err == nil {
		err = before("")
	}
	if errors.Is(err, errEnough) {
		err = nil
	}
	return lacking, err
}

// mostLacking bounds what an answer takes in memory.
const mostLacking = 1000

var errEnough = errors.New("past: there are enough")

// Give writes a file that another archive has into an archive.
func (f *Files) Give(ctx context.Context, store bucket.Store, file File) error {
	path := f.path(file) + ".give"
	err := f.Read(ctx, file, func(from string) error { return os.Link(from, path) })
	if err != nil {
		return err
	}
	return errors.Join(f.Put(ctx, store, file, path), os.Remove(path))
}

// Describe completes a file's description from what is at a path.
func Describe(file File, path string) (File, error) {
	in, err := os.Open(path)
	if err != nil {
		return file, err
	}
	hash := sha256.New()
	file.Bytes, err = io.Copy(hash, in)
	file.Sum = ledger.Digest(hash.Sum(nil))
	return file, errors.Join(err, in.Close())
}

// paced reads no faster than a rate.
type paced struct {
	ctx  context.Context
	in   io.Reader
	rate *rate.Limiter
}

func (p *paced) Read(b []byte) (int, error) {
	n, err := p.in.Read(b[:min(len(b), paceStep)])
	if waiting := wait(p.ctx, p.rate, int64(n)); waiting != nil {
		return n, waiting
	}
	return n, err
}

// wait waits until so many bytes may come.
func wait(ctx context.Context, pace *rate.Limiter, bytes int64) error {
	for ; bytes > 0 && pace.Limit() != rate.Inf; bytes -= paceStep {
		if err := pace.WaitN(ctx, int(min(bytes, paceStep))); err != nil {
			return err
		}
	}
	return ctx.Err()
}
