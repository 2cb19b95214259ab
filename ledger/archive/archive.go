// Package archive keeps a log in archives: runs of commits, sealed, compressed and
// chained, each in an object that is written once. It writes them in the
// background, verifies them, and reads the log from them.
//
// Nothing but the parts themselves is needed to read an archive. A part is a file
// in the form of package archive, whose name has its range of sequences and the
// digest of its last commit. Where a part ends follows from the log and the
// Bounds, so that two servers seal the same parts, and the second finds that they
// are there.
package archive

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"

	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/archive/bucket"
	"github.com/allot-project/allot/ledger/logfile"
	"github.com/allot-project/allot/ledger/proof"
)

var (
	// ErrOther means that an archive is of another ledger.
	ErrOther = errors.New("the archive is of another ledger")
	// ErrFork means that an archive holds a log that is not the one it should be.
	ErrFork = errors.New("the archive holds another log")
	// ErrMissing means that an archive lacks a part, although it has later ones.
	ErrMissing = errors.New("the archive lacks a part")
	// ErrFormat means that an archive has a form that this release does not know.
	ErrFormat = errors.New("this release does not know the form of the archive")
	// ErrPart means that a part is damaged.
	ErrPart = errors.New("a part of the archive is damaged")
	// ErrUnsigned means that no signed checkpoint vouches for the end of an
	// archive.
	ErrUnsigned = errors.New("no signed checkpoint vouches for the end of the archive")
	// ErrEmpty means that an archive has no part.
	ErrEmpty = errors.New("the archive is empty")
)

// Position is where a log stands after a commit.
type Position struct {
	ledger.Head
	Tree *proof.Tree // of all records up to there
}

// Beginning is the Position before the first commit.
func Beginning() Position { return Position{Tree: &proof.Tree{}} }

// Archive is an archive in a store. It is safe for concurrent use.
type Archive struct {
	store bucket.Store

	mu   sync.Mutex
	list []Name // known parts, in the order of their names; guarded by mu
	size int64  // bytes of these; guarded by mu
}

// Open returns the archive in a store. It does not speak to the store.
func Open(store bucket.Store) *Archive { return &Archive{store: store} }

// String returns the archive's URL, without secrets.
func (a *Archive) String() string { return a.store.String() }

// Store returns where the archive is, for what is kept beside its parts.
func (a *Archive) Store() bucket.Store { return a.store }

// Stored returns how many parts are known, and their bytes.
func (a *Archive) Stored() (count int, bytes int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.list), a.size
}

// markName is the object that says whose archive it is.
const markName = "ledger.json"

type mark struct {
	Format int         `json:"format"`
	Ledger ledger.UUID `json:"ledger"`
}

const markFormat = 1

// Ledger returns the ledger that the archive is of; nil: of none yet.
func (a *Archive) Ledger(ctx context.Context) (id ledger.UUID, err error) {
	body, err := a.store.Open(ctx, markName)
	if errors.Is(err, bucket.ErrNotFound) {
		return a.ledgerOfParts(ctx)
	}
	if err != nil {
		return id, fmt.Errorf("%s: %w", a, err)
	}
	text, err := io.ReadAll(io.LimitReader(body, 4096))
	if err = errors.Join(err, body.Close()); err != nil {
		return id, fmt.Errorf("%s: %w", a, err)
	}
	var m mark
	if err := json.Unmarshal(text, &m); err != nil || m.Ledger.IsNil() {
		return a.ledgerOfParts(ctx) // the parts know it, too
	}
	if m.Format != markFormat {
		return id, fmt.Errorf("%w: %s has the format %d, and only %d is known: use a newer release", ErrFormat, a, m.Format, markFormat)
	}
	return m.Ledger, nil
}

// ledgerOfParts reads it from the first part, because the mark is lost or was
// never written.
func (a *Archive) ledgerOfParts(ctx context.Context) (id ledger.UUID, err error) {
	if err := a.Refresh(ctx); err != nil {
		return id, err
	}
	list := a.names()
	if len(list) == 0 {
		return id, nil
	}
	body, err := a.store.Open(ctx, list[0].String())
	if err != nil {
		return id, fmt.Errorf("%s: %w", a, err)
	}
	_, err = logfile.ReadLinks(body, func(h logfile.Header) error { id = h.Ledger; return errEnough }, nil)
	if err = errors.Join(err, body.Close()); !errors.Is(err, errEnough) {
		return id, fmt.Errorf("%w: %s/%s: %w", ErrPart, a, list[0], err)
	}
	return id, nil
}

var errEnough = errors.New("archives: that is enough")

// Belongs fails with ErrOther if the archive is of another ledger. An archive
// of no ledger becomes this one's if take says so.
func (a *Archive) Belongs(ctx context.Context, id ledger.UUID, take bool) error {
	found, err := a.Ledger(ctx)
	if err != nil {
		return err
	}
	if found.IsNil() && take {
		if err := a.take(ctx, id); err != nil {
			return err
		}
		found, err = a.Ledger(ctx)
		if err != nil {
			return err
		}
	}
	if !found.IsNil() && found != id {
		return fmt.Errorf("%w: %s is of the ledger %s, and this is %s; nothing was changed: name another folder or prefix",
			ErrOther, a, found, id)
	}
	return nil
}

func (a *Archive) take(ctx context.Context, id ledger.UUID) error {
	text, err := json.Marshal(mark{markFormat, id})
	if err != nil {
		return err
	}
	return a.create(ctx, os.TempDir(), markName, append(text, '\n'))
}

// create writes a small object, unless it is there. Folder is for what is sent.
func (a *Archive) create(ctx context.Context, folder, name string, data []byte) (err error) {
	file, err := scratch(folder)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if _, err = file.Write(data); err != nil {
		return err
	}
	err = a.store.Create(ctx, name, file, int64(len(data)))
	if err != nil && !errors.Is(err, bucket.ErrExists) {
		return fmt.Errorf("%s: %w", a, err)
	}
	return nil
}

// Refresh lists all parts. Objects that are no parts are not looked at.
func (a *Archive) Refresh(ctx context.Context) error {
	var list []Name
	var size int64
	err := a.each(ctx, folder, func(name Name, bytes int64) { list, size = append(list, name), size+bytes })
	if err != nil {
		return err
	}
	a.mu.Lock()
	a.list, a.size = list, size
	a.mu.Unlock()
	return nil
}

// look lists the parts that begin at a sequence, and notes them.
func (a *Archive) look(ctx context.Context, first uint64) (names []Name, err error) {
	err = a.each(ctx, fmt.Sprintf("%s%020d-", folder, first), func(name Name, size int64) {
		names = append(names, name)
		a.add(name, size)
	})
	return names, err
}

// each calls yield for each part in the store whose name begins with a prefix.
func (a *Archive) each(ctx context.Context, prefix string, yield func(name Name, size int64)) error {
	err := a.store.List(ctx, prefix, func(o bucket.Object) error {
		if name, isPart := parseName(o.Name); isPart {
			yield(name, o.Size)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("%s: %w", a, err)
	}
	return nil
}

func (a *Archive) add(name Name, size int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	at, found := slices.BinarySearchFunc(a.list, name, func(x, y Name) int { return cmp.Compare(x.String(), y.String()) })
	if !found {
		a.list = slices.Insert(a.list, at, name)
		a.size += size
	}
}

func (a *Archive) names() []Name {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.list)
}

// next returns the parts that begin at a sequence, the longest first, and the
// first sequence after it at which another one begins; 0: none does.
func (a *Archive) next(first uint64) (begin []Name, later uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	at, _ := slices.BinarySearchFunc(a.list, first, func(n Name, s uint64) int { return cmp.Compare(n.First, s) })
	for ; at < len(a.list); at++ {
		if a.list[at].First > first {
			later = a.list[at].First
			break
		}
		begin = append(begin, a.list[at])
	}
	slices.SortStableFunc(begin, func(x, y Name) int { return cmp.Compare(y.Last.Sequence, x.Last.Sequence) })
	return begin, later
}

func (a *Archive) holding(sequence uint64) (list []Name) {
	a.mu.Lock()
	defer a.mu.Unlock()
	at, _ := slices.BinarySearchFunc(a.list, sequence+1, func(n Name, s uint64) int { return cmp.Compare(n.First, s) })
	// Parts overlap only where servers with other bounds took turns.
	for at--; at >= 0 && len(list) < 2*maxCopies; at-- {
		if a.list[at].Last.Sequence >= sequence {
			list = append(list, a.list[at])
		} else if len(list) > 0 {
			break
		}
	}
	return list
}

// fetch copies an object into a file, from its beginning. It returns the sum of
// its bytes.
func (a *Archive) fetch(ctx context.Context, name Name, into *os.File) (sum [sha256.Size]byte, size int64, err error) {
	body, err := a.store.Open(ctx, name.String())
	if err != nil {
		return sum, 0, fmt.Errorf("%s: %w", a, err)
	}
	if _, err = into.Seek(0, io.SeekStart); err == nil {
		err = into.Truncate(0)
	}
	hash := sha256.New()
	if err == nil {
		size, err = io.Copy(io.MultiWriter(into, hash), body)
	}
	if err = errors.Join(err, body.Close()); err != nil {
		return sum, size, fmt.Errorf("%s/%s: %w", a, name, err)
	}
	copy(sum[:], hash.Sum(nil))
	return sum, size, nil
}

// get fetches a part into a file and verifies that it is whole, and the one that
// its name says. Damage wraps ErrPart.
func (a *Archive) get(ctx context.Context, name Name, into *os.File) (logfile.Header, logfile.Trailer, error) {
	if _, _, err := a.fetch(ctx, name, into); err != nil {
		return logfile.Header{}, logfile.Trailer{}, err
	}
	header, trailer, err := check(name, into, logfile.ReadLinks, discard)
	if err != nil {
		err = fmt.Errorf("%w: %s/%s: %w", ErrPart, a, name, err)
	}
	return header, trailer, err
}

func discard(ledger.Entry) error { return nil }

// readPart is logfile.Read, or one of its kin.
type readPart[T any] func(io.Reader, func(logfile.Header) error, func(T) error) (logfile.Trailer, error)

// check reads a part in a file, and checks that it is the one that its name says.
func check[T any](
	name Name, file *os.File, read readPart[T], yield func(T) error,
) (h logfile.Header, t logfile.Trailer, err error) {
	if _, err = file.Seek(0, io.SeekStart); err != nil {
		return h, t, err
	}
	t, err = read(file, func(header logfile.Header) error {
		h = header
		if h.First != name.First {
			return fmt.Errorf("%w: it begins at sequence %d", logfile.ErrDamaged, h.First)
		}
		return nil
	}, yield)
	switch {
	case err != nil:
		return h, t, err
	case t.Head != name.Last:
		return h, t, fmt.Errorf("%w: it ends at sequence %d with the digest %.8s", logfile.ErrDamaged, t.Sequence, t.Digest)
	case t.Tree == nil:
		return h, t, fmt.Errorf("%w: it does not say where the Merkle tree stands", logfile.ErrDamaged)
	}
	info, err := file.Stat()
	if err == nil {
		_, err = logfile.ReadIndex(file, info.Size())
	}
	return h, t, err
}

// OpenURL returns the archive at a URL, without speaking to it.
func OpenURL(url string) (*Archive, error) {
	store, err := bucket.Open(url)
	if err != nil {
		return nil, err
	}
	return Open(store), nil
}

// OpenURLs returns the archives at some URLs, without speaking to them. Each may be named once.
func OpenURLs(urls []string) ([]*Archive, error) {
	list, seen := make([]*Archive, len(urls)), make(map[string]bool)
	for i, url := range urls {
		a, err := OpenURL(url)
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

// Stores are the stores of archives.
func Stores(list []*Archive) (stores []bucket.Store) {
	for _, a := range list {
		stores = append(stores, a.Store())
	}
	return stores
}

// Usual are the bounds of parts, apart from their age.
var Usual = Bounds{Records: 1_000_000, Bytes: 64 << 20}

// walk returns the parts that follow one another from after a sequence on, and
// the sequence at which a later one begins that nothing leads to; 0: there is
// none. Where parts overlap it takes the longest.
func (a *Archive) walk(after uint64) (names []Name, gap uint64) {
	for {
		begin, later := a.next(after + 1)
		if len(begin) == 0 {
			return names, later
		}
		names = append(names, begin[0])
		after = begin[0].Last.Sequence
	}
}

// position reads where the log stands after a part.
func (a *Archive) position(ctx context.Context, name Name, file *os.File) (Position, error) {
	var first error
	for _, same := range a.copies(name) {
		_, trailer, err := a.get(ctx, same, file)
		if err == nil {
			return Position{trailer.Head, trailer.Tree}, nil
		}
		first = cmp.Or(first, err)
	}
	return Position{}, first
}

// copies returns a part and its copies.
func (a *Archive) copies(name Name) (list []Name) {
	begin, _ := a.next(name.First)
	for _, n := range begin {
		if n.Last == name.Last {
			list = append(list, n)
		}
	}
	return list
}

// part brings the part after a position into a file: the first good one of those
// that begin there.
func (a *Archive) part(
	ctx context.Context, from ledger.Head, file *os.File,
) (Name, logfile.Header, logfile.Trailer, error) {
	begin, later := a.next(from.Sequence + 1)
	if len(begin) == 0 {
		if later > 0 {
			return Name{}, logfile.Header{}, logfile.Trailer{}, fmt.Errorf("%w: %s has nothing of the sequences %d to %d",
				ErrMissing, a, from.Sequence+1, later-1)
		}
		return Name{}, logfile.Header{}, logfile.Trailer{}, errEnd
	}
	var first error
	for _, name := range begin {
		header, trailer, err := a.get(ctx, name, file)
		if err == nil && header.Prev != from.Digest {
			err = fmt.Errorf("%w: %s/%s follows a commit %d with the digest %.8s, and not %.8s", ErrFork, a, name,
				from.Sequence, header.Prev, from.Digest)
		}
		if err == nil {
			return name, header, trailer, nil
		}
		first = cmp.Or(first, err)
	}
	return Name{}, logfile.Header{}, logfile.Trailer{}, first
}

var errEnd = errors.New("archives: the end")
