package bucket

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/allot-project/allot/ledger/durable"
)

// folder is a store in a folder of this machine, or of a network file system. One that is mounted soft gives an error
// when its server is silent; otherwise the kernel holds calls up for as long.
type folder struct{ dir string }

// FolderOf returns the folder of a store that is one; "": it is a bucket.
func FolderOf(store Store) string {
	if f, ok := store.(*folder); ok {
		return f.dir
	}
	return ""
}

// unfinishedPrefix is how the names of files begin that are being written.
const unfinishedPrefix = ".unfinished-"

func openFolder(u *url.URL) (Store, error) {
	if u.Host != "" || !filepath.IsAbs(u.Path) || u.RawQuery != "" {
		return nil, fmt.Errorf("%w: %q: a folder is named file:/// and its absolute path", ErrURL, u)
	}
	return &folder{filepath.Clean(u.Path)}, nil
}

func (f *folder) String() string { return "file://" + f.dir }

func (f *folder) path(name string) string { return filepath.Join(f.dir, filepath.FromSlash(name)) }

// Create implements Store. The file gets its name by a hard link, which fails if
// there is one: a rename would replace it.
func (f *folder) Create(ctx context.Context, name string, contents *os.File, size int64) error {
	path := f.path(name)
	if err := f.make(filepath.Dir(path)); err != nil {
		return folderError(err)
	}
	if _, err := os.Lstat(path); err == nil {
		return fmt.Errorf("%w: %s", ErrExists, path)
	}
	part, err := os.CreateTemp(filepath.Dir(path), unfinishedPrefix)
	if err != nil {
		return folderError(err)
	}
	defer func() { _ = os.Remove(part.Name()) }() // it has its final name by then, or is of no use
	_, err = io.Copy(part, &Interruptible{ctx, io.NewSectionReader(contents, 0, size)})
	if err == nil {
		err = errors.Join(part.Chmod(0o440), part.Sync())
	}
	if err = errors.Join(err, part.Close()); err != nil {
		return folderError(err)
	}
	if err := os.Link(part.Name(), path); err != nil {
		return folderError(err)
	}
	return folderError(durable.SyncFolder(filepath.Dir(path)))
}

// make makes a folder and those above it up to the store's own, durably.
func (f *folder) make(dir string) error {
	if _, err := os.Stat(dir); err == nil {
		return nil
	}
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return err
	}
	for ; len(dir) >= len(f.dir); dir = filepath.Dir(dir) {
		if err := durable.SyncFolder(filepath.Dir(dir)); err != nil {
			return err
		}
	}
	return nil
}

// Interruptible is a reader that ends with its context.
type Interruptible struct {
	Context context.Context
	In      io.Reader
}

func (r *Interruptible) Read(p []byte) (int, error) {
	if err := r.Context.Err(); err != nil {
		return 0, err
	}
	return r.In.Read(p)
}

func folderError(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, fs.ErrExist):
		return fmt.Errorf("%w: %w", ErrExists, err)
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w: %w", ErrNotFound, err)
	}
	return fmt.Errorf("%w: %w", ErrUnavailable, err)
}

// Open implements Store. To open a pipe would wait for a writer, and a device may have
// no end: only regular files are opened.
func (f *folder) Open(_ context.Context, name string) (io.ReadCloser, error) {
	info, err := os.Stat(f.path(name))
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is no regular file", f.path(name))
	}
	if err != nil {
		return nil, folderError(err)
	}
	file, err := os.Open(f.path(name))
	if err != nil {
		return nil, folderError(err)
	}
	return file, nil
}

func (f *folder) Remove(_ context.Context, name string) error {
	if err := removable(name); err != nil {
		return err
	}
	if err := os.Remove(f.path(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return folderError(err)
	}
	return nil
}

func (f *folder) List(ctx context.Context, prefix string, yield func(Object) error) error {
	list, err := f.list(ctx, prefix)
	if err != nil {
		return err
	}
	for _, object := range list {
		if err := yield(object); err != nil {
			return err
		}
	}
	return nil
}

func (f *folder) list(ctx context.Context, prefix string) (list []Object, err error) {
	top := f.path(prefix)
	if !strings.HasSuffix(prefix, "/") {
		top = filepath.Dir(top)
	}
	err = filepath.WalkDir(top, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || strings.HasPrefix(entry.Name(), unfinishedPrefix) {
			return err
		}
		below, err := filepath.Rel(f.dir, path)
		if err != nil {
			return err
		}
		name := filepath.ToSlash(below)
		if !strings.HasPrefix(name, prefix) {
			return ctx.Err()
		}
		info, err := entry.Info()
		if err == nil {
			list = append(list, Object{name, info.Size()})
		}
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil, f.reachable()
	}
	if err != nil {
		return nil, folderError(err)
	}
	slices.SortFunc(list, func(a, b Object) int { return strings.Compare(a.Name, b.Name) })
	return list, nil
}

// reachable tells an archive that has nothing yet from one whose disk is not
// mounted: its folder must exist, because an empty mount point is no archive.
func (f *folder) reachable() error {
	info, err := os.Stat(f.dir)
	if err == nil && !info.IsDir() {
		return fmt.Errorf("%w: %s is no folder", ErrURL, f.dir)
	}
	if err != nil {
		return fmt.Errorf("%w: the folder %s cannot be read: make it first (%w)", ErrUnavailable, f.dir, err)
	}
	return nil
}
