package bucket

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/allot-project/allot/ledger/ledgertest"
)

// TestFolderThatDoesNotAnswer: a call that its file system never answers holds up no caller for
// longer than its context, whatever is called, and a folder that answers again is used again.
func TestFolderThatDoesNotAnswer(t *testing.T) {
	store, err := Open("file://" + t.TempDir())
	ledgertest.OK(t, err)
	f := store.(*folder)
	ledgertest.OK(t, os.WriteFile(filepath.Join(f.dir, "there"), []byte("x"), 0o600))
	hung := make(chan struct{})
	given, cancel := context.WithCancel(t.Context())
	for range stuckCalls {
		begun := make(chan struct{})
		go func() {
			<-begun
			cancel()
		}()
		_, err := within(given, f, func() (int, error) {
			close(begun)
			<-hung
			return 0, nil
		})
		if !errors.Is(err, ErrUnavailable) || !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		given, cancel = context.WithCancel(t.Context())
	}
	cancel()
	none := func(Object) error { return nil }
	_, opening := f.Open(given, "there")
	for what, err := range map[string]error{
		"open": opening, "list": f.List(given, "", none), "create": f.Create(given, "new", nil, 0), "remove": f.Remove(given, "copies/a"),
	} {
		if !errors.Is(err, ErrUnavailable) {
			t.Errorf("%s: %v", what, err)
		}
	}
	close(hung)
	if err := f.List(t.Context(), "", none); err != nil {
		t.Errorf("it answers again: %v", err)
	}
}
