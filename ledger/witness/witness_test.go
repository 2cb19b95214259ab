package witness_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/transparency-dev/formats/log"
	cosignature "github.com/transparency-dev/formats/note"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/ledgertest"
	"github.com/allot-project/allot/ledger/proof"
	"github.com/allot-project/allot/ledger/witness"
)

// someone is a witness: by the rules, unless it answers something else.
type someone struct {
	witness.Witness
	text     string // VKEY URL
	vkey     string
	signer   note.Signer
	operator note.Verifiers
	answers  http.HandlerFunc // instead of its own; nil: by the rules
	knows    tlog.Tree
	asked    atomic.Int64
}

func newWitness(t *testing.T, name string, operator note.Verifiers, answers http.HandlerFunc) *someone {
	t.Helper()
	private, public, err := note.GenerateKey(rand.Reader, name)
	ledgertest.OK(t, err)
	w := &someone{operator: operator, answers: answers}
	w.signer = ledgertest.Must(cosignature.NewSignerForCosignatureV1(private))
	w.vkey = ledgertest.Must(cosignature.VKeyToCosignatureV1(public))
	server := httptest.NewServer(w)
	t.Cleanup(server.Close)
	w.text = w.vkey + " " + server.URL + "/w/"
	w.Witness = ledgertest.Must(witness.Parse(w.text))
	return w
}

// ServeHTTP implements http.Handler.
func (w *someone) ServeHTTP(to http.ResponseWriter, r *http.Request) {
	w.asked.Add(1)
	if r.Method != http.MethodPost || r.URL.Path != "/w/add-checkpoint" {
		http.Error(to, "no such thing", http.StatusNotFound)
		return
	}
	if w.answers != nil {
		w.answers(to, r)
		return
	}
	body, _ := io.ReadAll(r.Body) // what is cut short is refused below
	status, answer := w.cosign(string(body))
	to.WriteHeader(status)
	_, _ = io.WriteString(to, answer) // the client is gone
}

// cosign does what the rules say.
func (w *someone) cosign(body string) (status int, answer string) {
	head, signed, _ := strings.Cut(body, "\n\n")
	lines := strings.Split(head, "\n")
	var old int64
	if _, err := fmt.Sscanf(lines[0], "old %d", &old); err != nil {
		return http.StatusBadRequest, "old?"
	}
	n, err := note.Open([]byte(signed), w.operator)
	if err != nil {
		return http.StatusForbidden, err.Error()
	}
	var c log.Checkpoint
	if _, err := c.Unmarshal([]byte(n.Text)); err != nil {
		return http.StatusBadRequest, err.Error()
	}
	if old != w.knows.N {
		return http.StatusConflict, fmt.Sprintln(w.knows.N)
	}
	var path tlog.TreeProof
	for _, line := range lines[1:] {
		hash, err := tlog.ParseHash(line)
		if err != nil {
			return http.StatusBadRequest, err.Error()
		}
		path = append(path, hash)
	}
	if old > 0 && tlog.CheckTree(path, int64(c.Size), tlog.Hash(c.Hash), old, w.knows.Hash) != nil {
		return http.StatusUnprocessableEntity, "no proof"
	}
	w.knows = tlog.Tree{N: int64(c.Size), Hash: tlog.Hash(c.Hash)}
	return http.StatusOK, w.lines(n.Text)
}

// lines are the lines of its signature of a text.
func (w *someone) lines(text string) string {
	signed, err := note.Sign(&note.Note{Text: text}, w.signer)
	if err != nil {
		return err.Error()
	}
	return string(signed[bytes.LastIndex(signed, []byte("\n\n"))+2:])
}

// history is a log that grows.
type history struct {
	tree   proof.Tree
	hashes []ledger.Digest
	signer note.Signer
	what   string
	grown  atomic.Int64 // how many proofs were made
}

func (h *history) grow(n int) {
	for range n {
		h.hashes = append(h.hashes, h.tree.Add([]ledger.Digest{sha256.Sum256(fmt.Append(nil, h.what, h.tree.Size()))})...)
	}
}

// newest is the checkpoint of the newest moment.
func (h *history) newest(context.Context) (*witness.Signed, error) {
	size := h.tree.Size()
	head := ledger.Head{Sequence: uint64(size)}
	c := proof.Checkpoint{Ledger: ledger.UUID{1}, Size: size, Root: h.tree.Root(), Head: head}
	signed, err := c.Sign(h.signer)
	growth := func(_ context.Context, from int64) ([]ledger.Digest, error) {
		h.grown.Add(1)
		return proof.Growth(from, c.Size, func(numbers []int64) (found []ledger.Digest, err error) {
			for _, n := range numbers {
				found = append(found, h.hashes[n])
			}
			return found, nil
		})
	}
	return &witness.Signed{Note: signed, Checkpoint: c, Growth: growth}, err
}

func open(
	t *testing.T, folder string, keys note.Verifiers, quorum int, patience time.Duration, list ...*someone,
) *witness.Group {
	t.Helper()
	cfg := witness.Config{
		Quorum: quorum, Operator: keys, Folder: folder, Patience: patience, Logger: slog.New(slog.DiscardHandler),
	}
	for _, w := range list {
		cfg.Witnesses = append(cfg.Witnesses, w.Witness)
	}
	g := ledgertest.Must(witness.Open(cfg))
	t.Cleanup(g.Close)
	return g
}

// TestCosigned: a checkpoint gets the cosignatures of all witnesses, each of which is told what
// has come since the one that it knows; the newest is kept, and found again after a start.
func TestCosigned(t *testing.T) {
	t.Parallel()
	signer, keys := ledgertest.Key(t)
	h, folder := &history{signer: signer}, t.TempDir()
	a, b := newWitness(t, "a.example", keys, nil), newWitness(t, "b.example", keys, nil)
	trust := proof.Trust{Operator: keys, Witnesses: []note.Verifier{a.Verifier, b.Verifier}, Quorum: 2}
	g := open(t, folder, keys, 2, time.Minute, a, b)
	check := func(g *witness.Group) {
		t.Helper()
		c := ledgertest.Must(g.Cosign(t.Context(), h.tree.Size(), h.newest))
		if got, err := trust.Open(c.Note); err != nil || got.Size != h.tree.Size() || g.Fault() != "" {
			t.Errorf("%+v, %v; %s", got, err, g.Fault())
		}
		for _, one := range g.Status() {
			if one.Size != h.tree.Size() || one.Fault != "" {
				t.Errorf("%+v", one)
			}
		}
	}
	for _, n := range []int{3, 1, 300} {
		h.grow(n)
		check(g)
	}
	if a.asked.Load() != 3 || h.grown.Load() != 4 {
		t.Errorf("asked %d times, with %d proofs", a.asked.Load(), h.grown.Load())
	}
	check(g) // it is kept
	again := open(t, folder, keys, 2, time.Minute, a, b)
	check(again)
	if a.asked.Load() != 3 {
		t.Error("a checkpoint that is kept was asked for")
	}
	h.grow(5)
	check(again)
	if a.asked.Load() != 4 {
		t.Errorf("asked %d times", a.asked.Load())
	}
	h.grow(5)
	check(g) // it does not know of the last one, and the witnesses do
	c := newWitness(t, "c.example", keys, nil)
	if fresh := open(t, folder, keys, 3, time.Minute, a, b, c); fresh.Kept() != nil {
		t.Error("a checkpoint is used that lacks a witness")
	}
	if kept := ledgertest.ReadFile(t, filepath.Join(folder, proof.CosignedFile)); !bytes.Equal(kept, g.Kept().Note) {
		t.Errorf("%s", kept)
	}
}

// TestFork: witnesses do not cosign another history, however long it is.
func TestFork(t *testing.T) {
	t.Parallel()
	signer, keys := ledgertest.Key(t)
	w := newWitness(t, "w.example", keys, nil)
	h, other := &history{signer: signer}, &history{signer: signer, what: "other"}
	h.grow(10)
	ledgertest.Must(open(t, t.TempDir(), keys, 1, time.Minute, w).Cosign(t.Context(), 10, h.newest))
	for n, why := range map[int]string{5: "another history", 10: "the history was changed", 15: "the history was changed"} {
		other.tree, other.hashes = proof.Tree{}, nil
		other.grow(n)
		g := open(t, t.TempDir(), keys, 1, time.Minute, w)
		c, err := g.Cosign(t.Context(), int64(n), other.newest)
		if c != nil || !errors.Is(err, witness.ErrQuorum) || !strings.Contains(err.Error(), why) ||
			!strings.Contains(g.Fault(), "w.example") {
			t.Errorf("%d records: %v, %v", n, c, err)
		}
	}
}

// TestBadWitnesses: of what a witness answers nothing is believed but its signature of this
// checkpoint, and a quorum does without it.
func TestBadWitnesses(t *testing.T) {
	t.Parallel()
	signer, keys := ledgertest.Key(t)
	text := func(answer string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, answer) }
	}
	status := func(status int, answer string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { http.Error(w, answer, status) }
	}
	never := func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // so that the end of the connection is seen
		<-r.Context().Done()
	}
	h := &history{signer: signer}
	h.grow(7)
	mine := ledgertest.Must(h.newest(t.Context()))
	own, _, _ := strings.Cut(string(mine.Note), "\n\n")
	other := newWitness(t, "bad.example", keys, nil) // of the same name, with another key
	var bad *someone
	later := func(text func() string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, text()) }
	}
	for what, c := range map[string]struct {
		answers http.HandlerFunc
		why     string
	}{
		"nothing":        {text(""), "no signature"},
		"garbage":        {text("<html>\n\n— \x00\n"), "no signature"},
		"too much":       {text(strings.Repeat("— a b\n", 1<<16)), "more than 16384 bytes"},
		"never":          {never, "not answered within"},
		"another text":   {later(func() string { return bad.lines(strings.Replace(own, "\n7\n", "\n8\n", 1) + "\n") }), "no signature"},
		"more text":      {later(func() string { return "\n" + bad.lines(string(mine.Note)) }), "another text"},
		"another key":    {later(func() string { return other.lines(own + "\n") }), "no signature"},
		"the operator":   {text(string(mine.Note[len(own)+2:])), "no signature"},
		"elsewhere":      {http.RedirectHandler("/x", http.StatusTemporaryRedirect).ServeHTTP, "sends requests elsewhere"},
		"no size":        {status(409, "seven"), "does not say which"},
		"a larger size":  {status(409, "8"), "has another history"},
		"a size below 0": {status(409, "-1"), "does not say which"},
		"the same size":  {status(409, "7"), "another checkpoint each time"},
		"unknown log":    {status(404, "who?"), "does not know the log"},
		"unknown key":    {status(403, "no"), "does not know the key"},
		"no proof":       {status(422, "no"), "the history was changed"},
		"a fault":        {status(500, strings.Repeat("oh", 1<<12)), "Internal Server Error"},
	} {
		t.Run(what, func(t *testing.T) {
			patience := time.Minute
			if what == "never" {
				patience = 50 * time.Millisecond
			}
			bad = newWitness(t, "bad.example", keys, c.answers)
			folder := t.TempDir()
			g := open(t, folder, keys, 1, patience, bad)
			got, err := g.Cosign(t.Context(), 7, h.newest)
			if got != nil || !errors.Is(err, witness.ErrQuorum) || !strings.Contains(err.Error(), "bad.example: ") ||
				!strings.Contains(err.Error(), c.why) || len(err.Error()) > 1000 {
				t.Errorf("%v, %v; want %q", got, err, c.why)
			}
			if g.Kept() != nil || g.Fault() == "" || g.Status()[0].Size != 0 {
				t.Errorf("%+v, %q, %+v", g.Kept(), g.Fault(), g.Status())
			}
			if left, err := os.ReadDir(folder); err != nil || len(left) > 0 {
				t.Errorf("%v, %v", left, err)
			}
			good, fine := newWitness(t, "good.example", keys, nil), newWitness(t, "fine.example", keys, nil)
			trust := proof.Trust{Operator: keys, Witnesses: []note.Verifier{bad, good, fine}, Quorum: 2}
			quorum := ledgertest.Must(open(t, folder, keys, 2, patience, bad, good, fine).Cosign(t.Context(), 7, h.newest))
			ledgertest.Must(trust.Open(quorum.Note))
		})
	}
}

// TestNoWitnesses: what names no witness is refused.
func TestNoWitnesses(t *testing.T) {
	t.Parallel()
	_, keys := ledgertest.Key(t)
	w := newWitness(t, "w.example", keys, nil)
	_, plain, err := note.GenerateKey(rand.Reader, "w.example")
	ledgertest.OK(t, err)
	for _, text := range []string{
		"", w.vkey, w.vkey + " http://a http://b", "x http://a", plain + " http://a", w.vkey[:len(w.vkey)-4] + " http://a",
		w.vkey + " ftp://a", w.vkey + " a.example", w.vkey + " http://u:p@a", w.vkey + " http://a?x=y",
		strings.Replace(w.vkey, "w.example", "v.example", 1) + " http://a",
	} {
		if one, err := witness.Parse(text); err == nil {
			t.Errorf("%q is %+v", text, one)
		}
	}
	for _, cfg := range []witness.Config{
		{}, {Quorum: 1}, {Witnesses: []witness.Witness{w.Witness}}, {Witnesses: []witness.Witness{w.Witness}, Quorum: 2},
		{Witnesses: slices.Repeat([]witness.Witness{w.Witness}, 2), Quorum: 1},
	} {
		if g, err := witness.Open(cfg); err == nil {
			t.Errorf("%+v: %v", cfg, g)
		}
	}
}
