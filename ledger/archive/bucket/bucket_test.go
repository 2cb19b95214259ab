package bucket_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/allot-project/allot/ledger/archive/bucket"
	"github.com/allot-project/allot/ledger/archive/bucket/buckettest"
	"github.com/allot-project/allot/ledger/ledgertest"
)

// stores are all kinds of stores, empty.
func stores(t *testing.T, test func(*testing.T, bucket.Store)) {
	t.Helper()
	for kind, url := range map[string]func(*testing.T) string{
		"folder": func(t *testing.T) string { return "file://" + t.TempDir() },
		"S3":     func(t *testing.T) string { return buckettest.URL(buckettest.S3(t), "a/b") },
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			store := ledgertest.Must(bucket.Open(url(t)))
			test(t, store)
		})
	}
}

func contents(t *testing.T, text string) (*os.File, int64) {
	t.Helper()
	file := ledgertest.Must(os.Create(filepath.Join(t.TempDir(), "contents")))
	t.Cleanup(func() { _ = file.Close() }) // it was only read
	ledgertest.Must(file.WriteString(text))
	return file, int64(len(text))
}

func create(t *testing.T, s bucket.Store, name, text string) error {
	t.Helper()
	file, size := contents(t, text)
	return s.Create(t.Context(), name, file, size)
}

func read(t *testing.T, s bucket.Store, name string) string {
	t.Helper()
	body := ledgertest.Must(s.Open(t.Context(), name))
	text, err := io.ReadAll(body)
	ledgertest.OK(t, err, body.Close())
	return string(text)
}

// TestWrittenOnce: of many that write an object at once one succeeds, and it
// never changes afterwards.
func TestWrittenOnce(t *testing.T) {
	t.Parallel()
	stores(t, func(t *testing.T, s bucket.Store) {
		if _, err := s.Open(t.Context(), "parts/1"); !errors.Is(err, bucket.ErrNotFound) {
			t.Errorf("nothing there: %v", err)
		}
		var written atomic.Int32
		var winner atomic.Pointer[string]
		var all sync.WaitGroup
		for i := range 8 {
			text := strings.Repeat(fmt.Sprint(i), 100_000)
			file, size := contents(t, text)
			all.Go(func() {
				for err := bucket.ErrUnavailable; errors.Is(err, bucket.ErrUnavailable); { // S3 may say: try again
					err = s.Create(t.Context(), "parts/1", file, size)
					switch {
					case err == nil:
						written.Add(1)
						winner.Store(&text)
					case !errors.Is(err, bucket.ErrExists) && !errors.Is(err, bucket.ErrUnavailable):
						t.Error(err)
					}
				}
			})
		}
		all.Wait()
		if written.Load() != 1 {
			t.Fatalf("%d have written it", written.Load())
		}
		if err := create(t, s, "parts/1", "other"); !errors.Is(err, bucket.ErrExists) {
			t.Errorf("again: %v", err)
		}
		if got := read(t, s, "parts/1"); got != *winner.Load() {
			t.Errorf("%.20q, and %.20q was written", got, *winner.Load())
		}
	})
}

// TestList: objects come in the order of their names, below a prefix.
func TestList(t *testing.T) {
	t.Parallel()
	stores(t, func(t *testing.T, s bucket.Store) {
		for _, name := range []string{"parts/3-c", "parts/1-a", "parts/2-b", "other", "parts/2-c"} {
			ledgertest.OK(t, create(t, s, name, name))
		}
		for _, c := range []struct{ prefix, want string }{
			{"parts/", "parts/1-a parts/2-b parts/2-c parts/3-c"}, {"parts/2-", "parts/2-b parts/2-c"}, {"parts/9-", ""}, {"none/", ""},
		} {
			var got []string
			err := s.List(t.Context(), c.prefix, func(o bucket.Object) error {
				if o.Size != int64(len(o.Name)) {
					t.Errorf("%+v", o)
				}
				got = append(got, o.Name)
				return nil
			})
			if err != nil || strings.Join(got, " ") != c.want {
				t.Errorf("%q: %q, %v; want %q", c.prefix, got, err, c.want)
			}
		}
		stop := errors.New("stop")
		if err := s.List(t.Context(), "parts/", func(bucket.Object) error { return stop }); !errors.Is(err, stop) {
			t.Errorf("%v", err)
		}
	})
}

// TestURLs: what names no bucket is refused with a reason, without secrets in it.
func TestURLs(t *testing.T) {
	t.Parallel()
	for url, says := range map[string]string{
		"": "begins with neither", "ftp://x": "begins with neither", "/srv/archive": "begins with neither", "file://host/x": "absolute path",
		"file:relative": "absolute path", "file:///x?y=z": "absolute path", "s3://": "names no bucket", "s3:///x": "names no bucket",
		"s3://key:secret@bucket/x": "has a user in it", "s3://abc?endpoint=x&other=1": `"other"`, "s3://abc?insecure=maybe": "neither true nor false",
		"s3://abc?endpoint=http://x:9000": "add insecure=true", "s3://abc?endpoint=http%3A%2F%2Fx%2Fy": "not HOST:PORT",
		"gs://bucket/x": "gcloud storage rsync", "azblob://container/x?account=a": "azcopy",
		"s3://abc?endpoint=storage.googleapis.com": "gcloud storage rsync", "s3://abc?endpoint=abc.Storage.googleapis.com:443": "is new",
		"s3://b/x": "names no bucket", "s3://under_score./x": "names no bucket", "s3://abc?endpoint=:": "", "s3://abc/%zz": "", "://": "",
	} {
		_, err := bucket.Open(url)
		if !errors.Is(err, bucket.ErrURL) || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "secret@") {
			t.Errorf("%q: %v; want an error with %q", url, err, says)
		}
	}
}

// TestAway: a store that does not answer is out of reach, and nothing else.
func TestAway(t *testing.T) {
	t.Parallel()
	for _, url := range []string{
		"file:///nowhere/at/all",
		"s3://bucket/x?insecure=true&region=r&endpoint=127.0.0.1:1", // the port is closed
	} {
		s, err := bucket.Open(url)
		ledgertest.OK(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		err = s.List(ctx, "parts/", func(bucket.Object) error { return nil })
		cancel()
		if !errors.Is(err, bucket.ErrUnavailable) {
			t.Errorf("%s: %v", url, err)
		}
	}
}

// TestRemove: copies can be removed, again, too, and nothing else.
func TestRemove(t *testing.T) {
	t.Parallel()
	stores(t, func(t *testing.T, s bucket.Store) {
		for _, name := range []string{"copies/files/1", "parts/1"} {
			ledgertest.OK(t, create(t, s, name, name))
		}
		for range 2 {
			ledgertest.OK(t, s.Remove(t.Context(), "copies/files/1"))
		}
		if _, err := s.Open(t.Context(), "copies/files/1"); !errors.Is(err, bucket.ErrNotFound) {
			t.Errorf("removed: %v", err)
		}
		for _, name := range []string{"parts/1", "copies/../parts/1", "copies"} {
			if err := s.Remove(t.Context(), name); !errors.Is(err, bucket.ErrForEver) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if got := read(t, s, "parts/1"); got != "parts/1" {
			t.Errorf("%q", got)
		}
	})
}

// TestOnlyRegularFilesAreOpened: what lies in a folder under an object's name, and is a
// pipe, a device or a folder, is named at once, and not waited for.
func TestOnlyRegularFilesAreOpened(t *testing.T) {
	dir := t.TempDir()
	store := ledgertest.Must(bucket.Open("file://" + dir))
	for name, make := range map[string]func(path string) error{
		"pipe":   func(path string) error { return syscall.Mkfifo(path, 0o600) },
		"device": func(path string) error { return os.Symlink("/dev/zero", path) },
		"folder": func(path string) error { return os.Mkdir(path, 0o700) },
	} {
		ledgertest.OK(t, make(filepath.Join(dir, name)))
		body, err := store.Open(t.Context(), name)
		if err == nil {
			err = body.Close()
			t.Errorf("a %s is opened: %v", name, err)
		} else if !strings.Contains(err.Error(), "no regular file") {
			t.Errorf("a %s: %v", name, err)
		}
	}
}
