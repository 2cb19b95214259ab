// Package port is an HTTP port: its connections and requests, bounded in all and by address,
// and what its clients do not send or take in time.
package port

import (
	"crypto/tls"
	"errors"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/allot-project/allot/commands/fair"
)

// A client that connects and is silent, or slow, must not hold a goroutine, memory or a
// place for ever. So the connections and requests of an HTTP port are bounded, in all
// and by address, and what its client does not send or take in time ends a request.

const (
	readHeaderTimeout = 10 * time.Second
	// readTimeout is how long a body may take.
	readTimeout    = 60 * time.Second
	idleTimeout    = 2 * time.Minute
	maxHeaderBytes = 64 << 10
	// takesWithin is how long a client may take for the next pieceBytes of an answer.
	takesWithin = 10 * time.Second
	pieceBytes  = 64 << 10
)

// bounds are those of HTTP/2: each request has a goroutine, and streamWindow is how much
// of bodies that no handler has read a connection may have sent.
func bounds() *http.HTTP2Config {
	const streamWindow, largestFrame = 256 << 10, 64 << 10
	return &http.HTTP2Config{
		MaxConcurrentStreams: 100, MaxReadFrameSize: largestFrame,
		MaxReceiveBufferPerConnection: streamWindow, MaxReceiveBufferPerStream: streamWindow,
	}
}

// Port is the listener of an HTTP port, and the handler in front of all others.
type Port struct {
	net.Listener
	handler     atomic.Pointer[http.Handler]
	requests    *fair.Pool
	connections *fair.Pool
	refused     atomic.Int64 // connections and requests that got no place
	lines       *fair.FewLines
	logger      *slog.Logger
}

// New makes a port of a listener. Its requests are counted in a pool.
func New(listener net.Listener, requests *fair.Pool, logger *slog.Logger) *Port {
	return &Port{
		Listener: listener, requests: requests, connections: fair.NewPool(), lines: fair.NewFewLines(), logger: logger,
	}
}

// Server returns the server of the port. Until Answer is called again, a handler answers.
func (p *Port) Server(handler http.Handler) *http.Server {
	p.Answer(handler)
	return &http.Server{
		Addr: p.Addr().String(), Handler: p, ErrorLog: ErrorLog(p.logger),
		ReadHeaderTimeout: readHeaderTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeaderBytes, HTTP2: bounds(),
	}
}

// Answer has another handler answer requests.
func (p *Port) Answer(handler http.Handler) { p.handler.Store(&handler) }

// Handler is what answers requests now.
func (p *Port) Handler() http.Handler { return *p.handler.Load() }

// Refused is how many connections and requests got no place.
func (p *Port) Refused() int64 { return p.refused.Load() }

// Connections is how many connections there are.
func (p *Port) Connections() int { return p.connections.Requests() }

// Serve serves the port until its server is closed. Requests that net/http refuses by
// itself get Placement's format, unless TLS hides them.
func (p *Port) Serve(server *http.Server, secure *tls.Config) error {
	var listener net.Listener = plainErrors{p}
	if secure != nil {
		secure = secure.Clone()
		secure.NextProtos = []string{"h2", "http/1.1"}
		listener = tls.NewListener(p, secure)
	}
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// Accept implements net.Listener. It closes connections that get no place.
func (p *Port) Accept() (net.Conn, error) {
	for {
		c, err := p.Listener.Accept()
		if err != nil {
			return nil, err
		}
		from := hostOf(c.RemoteAddr().String())
		leave, err := p.connections.Enter(from)
		if err == nil {
			return &connection{Conn: c, leave: sync.OnceFunc(leave)}, nil
		}
		p.tellRefused("connections", from)
		_ = c.Close() // the client is told by that
	}
}

// connection is a connection with a place.
type connection struct {
	net.Conn
	leave func()
}

// Close implements net.Conn.
func (c *connection) Close() error {
	c.leave()
	return c.Conn.Close()
}

func (p *Port) tellRefused(what, from string) {
	p.refused.Add(1)
	if leftOut, may := p.lines.Next(); may {
		p.logger.Warn("an HTTP client is refused: it, or all clients together, have too many "+what,
			"address", from, "each", fair.MaxRequestsEach, "all", fair.MaxRequests, "left_out", leftOut)
	}
}

// hostOf returns what counts as one address: of IPv6, a network of 64 bits, of which
// one machine may have all addresses.
func hostOf(remote string) string {
	at, err := netip.ParseAddrPort(remote)
	if err != nil {
		return remote
	}
	if address := at.Addr().Unmap(); address.Is4() {
		return address.String()
	}
	prefix, err := at.Addr().WithZone("").Prefix(64)
	if err != nil {
		return remote
	}
	return prefix.String()
}

// ServeHTTP implements http.Handler.
func (p *Port) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	from := hostOf(r.RemoteAddr)
	leave, err := p.requests.Enter(from)
	if err != nil {
		p.tellRefused("requests under way", from)
		w.Header().Set("Retry-After", "1")
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	defer leave()
	a := &answer{ResponseWriter: w, control: http.NewResponseController(w), streams: r.ProtoMajor == 2}
	defer a.finish()
	if body := r.Body; body != nil && body != http.NoBody {
		// If one of these fails, the client has gone. The deadline of the answer before would
		// keep net/http from telling the client to go on (Expect: 100-continue).
		_, _ = a.control.SetReadDeadline(time.Now().Add(readTimeout)), a.control.SetWriteDeadline(time.Time{})
		r.Body = &timedBody{body, a.control}
		defer func() { r.Body = body }() // net/http looks whether its own has a rest
	}
	(*p.handler.Load()).ServeHTTP(a, r)
}

// timedBody is a body whose time ends with it: what a handler does then may take longer.
type timedBody struct {
	io.ReadCloser
	control *http.ResponseController
}

// Read implements io.Reader.
func (b *timedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if errors.Is(err, io.EOF) {
		_ = b.control.SetReadDeadline(time.Time{}) // if that fails, the client has gone
	}
	return n, err
}

// answer is an answer that its client must take: each piece has its own deadline, so a
// follower may listen for as long as it likes.
type answer struct {
	http.ResponseWriter
	control *http.ResponseController
	streams bool // HTTP/2: a deadline ends a request even while nothing is written
}

// Write implements io.Writer.
func (a *answer) Write(p []byte) (n int, err error) {
	for {
		if err := a.begin(); err != nil {
			return n, err
		}
		took, err := a.ResponseWriter.Write(p[n:min(len(p), n+pieceBytes)])
		if n += took; err != nil || n == len(p) {
			return n, errors.Join(err, a.end())
		}
	}
}

// FlushError is what http.ResponseController calls to flush.
func (a *answer) FlushError() error {
	if err := a.begin(); err != nil {
		return err
	}
	return errors.Join(a.control.Flush(), a.end())
}

func (a *answer) begin() error { return a.control.SetWriteDeadline(time.Now().Add(takesWithin)) }

func (a *answer) end() error {
	if !a.streams {
		return nil
	}
	return a.control.SetWriteDeadline(time.Time{})
}

// finish gives the rest of the answer, which is sent after the handler, its time.
func (a *answer) finish() { _ = a.begin() } // if that fails, the client has gone

// Unwrap lets http.ResponseController reach the connection.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// ErrorLog is where net/http writes what connections do wrong, and what it did itself.
func ErrorLog(logger *slog.Logger) *log.Logger {
	return log.New(&connectionLines{logger, fair.NewFewLines()}, "", 0)
}

// connectionLines keeps clients from filling the log, as with handshakes that fail.
type connectionLines struct {
	logger *slog.Logger
	few    *fair.FewLines
}

// Write implements io.Writer. A line is written at a time.
func (l *connectionLines) Write(line []byte) (int, error) {
	text := strings.TrimSpace(string(line))
	if _, what, _ := strings.Cut(text, ": "); strings.HasPrefix(what, "panic serving") { // it has to be found
		l.logger.Error(text)
	} else if leftOut, may := l.few.Next(); may {
		l.logger.Warn(fair.Shortened(text), "left_out", leftOut)
	}
	return len(line), nil
}
