package audit_test

import (
	"bytes"
	"encoding/binary"
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
	"github.com/allot-project/allot/ledger/proof"
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
	answer, err := http.Get(l.url + path)
	if err != nil {
		t.Fatal(err)
	}
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

// tiles reads tiles for tlog's readers of trees.
type tiles struct {
	*tiled
	t *testing.T
}

func (tiles) Height() int { return 8 }

func (r tiles) ReadTiles(list []tlog.Tile) (data [][]byte, err error) {
	for _, one := range list {
		answer, body := r.get(r.t, "/"+proof.TilePath(one))
		if answer.StatusCode != http.StatusOK {
			return nil, errors.New(answer.Status)
		}
		data = append(data, body)
	}
	return data, nil
}

func (tiles) SaveTiles([]tlog.Tile, [][]byte) {}

// entries reads the records of a bundle.
func (l *tiled) entries(t *testing.T, size, first int64) (list [][]byte) {
	t.Helper()
	wide := int(min(size-first, proof.Wide))
	data, err := tiles{l, t}.ReadTiles([]tlog.Tile{{H: 8, L: -1, N: first / proof.Wide, W: wide}})
	if err != nil {
		t.Fatal(err)
	}
	for rest := data[0]; len(rest) > 1; {
		long := 2 + int(binary.BigEndian.Uint16(rest))
		list, rest = append(list, rest[2:long]), rest[long:]
	}
	if len(list) != wide {
		t.Fatalf("%d of %d entries", len(list), wide)
	}
	return list
}

// TestTilesForOthers: tlog's reader of tiles proves all records of the log with ours, and that
// the log has grown.
func TestTilesForOthers(t *testing.T) {
	t.Parallel()
	l := tile(t, 600)
	tree := l.tree(t)
	hashes := tlog.TileHashReader(tree, tiles{l, t})
	for first := int64(0); first < tree.N; first += proof.Wide {
		for i, entry := range l.entries(t, tree.N, first) {
			number := first + int64(i)
			at, record, err := ledger.DecodeLeafData(entry)
			if want, found, wantErr := l.Views.View().Leaf(at); err != nil || wantErr != nil || !found || number != want ||
				record.Command == "" {
				t.Fatalf("entry %d is %v, %+v: %v", number, at, record, err)
			}
			if number%97 != 0 && number < tree.N-2 {
				continue
			}
			path, err := tlog.ProveRecord(tree.N, number, hashes)
			if err == nil {
				err = tlog.CheckRecord(path, tree.N, tree.Hash, number, tlog.RecordHash(entry))
			}
			if err != nil {
				t.Errorf("record %d: %v", number, err)
			}
		}
	}
	for n := range 300 {
		l.Accept(t, &commands.CreateTrait{Name: fmt.Sprint("CUSTOM_MORE_", n)})
	}
	later := l.tree(t)
	growth, err := tlog.ProveTree(later.N, tree.N, tlog.TileHashReader(later, tiles{l, t}))
	if err == nil {
		err = tlog.CheckTree(growth, later.N, later.Hash, tree.N, tree.Hash)
	}
	if err != nil || later.N <= tree.N {
		t.Errorf("from %d to %d: %v", tree.N, later.N, err)
	}
	other := tlog.Tree{N: later.N, Hash: tree.Hash}
	if _, err := tlog.ProveRecord(other.N, 3, tlog.TileHashReader(other, tiles{l, t})); err == nil {
		t.Error("the tiles prove another tree")
	}
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
