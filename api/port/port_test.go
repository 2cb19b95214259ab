package port

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/allot-project/allot/commands/fair"
	"github.com/allot-project/allot/ledger/ledgertest"
)

// timed is an answer that notes when its client has to take it.
type timed struct {
	*httptest.ResponseRecorder
	did []string
}

func (t *timed) Write(p []byte) (int, error) {
	t.did = append(t.did, fmt.Sprint("write ", len(p)))
	return t.ResponseRecorder.Write(p)
}

func (t *timed) SetReadDeadline(at time.Time) error  { return t.note("read", at) }
func (t *timed) SetWriteDeadline(at time.Time) error { return t.note("take", at) }

func (t *timed) note(what string, at time.Time) error {
	if at.IsZero() {
		what += " whenever"
	}
	t.did = append(t.did, what)
	return nil
}

// TestPiecesHaveDeadlines: a body has its time until it has come, and each piece of an
// answer has its own. Between pieces, as where a follower waits, nothing ends a request:
// over HTTP/2, where a deadline would, there is none.
func TestPiecesHaveDeadlines(t *testing.T) {
	t.Parallel()
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			t.Error(err)
		}
		if _, err := w.Write(make([]byte, pieceBytes+1)); err != nil {
			t.Error(err)
		}
		if err := http.NewResponseController(w).Flush(); err != nil {
			t.Error(err)
		}
	})
	first := fmt.Sprint("write ", pieceBytes)
	for major, want := range map[int][]string{
		1: {"read", "take whenever", "read whenever", "take", first, "take", "write 1", "take", "take"},
		2: {"read", "take whenever", "read whenever", "take", first, "take", "write 1", "take whenever", "take", "take whenever", "take"},
	} {
		p := &Port{requests: fair.NewPool(), logger: slog.New(slog.DiscardHandler)}
		var h http.Handler = handler
		p.handler.Store(&h)
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader("body"))
		r.ProtoMajor = major
		w := &timed{ResponseRecorder: httptest.NewRecorder()}
		if p.ServeHTTP(w, r); !slices.Equal(w.did, want) {
			t.Errorf("HTTP/%d: %q, want %q", major, w.did, want)
		}
	}
}

// TestConnectionsOfAnAddressAreBounded: one more than an address may have is closed, those
// before are served, and one that ends makes room.
func TestConnectionsOfAnAddressAreBounded(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	ledgertest.OK(t, err)
	p := New(listener, fair.NewPool(), slog.New(slog.DiscardHandler))
	server := p.Server(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusNoContent)
	}))
	served := make(chan error, 1)
	go func() { served <- p.Serve(server, nil) }()
	dial := func() net.Conn {
		conn, err := net.Dial("tcp", listener.Addr().String())
		ledgertest.OK(t, err)
		return conn
	}
	asks := func(conn net.Conn) error {
		if _, err := fmt.Fprint(conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
			return err
		}
		answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err == nil {
			err = answer.Body.Close()
		}
		return err
	}
	var conns []net.Conn
	for range fair.MaxRequestsEach {
		conns = append(conns, dial())
	}
	for i, conn := range conns {
		if err := asks(conn); err != nil {
			t.Fatalf("connection %d: %v", i, err)
		}
	}
	if err := asks(dial()); err == nil {
		t.Error("one too many is served")
	}
	ledgertest.OK(t, conns[0].Close())
	for asks(dial()) != nil { // the server hears of the end in its own time
	}
	if p.refused.Load() == 0 {
		t.Error("no refusal was counted")
	}
	ledgertest.OK(t, server.Close(), <-served)
}

// TestAddressesOfIPv6: a network of 64 bits is one client, as one machine may have all of
// it.
func TestAddressesOfIPv6(t *testing.T) {
	t.Parallel()
	for remote, want := range map[string]string{
		"192.0.2.1:1":                 "192.0.2.1",
		"[::ffff:192.0.2.1]:1":        "192.0.2.1",
		"[2001:db8::1]:1":             "2001:db8::/64",
		"[2001:db8::ffff:1]:2":        "2001:db8::/64",
		"[fe80::1%eth0]:1":            "fe80::/64",
		"a name that is no address:1": "a name that is no address:1",
	} {
		if got := hostOf(remote); got != want {
			t.Errorf("%s: %q, want %q", remote, got, want)
		}
	}
}

// TestConnectionsFillNoLog: what net/http says about connections is a few lines in the
// log, and what it says about the server is all there.
func TestConnectionsFillNoLog(t *testing.T) {
	t.Parallel()
	var logs bytes.Buffer
	to := ErrorLog(slog.New(slog.NewTextHandler(&logs, nil)))
	for range 1000 {
		to.Printf("http: TLS handshake error from 192.0.2.1:5: %s", strings.Repeat("x", 5000))
	}
	for range 1000 {
		to.Printf("http: TLS handshake error from 192.0.2.1:5: no certificate for x: panic serving")
	}
	if n := strings.Count(logs.String(), "TLS handshake error"); n < 10 || n > 30 || logs.Len() > 30<<10 {
		t.Errorf("%d lines of 1000, %d bytes", n, logs.Len())
	}
	for range 100 {
		to.Printf("http: panic serving 192.0.2.1:5: oh no\ngoroutine 1 [running]: ...")
	}
	if n := strings.Count(logs.String(), "oh no"); n != 100 {
		t.Errorf("%d of 100 panics are in the log", n)
	}
}
