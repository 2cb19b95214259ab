package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/allot-project/allot/api/turns"
)

// TestFrames: an allowance is used up by what comes and filled up by time and by what is
// accounted for, within its bounds.
func TestFrames(t *testing.T) {
	now := time.Now()
	f := newFrames()
	for _, step := range []struct {
		name         string
		after        time.Duration
		takes, gives int
		left         int
		used         bool
	}{
		{"a new one is full", 0, 0, 0, framesAtOnce, false},
		{"nothing fills it further", time.Hour, 0, 1000, framesAtOnce, false},
		{"what comes is taken", 0, framesAtOnce, 0, 0, false},
		{"one more byte uses it up", 0, 1, 0, -1, true},
		{"what is accounted for comes back", 0, 0, 101, 100, true},
		{"and is there", 0, 0, 0, 100, false},
		{"a second gives its share", time.Second, 0, 0, 100 + frameBytes, false},
		{"nobody owes more than may come at once", 0, 100 * framesAtOnce, 0, -framesAtOnce, true},
		{"and pays it back in time", 5 * time.Second, 0, 0, 0, false},
	} {
		now = now.Add(step.after)
		if used := f.takes(step.takes, now); used != step.used {
			t.Errorf("%s: used up: %t", step.name, used)
		}
		if f.gives(step.gives); f.left != step.left {
			t.Errorf("%s: %d left, and not %d", step.name, f.left, step.left)
		}
	}
	if f.isFull(now) || !f.isFull(now.Add(5*time.Second)) {
		t.Error("it does not know whether it is full")
	}
	if nobody := (*frames)(nil); nobody.takes(1<<30, now) {
		t.Error("without an allowance somebody waits")
	} else {
		nobody.gives(1)
	}
}

// framed is a server of HTTP/2 with the allowance of its only client.
type framed struct {
	t     *testing.T
	l     *connections
	read  atomic.Int64 // bytes
	roots *x509.CertPool
}

// countedListener counts what its connections read.
type countedListener struct {
	net.Listener
	read *atomic.Int64
}

// Accept implements net.Listener.
func (l countedListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	return countedConn{c, l.read}, err
}

type countedConn struct {
	net.Conn
	read *atomic.Int64
}

func (c countedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.read.Add(int64(n))
	return n, err
}

// launchFramed starts one, beside which another address is there, or none.
func launchFramed(t *testing.T, others bool, handler http.HandlerFunc) *framed {
	t.Helper()
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &framed{t: t, roots: x509.NewCertPool()}
	f.l = newConnections(countedListener{inner, &f.read}, connectionFlags{}, quietLogger())
	f.l.lines = turns.NewLines(2)
	certified := httptest.NewTLSServer(nil) // which has a certificate for this machine
	defer certified.Close()
	f.roots.AddCert(certified.Certificate())
	s := newSecured(f.l, certified.TLS)
	h := &http.Server{
		Handler: paced(handler, turns.New(1)), ConnContext: withConnection, HTTP2: bounds(), ReadTimeout: readTimeout,
	}
	var served sync.WaitGroup
	served.Go(func() { _ = h.Serve(s) }) // it ends with the listener
	ctx, stop := context.WithCancel(t.Context())
	if others {
		turn := f.l.lines.For(netip.MustParsePrefix("192.0.2.1/32"))
		served.Go(func() {
			for ctx.Err() == nil {
				_ = turn.Take(ctx)
				turn.GiveUp()
				time.Sleep(10 * time.Millisecond)
			}
		})
	}
	t.Cleanup(func() {
		stop()
		f.l.cutAll()
		_ = h.Close()
		served.Wait()
	})
	return f
}

// usedUp reports whether the client has used its allowance up.
func (f *framed) usedUp() bool {
	f.l.mu.Lock()
	defer f.l.mu.Unlock()
	return f.l.frames[netip.MustParsePrefix("127.0.0.1/32")].takes(0, time.Now())
}

// closeAll ends connections that have used their allowance up, as net/http does, and
// reports whether there were some.
func (f *framed) closeAll() bool {
	f.l.mu.Lock()
	all := slices.Collect(maps.Keys(f.l.all))
	f.l.mu.Unlock()
	for _, c := range all {
		c.frames.takes(2*framesAtOnce, time.Now())
		_ = c.Close() // nothing is expected of it
	}
	return len(all) > 0
}

// struck reports whether new connections of the client begin slowly.
func (f *framed) struck() bool {
	f.l.arrivals.mu.Lock()
	defer f.l.arrivals.mu.Unlock()
	return !f.l.arrivals.lineOf(netip.MustParsePrefix("127.0.0.1/32")).struck.IsZero()
}

// TestHonestFramesAreAccountedFor: whatever a client asks for, sends and takes that waits
// for its answers, it keeps its allowance.
func TestHonestFramesAreAccountedFor(t *testing.T) {
	t.Parallel()
	f := launchFramed(t, true, func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			t.Error(err)
		}
		if r.URL.Path == "/much" {
			for range 64 {
				if _, err := w.Write(make([]byte, 256<<10)); err != nil {
					t.Error(err)
				}
			}
		}
	})
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: f.roots}, ForceAttemptHTTP2: true}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	address := "https://" + f.l.Addr().String()
	for _, c := range []struct {
		name, method, path string
		body               []byte
		times              int
	}{
		{"small requests", http.MethodGet, "/", nil, 5000},
		{"long ones", http.MethodGet, "/?" + strings.Repeat("resources=VCPU:1&", 200), nil, 1000},
		{"bodies", http.MethodPost, "/", bytes.Repeat([]byte("x"), 4<<20), 8},
		{"large answers", http.MethodGet, "/much", nil, 4},
	} {
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				for i := range c.times / 4 {
					r, err := http.NewRequestWithContext(t.Context(), c.method, address+c.path, bytes.NewReader(c.body))
					if err != nil {
						t.Error(err)
						return
					}
					r.Header.Set("X-Auth-Token", strings.Repeat(fmt.Sprint(i), 300)) // not the last one's
					answer, err := client.Do(r)
					if err != nil {
						t.Errorf("%s: %v", c.name, err)
						return
					}
					if _, err := io.Copy(io.Discard, answer.Body); err != nil || answer.ProtoMajor != 2 {
						t.Errorf("%s: %v over %s", c.name, err, answer.Proto)
					}
					_ = answer.Body.Close() // it was read
				}
			})
		}
		done := make(chan struct{})
		go func() {
			all.Wait()
			close(done)
		}()
		for ended := false; !ended; {
			select {
			case <-done:
				ended = true
			case <-time.After(time.Millisecond):
			}
			if f.usedUp() {
				t.Errorf("%s use it up", c.name)
				<-done
				ended = true
			}
		}
	}
}

// TestUnreadBodiesWait: of bodies that no handler reads only so much comes in of a
// connection, however many they are.
func TestUnreadBodiesWait(t *testing.T) {
	t.Parallel()
	f := launchFramed(t, false, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: f.roots}, ForceAttemptHTTP2: true}
	ctx, stop := context.WithCancel(t.Context())
	var all sync.WaitGroup
	defer all.Wait()
	defer stop()
	for range 4 {
		all.Go(func() {
			body := bytes.NewReader(make([]byte, 4*streamWindow))
			r, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://"+f.l.Addr().String(), body)
			if err != nil {
				t.Error(err)
				return
			}
			if _, err := transport.RoundTrip(r); !errors.Is(err, context.Canceled) { //nolint:bodyclose // there is none
				t.Errorf("it is not answered, and ends with %v", err)
			}
		})
	}
	for end := time.Now().Add(time.Minute); f.read.Load() < streamWindow; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("only %d bytes come in", f.read.Load())
		}
	}
	time.Sleep(300 * time.Millisecond)
	if conns := f.l.count(); conns != 1 {
		t.Errorf("there are %d connections", conns)
	}
	if n := f.read.Load(); n > streamWindow+32<<10 { // and frames, TLS, handshake
		t.Errorf("%d bytes are read of bodies that nobody wants", n)
	}
}

// TestFramesForNothingWait: who sends frames that ask for nothing is not read beyond its
// allowance while others are there. Alone it is.
func TestFramesForNothingWait(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		next func(to *http2.Framer, stream uint32) error
	}{
		{"pings", func(to *http2.Framer, _ uint32) error { return to.WritePing(false, [8]byte{}) }},
		{"settings", func(to *http2.Framer, _ uint32) error { return to.WriteSettings() }},
		{"resets", func(to *http2.Framer, stream uint32) error {
			return errors.Join(to.WriteHeaders(http2.HeadersFrameParam{
				StreamID: stream, BlockFragment: asksForRoot(), EndHeaders: true, EndStream: true,
			}), to.WriteRSTStream(stream, http2.ErrCodeCancel))
		}},
	} {
		for _, others := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, others %t", c.name, others), func(t *testing.T) {
				t.Parallel()
				f := launchFramed(t, others, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
				conn, err := tls.Dial("tcp", f.l.Addr().String(), &tls.Config{RootCAs: f.roots, NextProtos: protocols})
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = conn.NetConn().Close() }()
				go func() { _, _ = io.Copy(io.Discard, conn) }() // until it is closed
				const much = 6 * framesAtOnce
				begun := time.Now()
				sent := make(chan struct{})
				go func() {
					defer close(sent)
					var some bytes.Buffer
					to := http2.NewFramer(&some, nil)
					some.WriteString(http2.ClientPreface)
					_ = to.WriteSettings() // into memory
					for stream := uint32(1); ; stream += 2 {
						_ = c.next(to, stream)
						if some.Len() < 8<<10 {
							continue
						}
						if _, err := conn.Write(some.Bytes()); err != nil || f.read.Load() > much {
							return
						}
						some.Reset()
					}
				}()
				if !others {
					select {
					case <-sent:
					case <-time.After(time.Minute):
						t.Errorf("only %d bytes are read of who is alone", f.read.Load())
					}
					return
				}
				for !f.usedUp() && time.Since(begun) < time.Minute {
					time.Sleep(time.Millisecond)
				}
				before, since := f.read.Load(), time.Now()
				time.Sleep(500 * time.Millisecond)
				most := int64(time.Since(since).Seconds()*frameBytes) + 64<<10 // and what is read at once
				if n := f.read.Load() - before; n > most {
					t.Errorf("%d bytes are read beyond the allowance, which may be %d", n, most)
				}
				if f.closeAll() && !f.struck() {
					t.Error("its connection has ended, and new ones of it begin as before")
				}
			})
		}
	}
}

// asksForRoot is the block of headers of a request.
func asksForRoot() []byte {
	var block bytes.Buffer
	to := hpack.NewEncoder(&block)
	to.SetMaxDynamicTableSize(0)
	for _, field := range [][2]string{{":method", "GET"}, {":scheme", "https"}, {":authority", "localhost"}, {":path", "/"}} {
		_ = to.WriteField(hpack.HeaderField{Name: field[0], Value: field[1]}) // into memory
	}
	return block.Bytes()
}
