package audit_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/transparency-dev/formats/log"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/allot-project/allot/api/present"
	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/commandstest"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/ledgertest"
	"github.com/allot-project/allot/ledger/memlog"
)

// tiled is a ledger whose tiles are served over HTTP.
type tiled struct {
	*commandstest.Ledger
	url  string
	keys note.Verifiers
}

func tile(t *testing.T, records int) *tiled {
	t.Helper()
	l := commandstest.Start(t, t.TempDir(), &memlog.Log{})
	for n := range records - 1 { // the standard names are the first record
		l.Accept(t, &commands.CreateTrait{Name: fmt.Sprintf("CUSTOM_%d", n)})
	}
	signer, keys := ledgertest.Key(t)
	q := questionsTo(l)
	q.Notary = &present.Notary{Ledger: ledger.UUID{1}, Key: signer, Log: l.Log}
	mux := http.NewServeMux()
	for path, handler := range q.Handlers() {
		mux.Handle(path, handler)
	}
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return &tiled{l, server.URL + "/audit/tiles", keys}
}

// get asks for something below the tiles.
func (l *tiled) get(t *testing.T, path string) (*http.Response, []byte) {
	t.Helper()
	answer := commandstest.Must(http.Get(l.url + path))
	body, err := io.ReadAll(answer.Body)
	if err = errors.Join(err, answer.Body.Close()); err != nil {
		t.Fatal(err)
	}
	return answer, body
}

// tree reads the checkpoint.
func (l *tiled) tree(t *testing.T) tlog.Tree {
	t.Helper()
	answer, signed := l.get(t, "/checkpoint")
	if h := answer.Header; h.Get("Content-Type") != "text/plain; charset=utf-8" || h.Get("Cache-Control") != "no-store" {
		t.Errorf("the checkpoint has the headers %v", h)
	}
	var checkpoint log.Checkpoint
	opened, err := note.Open(signed, l.keys)
	if err == nil {
		_, err = checkpoint.Unmarshal([]byte(opened.Text))
	}
	if err != nil || checkpoint.Origin != "operator.example" {
		t.Fatalf("%+v, %v", checkpoint, err)
	}
	return tlog.Tree{N: int64(checkpoint.Size), Hash: tlog.Hash(checkpoint.Hash)}
}

// TestTilePaths: tiles are bytes that the client may keep for ever, and what is none is not found.
func TestTilePaths(t *testing.T) {
	t.Parallel()
	l := tile(t, 300)
	size := int(l.tree(t).N)
	const kept = "private, max-age=31536000, immutable"
	for path, length := range map[string]int{
		"/tile/0/000": 256 * 32, "/tile/0/001.p/1": 32, fmt.Sprintf("/tile/0/001.p/%d", size-256): (size - 256) * 32,
		"/tile/0/000.p/255": 255 * 32, "/tile/1/000.p/1": 32,
		"/tile/entries/000": -1, "/tile/entries/000.p/7": -1, "/tile/entries/001.p/1": -1,
	} {
		answer, body := l.get(t, path)
		got := fmt.Sprint(answer.StatusCode, answer.Header["Content-Type"], answer.Header["Cache-Control"])
		if got != "200 [application/octet-stream] ["+kept+"]" || length >= 0 && len(body) != length {
			t.Errorf("%s: %s, %d bytes", path, got, len(body))
		}
	}
	for _, path := range []string{
		"/", "/tile/", "/tile/0", "/tile/0/", "/tile/0/0", "/tile/0/001", fmt.Sprintf("/tile/0/001.p/%d", size-255),
		"/tile/0/000.p/0", "/tile/0/000.p/256", "/tile/0/000.p/01", "/tile/0/002.p/1", "/tile/1/000", "/tile/1/000.p/2",
		"/tile/2/000.p/1", "/tile/63/000.p/1", "/tile/64/000.p/1", "/tile/-1/000.p/1", "/tile/01/000", "/tile/0/x000/000",
		"/tile/0/x999/x999/x999/x999/x999/x999/999.p/1", "/tile/8/0/000", "/tile/data/000", "/tile/entries/001",
		"/tile/entries/x001/000", "/tile/entries/", "/tile/0/000%2Ep/1", "/tile/0/000/", "/tile/0/000.p/1/",
	} {
		answer, body := l.get(t, path)
		if answer.StatusCode != http.StatusNotFound || answer.Header.Get("Cache-Control") == kept {
			t.Errorf("%s: %d, %d bytes", path, answer.StatusCode, len(body))
		}
	}
}

// TestLongEntries: a record that does not fit into a bundle is named, and what asks for it, too;
// its hash is in the tiles.
func TestLongEntries(t *testing.T) {
	t.Parallel()
	l := tile(t, 10)
	provider := l.Provider(t, "p")
	many := make([]ledger.UUID, 4096)
	for i := range many {
		many[i] = commandstest.NewID()
	}
	before := l.tree(t).N
	at := l.Accept(t, &commands.ReplaceProviderAggregates{Provider: provider, Aggregates: many})
	proof := "404 /audit/proof/record?record=" + at.String()
	for bundle, want := range map[int64]string{before: "200 ", before + 1: proof} {
		answer, body := l.get(t, fmt.Sprintf("/tile/entries/000.p/%d", bundle))
		status, says, _ := strings.Cut(want, " ")
		if fmt.Sprint(answer.StatusCode) != status || !strings.Contains(string(body), says) {
			t.Errorf("%d: %d %s", bundle, answer.StatusCode, body)
		}
	}
	var data []byte
	err := l.Log.Read(t.Context(), at.Sequence, at.Sequence, func(e ledger.Entry) error {
		leaves, err := ledger.LeavesData(e.Data)
		data = leaves[at.Index]
		return err
	})
	_, hashes := l.get(t, fmt.Sprintf("/tile/0/000.p/%d", before+1))
	if leaf := ledger.LeafHash(data); err != nil || !bytes.HasSuffix(hashes, leaf[:]) || len(data) < 1<<16 {
		t.Errorf("%d bytes of a leaf: %v", len(data), err)
	}
}
