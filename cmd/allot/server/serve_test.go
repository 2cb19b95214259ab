package server

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/uuid"

	"github.com/allot-project/allot/cmd/allot/operate"
	"github.com/allot-project/allot/cmd/internal/launchtest"
	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/ledgertest"
)

// startInside starts a server in this process.
func startInside(t *testing.T) *server {
	t.Helper()
	key := filepath.Join(t.TempDir(), "key")
	ledgertest.OK(t, (&operate.SigningKey{Name: "example", File: key}).Run())
	config := &Command{Data: t.TempDir(), HTTP: "127.0.0.1:0", SigningKey: key, Metrics: "127.0.0.1:0"}
	s := newServer(config, slog.New(slog.DiscardHandler))
	ledgertest.OK(t, s.start(t.Context()))
	return s
}

// wants sends a request and checks the status.
func (s *server) wants(t *testing.T, status int, method, path, body string) {
	t.Helper()
	door := &launchtest.Server{T: t, HTTP: s.rest.port.Addr().String()}
	door.Must(status, method, path, body)
}

// TestLeadStopsAndStarts: while a server does not lead it answers reads, and
// commands with 503. When it leads again commands go on, and everything that was
// written before is there.
func TestLeadStopsAndStarts(t *testing.T) {
	s := startInside(t)
	defer func() { ledgertest.OK(t, s.stop()) }()
	const rounds = 3
	var providers []string
	for round := range rounds {
		provider := uuid.NewString()
		create := fmt.Sprintf(`{"name":"p%d","uuid":%q}`, round, provider)
		s.wants(t, http.StatusOK, "POST", "/resource_providers", create)
		s.wants(t, http.StatusConflict, "POST", "/resource_providers", create) // the writer knows of it
		s.wants(t, http.StatusOK, "POST", "/audit/what-if", `{"steps":[],"questions":[]}`)
		providers = append(providers, provider)
		before := s.views.Checkpoint()
		ledgertest.OK(t, s.parts.stop(lead))
		for _, one := range providers {
			s.wants(t, http.StatusOK, "GET", "/resource_providers/"+one, "")
		}
		s.wants(t, http.StatusServiceUnavailable, "POST", "/resource_providers", `{"name":"refused"}`)
		if after := s.views.Checkpoint(); after != before {
			t.Errorf("without a leader the log has grown from %v to %v", before, after)
		}
		ledgertest.OK(t, s.parts.start(t.Context(), lead))
	}
	if last, err := s.log.all.Last(t.Context()); err != nil || last != rounds+1 {
		t.Errorf("the log ends at %d, %v; want the begin and %d providers", last, err, rounds)
	}
}

// TestLoneServerRaisesTheLevel: a single server with the ledger of a cluster, whose last term
// was of an older release, begins a term of its own, once.
func TestLoneServerRaisesTheLevel(t *testing.T) {
	s := startInside(t)
	older := &commands.BeginTerm{Leader: "a", Instance: commands.NewID(), Level: ledger.Level - 1}
	_, err := s.writer.Load().Submit(t.Context(), commands.Submission{ID: commands.NewID(), Actor: "test", Command: older})
	ledgertest.OK(t, err)
	for range 2 {
		ledgertest.OK(t, s.parts.stop(lead))
		ledgertest.OK(t, s.parts.start(t.Context(), lead))
		state, err := s.replica.commands().Fork(t.Context())
		ledgertest.OK(t, err)
		if got := state.Term(); got.Number != 2 || got.Level != ledger.Level || got.Leader != "a" {
			t.Errorf("%+v", got)
		}
	}
	ledgertest.OK(t, s.stop())
}

// TestServerEndsWithAPart: when a part ends by itself the server ends, too, and
// says why.
func TestServerEndsWithAPart(t *testing.T) {
	s := startInside(t)
	ledgertest.OK(t, s.rest.port.Close())
	if err := s.wait(t.Context()); !errors.Is(err, net.ErrClosed) {
		t.Errorf("got %v", err)
	}
	ledgertest.OK(t, s.stop())
}

// TestRouter: each path finds its own route, and no other.
func TestRouter(t *testing.T) {
	found := ""
	at := func(name string) http.Handler {
		return http.HandlerFunc(func(http.ResponseWriter, *http.Request) { found = name })
	}
	r := newRouter(at("others"), []route{{"/a", at("a")}, {"/a/", at("below a")}, {"/b/c", at("c")}, {"/d/", at("below d")}})
	for path, want := range map[string]string{
		"/a": "a", "/a/": "below a", "/a/x": "below a", "/ab": "others", "/a%2Fx": "others", "/b/c": "c", "/b/c/": "others",
		"/b": "others", "/d": "others", "/d/x/y": "below d", "/": "others", "/a//x": "below a",
	} {
		r.ServeHTTP(nil, httptest.NewRequest("GET", path, nil))
		if found != want {
			t.Errorf("%s: %s, want %s", path, found, want)
		}
	}
}

// TestOrderOfParts: the dependencies between parts, as the order in which they
// stop.
func TestOrderOfParts(t *testing.T) {
	s := newServer(&Command{}, slog.New(slog.DiscardHandler))
	var stops []string
	for _, one := range slices.Backward(s.parts.list) {
		if one.name == "" || one.start == nil || slices.Contains(stops, one.name) ||
			!slices.Contains([]phase{open, follow, lead}, one.phase) {
			t.Errorf("%q of phase %q is no proper part", one.name, one.phase)
		}
		stops = append(stops, one.name)
	}
	for _, c := range []struct{ first, then, why string }{
		{"REST door", "writer", "commands under way are answered"},
		{"REST door", "REST port", "it drains before the port is free"},
		{"NATS door", "writer", "commands under way are answered"},
		{"NATS door", "door connection", "answers are sent"},
		{"processes", "writer", "they submit"},
		{"writer", "disk space", "the watch frees a writer that a full disk holds up"},
		{"writer", "keeper", "its rejections are kept"},
		{"writer", "notices", "its commits are told"},
		{"writer", "door connection", "clients are answered"},
		{"disk reserve", "standard names", "commands of the start go through on a full disk"},
		{"disk reserve", "node providers", "commands of the start go through on a full disk"},
		{"notices", "notices connection", "it sends over it"},
		{"keeper", "log connection", "it appends"},
		{"disk space", "log connection", "it makes it anew"},
		{"log connection", "NATS server", "a server that goes first is an error of the connection's"},
		{"NATS server", "read models", "no reader repairs them from a log that is closed"},
		{"writer", "read models", "commits are folded"},
		{"writer", "high-water mark", "commits move it"},
		{"NATS server", "judgement", "what is not good is not opened"},
		{"REST port", "data folder", "no other process may have it yet"},
		{"State", "log", "it is read"},
	} {
		first, then := slices.Index(stops, c.first), slices.Index(stops, c.then)
		if first < 0 || then < 0 || first > then {
			t.Errorf("%s (%d) must stop before %s (%d): %s", c.first, first, c.then, then, c.why)
		}
	}
	if stops[len(stops)-1] != "data folder" {
		t.Errorf("%s stops after the data folder was given to others", stops[len(stops)-1])
	}
}

// TestMoreThanHalfOfTheWitnessesMustCosign: a server asks for so many, and for witnesses that differ.
func TestMoreThanHalfOfTheWitnessesMustCosign(t *testing.T) {
	c := &Command{SigningKey: "key"}
	for n, want := range []int{0, 1, 2, 2, 3, 3} {
		if n > 0 {
			c.Witness = append(c.Witness, ledgertest.WitnessKey(t, fmt.Sprintf("w%d.example", n))+" http://w.example")
		}
		if cfg, err := c.witnesses(); err != nil || len(cfg.Witnesses) != n || cfg.Quorum != want {
			t.Errorf("%d of %d witnesses, want %d: %v", cfg.Quorum, n, want, err)
		}
	}
	twice, unsigned := &Command{SigningKey: "key", Witness: append(c.Witness, c.Witness[0])}, &Command{Witness: c.Witness}
	for _, c := range []*Command{twice, unsigned} {
		if cfg, err := c.witnesses(); err == nil {
			t.Errorf("%+v", cfg)
		}
	}
}
