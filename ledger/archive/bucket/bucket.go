// Package bucket keeps objects that are written once: in a folder, or in a bucket of a
// store that speaks S3. It has no way to overwrite an object, and none to delete one but a
// copy, which can be made again.
package bucket

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path"
	"strings"
)

var (
	// ErrExists means that there is an object of that name. It was not touched.
	ErrExists = errors.New("bucket: the object exists")
	// ErrNotFound means that there is no object of that name.
	ErrNotFound = errors.New("bucket: there is no such object")
	// ErrURL means that a URL names no bucket.
	ErrURL = errors.New("not the URL of an archive")
	// ErrUnavailable means that the store did not answer, or that it has a fault
	// that may pass.
	ErrUnavailable = errors.New("bucket: the store is out of reach")
)

const objectType = "application/octet-stream"

// Object is an entry of a list.
type Object struct {
	Name string
	Size int64
}

// Store keeps objects under names of slashes, letters, digits, dots and hyphens.
// Implementations are safe for concurrent use. An error that wraps neither
// ErrExists nor ErrNotFound says nothing about the object.
type Store interface {
	// Create writes an object if there is none of that name, and ErrExists
	// otherwise. It is there as a whole or not at all, and durable when Create
	// returns. After an error it may be there all the same.
	Create(ctx context.Context, name string, contents *os.File, size int64) error
	// Open reads an object. The caller closes it.
	Open(ctx context.Context, name string) (io.ReadCloser, error)
	// List calls yield for each object whose name begins with a prefix, in the order of
	// their names.
	List(ctx context.Context, prefix string, yield func(Object) error) error
	// Remove removes an object whose name begins with Copies. It is no error if there is
	// none. A store with object lock, or one whose keys do not allow it, fails.
	Remove(ctx context.Context, name string) error
	// String returns the store's URL, without secrets.
	String() string
}

// Copies is how the names of objects begin that can be removed. Everything else is
// for ever.
const Copies = "copies/"

// ErrForEver means that an object is none of those that can be removed.
var ErrForEver = errors.New("bucket: such an object is never removed")

// removable refuses to remove anything but a copy.
func removable(name string) error {
	if !strings.HasPrefix(name, Copies) || path.Clean(name) != name {
		return fmt.Errorf("%w: %s", ErrForEver, name)
	}
	return nil
}

// Open returns the store that a URL names: file:///FOLDER, or
// s3://BUCKET/PREFIX?endpoint=HOST:PORT&region=REGION&insecure=true. The keys of a bucket
// come from the environment, from files of the cloud's tools, or from the machine, and
// never from the URL. Open does not speak to the store.
func Open(text string) (Store, error) {
	u, err := url.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("%w: %q", ErrURL, text)
	}
	if u.User != nil {
		return nil, fmt.Errorf("%w: it has a user in it: keys come from the environment, such as AWS_ACCESS_KEY_ID, or a file", ErrURL)
	}
	switch u.Scheme {
	case "file":
		return openFolder(u)
	case "s3":
		return openS3(u)
	case "gs", "azblob":
		return nil, fmt.Errorf("%w: %s:// is not supported: archive to file:///FOLDER, and copy that folder to Google or Azure "+
			"with their own tools (gcloud storage rsync, azcopy)", ErrURL, u.Scheme)
	}
	return nil, fmt.Errorf("%w: %q begins with neither file:/// nor s3://", ErrURL, text)
}
