// Package durable writes, syncs and lists files so that a power cut leaves either
// the old contents or the new ones.
package durable

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// Replace replaces a file's contents. The old contents stay until the new ones
// and their name are on the disk.
func Replace(path string, contents []byte) error {
	return ReplaceWith(path, func(f *os.File) error {
		_, err := f.Write(contents)
		return err
	})
}

// ReplaceWith is Replace for contents that the function write writes. If it
// fails, the old file is still there, and nothing else.
func ReplaceWith(path string, write func(*os.File) error) error {
	part, err := os.OpenFile(path+".tmp", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o640)
	if err != nil {
		return err
	}
	err = write(part)
	if err == nil {
		err = part.Sync()
	}
	err = errors.Join(err, part.Close())
	if err == nil {
		err = os.Rename(part.Name(), path)
	}
	if err != nil {
		return errors.Join(err, ignoreMissing(os.Remove(part.Name())))
	}
	return SyncFolder(filepath.Dir(path))
}

func ignoreMissing(err error) error {
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

// Files lists the files of a folder whose names end in a suffix, in the order of
// their names; none if there is no such folder. It is not filepath.Glob, because
// that takes a folder's own name for a pattern, and hides that a folder cannot be
// read.
func Files(dir, suffix string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err := ignoreMissing(err); err != nil {
		return nil, err
	}
	var paths []string
	for _, entry := range entries {
		if strings.HasSuffix(entry.Name(), suffix) {
			paths = append(paths, filepath.Join(dir, entry.Name()))
		}
	}
	return paths, nil
}

// SyncFolder makes the names of files in a folder durable, not their contents.
func SyncFolder(dir string) error { return sync(dir) }

// SyncTree makes everything in a folder durable: names and contents.
func SyncTree(root string) error {
	return filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return sync(path)
	})
}

// sync opens a file or folder again to sync it: the kernel syncs what any process has
// written.
func sync(path string) error {
	f, err := os.Open(filepath.Clean(path))
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// WriteAgain writes a file's bytes again, in their place, and syncs them. A system may take what
// it could not sync for written: it is read then, but is on no disk, and no later sync brings it
// there.
func WriteAgain(path string) error {
	f, err := os.OpenFile(filepath.Clean(path), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.NewOffsetWriter(f, 0), f)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// NoRoom reports whether an error says that a disk is full, or that a quota is used up.
func NoRoom(err error) bool { return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) }
