package operate

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/allot-project/allot/cmd/internal/cli"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/archive"
	"github.com/allot-project/allot/ledger/ledgertest"
	"github.com/allot-project/allot/ledger/proof"
)

// TestServerSigns: a server's signature goes into an archive only if it is about the log
// that came from it; without a key there is none.
func TestServerSigns(t *testing.T) {
	t.Parallel()
	signer, _ := ledgertest.Key(t)
	is := proof.Checkpoint{
		Ledger: ledger.UUID{1}, Size: 3, Root: ledger.Digest{2}, Head: ledger.Head{Sequence: 2, Digest: ledger.Digest{3}},
	}
	another, later := is, is
	another.Root, later.Sequence = ledger.Digest{4}, 5
	for _, c := range []struct {
		name   string
		says   *proof.Checkpoint // nil: the answer is code
		code   int
		signed bool
		fails  bool
		err    error // if it fails; nil: any
	}{
		{name: "the same", says: &is, signed: true},
		{name: "another log", says: &another, fails: true, err: archive.ErrFork},
		{name: "another commit", says: &later, fails: true, err: archive.ErrFork},
		{name: "no key", code: http.StatusNotFound},
		{name: "not allowed", code: http.StatusForbidden, fails: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if c.says == nil {
					w.WriteHeader(c.code)
					return
				}
				if at := r.URL.Query().Get("at"); r.URL.Path != "/audit/checkpoint" || at != fmt.Sprint(is.Sequence) {
					t.Errorf("%s was asked for", r.URL)
				}
				signed, err := c.says.Sign(signer)
				if err != nil {
					t.Error(err)
				}
				_, _ = w.Write(signed) // the client has gone otherwise
			}))
			defer s.Close()
			server, err := cli.Server{URL: s.URL}.Client()
			ledgertest.OK(t, err)
			signed, err := (&httpLog{server: server}).sign(t.Context(), &is)
			if (err != nil) != c.fails || c.err != nil && !errors.Is(err, c.err) {
				t.Errorf("%v, want %v", err, c.err)
			}
			if err == nil && (len(signed) > 0) != c.signed {
				t.Errorf("signed: %q", signed)
			}
		})
	}
}
