package main_test

import (
	"bufio"
	"crypto/tls"
	bits "encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Bounds of an HTTP port, as docs/security.md tells them, with time for a busy
// machine.
const (
	paceTime  = 10 * time.Second // within which a client must go on
	paceSlack = 12 * time.Second
)

// dialsHTTP opens a connection to a server's HTTP port, from one of this machine's
// addresses.
func dialsHTTP(t *testing.T, s *server, from string, config *tls.Config) net.Conn {
	t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}, Timeout: hang}
	conn, err := d.Dial("tcp", s.http)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() }) // the server may have closed it
	if config == nil {
		return conn
	}
	config = config.Clone()
	config.ServerName = "127.0.0.1"
	return tls.Client(conn, config)
}

const aRequest = "GET /resource_providers HTTP/1.1\r\nHost: localhost\r\nX-Auth-Token: admin\r\n\r\n"

// posts is the head of a request with a body of so many bytes.
func posts(token string, length int) string {
	return fmt.Sprintf("POST /resource_providers HTTP/1.1\r\nHost: localhost\r\n%sContent-Type: application/json\r\n"+
		"Content-Length: %d\r\n\r\n", token, length)
}

const adminToken = "X-Auth-Token: admin\r\n"

// drips sends a text in pieces, until it is sent or cannot be.
func drips(conn net.Conn, text string, piece int, every time.Duration) {
	for len(text) > 0 {
		n := min(piece, len(text))
		if _, err := io.WriteString(conn, text[:n]); err != nil {
			return // it was cut off
		}
		text = text[n:]
		time.Sleep(every)
	}
}

// endsIn returns when the server ends a connection, and the statuses that it
// answered before. It reads everything.
func endsIn(t *testing.T, conn net.Conn, atMost time.Duration) (took time.Duration, statuses []string) {
	t.Helper()
	begun := time.Now()
	if err := conn.SetReadDeadline(begun.Add(atMost)); err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(conn)
	if errors.Is(err, syscall.ECONNRESET) {
		err = nil // it was ended with something unread
	}
	if err != nil {
		t.Errorf("the connection goes on after %v: %v", atMost, err)
	}
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "HTTP/1.1 ") {
			statuses = append(statuses, strings.TrimSpace(line))
		}
	}
	return time.Since(begun), statuses
}

// TestSilentClients: a client that is silent or slow in any part of a request, or
// does not take its answer, is cut off; one that goes on is not, however long it
// takes.
func TestSilentClients(t *testing.T) {
	t.Parallel()
	plain := launch(t, t.TempDir())
	secured, config := launchSecured(t)
	for _, door := range []struct {
		name   string
		server *server
		config *tls.Config
	}{{"HTTP", plain, nil}, {"HTTPS", secured, config}} {
		t.Run(door.name, func(t *testing.T) {
			t.Parallel()
			open := func(t *testing.T) net.Conn {
				t.Helper()
				return dialsHTTP(t, door.server, "127.0.0.1", door.config)
			}
			b := &beside{t: t}
			defer b.all.Wait()
			silentRequests(b, open)
			untakenAnswers(b, open)
		})
	}
	t.Run("HTTP/2", func(t *testing.T) {
		t.Parallel()
		two := config.Clone()
		two.NextProtos = []string{"h2"}
		b := &beside{t: t}
		defer b.all.Wait()
		silentStreams(b, secured, two)
	})
}

// beside runs subtests all at once, however few may be parallel: they only wait.
type beside struct {
	t   *testing.T
	all sync.WaitGroup
}

func (b *beside) run(name string, f func(*testing.T)) { b.all.Go(func() { b.t.Run(name, f) }) }

// silentRequests tries what does not come.
func silentRequests(b *beside, open func(*testing.T) net.Conn) {
	for name, send := range map[string]func(net.Conn){
		"says nothing":            func(net.Conn) {},
		"header, byte by byte":    func(c net.Conn) { drips(c, aRequest, 1, 400*time.Millisecond) },
		"header without an end":   func(c net.Conn) { drips(c, aRequest[:len(aRequest)-2], 1000, 0) },
		"body that does not come": func(c net.Conn) { drips(c, posts(adminToken, 5000), 1000, 0) },
		"body, byte by byte": func(c net.Conn) {
			drips(c, posts(adminToken, 5000), 1000, 0)
			drips(c, `{"name":"`+strings.Repeat("x", 4000), 1, 50*time.Millisecond)
		},
	} {
		b.run(name, func(t *testing.T) {
			conn := open(t)
			if c, ok := conn.(*tls.Conn); ok && name == "says nothing" {
				conn = c.NetConn() // not even a handshake
			}
			go send(conn)
			took, statuses := endsIn(t, conn, paceTime+paceSlack)
			for _, status := range statuses {
				if !strings.HasPrefix(status, "HTTP/1.1 4") {
					t.Errorf("%s", status)
				}
			}
			t.Logf("cut off after %v: %v", took, statuses)
		})
	}
	b.run("body that nobody wants", func(t *testing.T) {
		conn := open(t)
		drips(conn, posts("", 5000), 1000, 0)
		took, statuses := endsIn(t, conn, paceTime)
		if len(statuses) != 1 || statuses[0] != "HTTP/1.1 401 Unauthorized" {
			t.Errorf("%v", statuses)
		}
		t.Logf("cut off after %v", took)
	})
	b.run("a refusal reaches who is still sending", func(t *testing.T) {
		conn := open(t)
		drips(conn, posts(adminToken, 20<<20), 1000, 0)
		drips(conn, strings.Repeat(" ", 128<<10), 128<<10, 200*time.Millisecond) // meanwhile it is refused
		answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil || answer.StatusCode != http.StatusRequestEntityTooLarge {
			t.Fatalf("%+v, %v", answer, err)
		}
	})
	// The control: these take longer than a silent client may, and are served.
	b.run("a slow body is served", func(t *testing.T) {
		conn := open(t)
		body := `{"name":"` + strings.Repeat("x", 420<<10) + `"}`
		go func() {
			drips(conn, posts(adminToken, len(body)), 1000, 0)
			drips(conn, body, 3<<10, 100*time.Millisecond)
		}()
		begun := time.Now()
		if err := conn.SetReadDeadline(begun.Add(6 * paceTime)); err != nil {
			t.Fatal(err)
		}
		answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(answer.Body)
		if err != nil || !strings.Contains(string(text), "does not validate") || time.Since(begun) < paceTime {
			t.Errorf("after %v: %d %.200s, %v", time.Since(begun), answer.StatusCode, text, err)
		}
	})
	b.run("a slow header is served", func(t *testing.T) {
		conn := open(t)
		go drips(conn, aRequest, 4, 200*time.Millisecond)
		answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil || answer.StatusCode != http.StatusOK {
			t.Fatalf("%+v, %v", answer, err)
		}
	})
}

// muchAsked are requests with more bytes of answers than any buffer takes.
var muchAsked = strings.Repeat("GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n", 60)

// untakenAnswers tries answers that are not taken.
func untakenAnswers(b *beside, open func(*testing.T) net.Conn) {
	b.run("answers that are not taken", func(t *testing.T) {
		conn := open(t)
		drips(conn, muchAsked, len(muchAsked), 0)
		begun := time.Now()
		for time.Since(begun) < paceTime+paceSlack {
			// The server takes no more requests, but its end of the connection is there as
			// long as it has not closed it.
			if err := isThere(conn); err != nil {
				t.Logf("cut off after %v: %v", time.Since(begun), err)
				return
			}
			time.Sleep(100 * time.Millisecond)
		}
		t.Errorf("nobody is cut off after %v", time.Since(begun))
	})
	b.run("answers that are taken slowly are served", func(t *testing.T) {
		conn := open(t)
		drips(conn, muchAsked, len(muchAsked), 0)
		begun, taken := time.Now(), 0
		some := make([]byte, 32<<10)
		for time.Since(begun) < 2*paceTime {
			n, err := conn.Read(some)
			if taken += n; err != nil {
				t.Fatalf("cut off after %v and %d bytes: %v", time.Since(begun), taken, err)
			}
			time.Sleep(time.Duration(n) * time.Second / (128 << 10)) // 128 KiB a second
		}
		if taken < 1<<20 {
			t.Errorf("only %d bytes", taken)
		}
	})
	b.run("a follower without news is served", func(t *testing.T) {
		conn := open(t)
		drips(conn, "GET /audit/records?follow=true&from=1 HTTP/1.1\r\nHost: localhost\r\nX-Auth-Token: admin\r\n\r\n", 1000, 0)
		if err := conn.SetReadDeadline(time.Now().Add(2 * paceTime)); err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, conn); !isTimeout(err) {
			t.Errorf("%v", err)
		}
	})
}

func isTimeout(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}

// isThere returns what the kernel knows of a connection: whether the other side has
// reset it, without reading what it has sent.
func isThere(conn net.Conn) error {
	if c, ok := conn.(*tls.Conn); ok {
		conn = c.NetConn()
	}
	raw, err := conn.(*net.TCPConn).SyscallConn()
	if err != nil {
		return err
	}
	var info *unix.TCPInfo
	var failed error
	if err := raw.Control(func(fd uintptr) {
		info, failed = unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
	}); err != nil || failed != nil {
		return errors.Join(err, failed)
	}
	if info.State != unix.BPF_TCP_ESTABLISHED {
		return fmt.Errorf("its state is %d", info.State)
	}
	return nil
}

// silentStreams tries streams of HTTP/2 that do not go on. Each is reset, and the
// connection has others all the while.
func silentStreams(b *beside, s *server, config *tls.Config) {
	for name, attack := range map[string]struct {
		begins []byte
		more   []byte // again and again, if that keeps the stream
		stays  bool
	}{
		"answers that are not taken": {
			begins: append(noWindow, frame(frameHeaders, wholeRequest, 1, asks("GET", "/openapi.json"))...),
		},
		"bodies that do not come": {
			begins: append(settings, frame(frameHeaders, flagEndHeaders, 1, postsStream)...),
		},
		"answers that are taken slowly": {
			begins: append(noWindow, frame(frameHeaders, wholeRequest, 1, asks("GET", "/openapi.json"))...),
			more:   frame(0x8, 0, 1, []byte{0, 0, 16, 0}), stays: true,
		},
		"a follower without news": {
			begins: append(settings, frame(frameHeaders, wholeRequest, 1, followsStream)...), stays: true,
		},
	} {
		b.run(name, func(t *testing.T) {
			conn := dialsHTTP(t, s, "127.0.0.1", config)
			if _, err := conn.Write(append([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), attack.begins...)); err != nil {
				t.Fatal(err)
			}
			done := make(chan struct{})
			defer close(done)
			go func() {
				for attack.more != nil {
					select {
					case <-done:
						return
					case <-time.After(time.Second):
					}
					_, _ = conn.Write(attack.more) // what is read tells
				}
			}()
			begun, last := time.Now(), paceTime+paceSlack
			if attack.stays {
				last = 2 * paceTime
			}
			ended, err := streamEnds(conn, begun.Add(last))
			t.Logf("after %v: %s, %v", time.Since(begun), ended, err)
			if attack.stays != isTimeout(err) || attack.stays != (ended == "") {
				t.Errorf("after %v: %q, %v", time.Since(begun), ended, err)
			}
		})
	}
}

// postsStream and followsStream are the headers of such requests.
var (
	postsStream = append(asks("POST", "/resource_providers"),
		append(literal("x-auth-token", "admin"), literal("content-type", "application/json")...)...)
	followsStream = append(asks("GET", "/audit/records?follow=true&from=1"), literal("x-auth-token", "admin")...)
)

// literal is a header field with a name of its own.
func literal(name, value string) []byte {
	field := append([]byte{0, byte(len(name))}, name...)
	return append(append(field, byte(len(value))), value...)
}

// streamEnds reads frames until stream 1 is reset or answered in full.
func streamEnds(conn net.Conn, until time.Time) (string, error) {
	if err := conn.SetReadDeadline(until); err != nil {
		return "", err
	}
	in := bufio.NewReader(conn)
	for {
		var head [9]byte
		if _, err := io.ReadFull(in, head[:]); err != nil {
			return "", err
		}
		length := bits.BigEndian.Uint32(head[:]) >> 8
		if _, err := io.CopyN(io.Discard, in, int64(length)); err != nil {
			return "", err
		}
		switch kind, flags, stream := head[3], head[4], bits.BigEndian.Uint32(head[5:]); {
		case stream != 1:
		case kind == frameReset:
			return "reset", nil
		case flags&flagEndStream != 0 && (kind == 0 || kind == frameHeaders):
			return "answered", nil
		}
	}
}

// TestConnectionsAreBounded: no address can have more connections than it may, and
// whatever it does with them, others' find room: its own leave for them.
func TestConnectionsAreBounded(t *testing.T) {
	t.Parallel()
	for name, begins := range map[string]string{
		"silent": "", "with a header that does not end": aRequest[:20],
		"with requests": "GET /audit/records?follow=true&from=1 HTTP/1.1\r\nHost: localhost\r\nX-Auth-Token: admin\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := launch(t, t.TempDir(), "--http-connections", "40", "--http-address-connections", "30")
			http.DefaultClient.CloseIdleConnections()
			own := &http.Client{Transport: &http.Transport{
				DialContext: (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP("127.0.0.9")}}).DialContext,
			}}
			served := func(when string) {
				t.Helper()
				own.CloseIdleConnections() // each request comes in anew
				answer, err := own.Get("http://" + s.http + "/")
				if err != nil {
					t.Errorf("another address %s: %v", when, err)
					return
				}
				_ = answer.Body.Close() // nothing was written
			}
			var mu sync.Mutex
			open := make(map[string]int)
			for _, from := range []string{"127.0.0.2", "127.0.0.3"} {
				for range 60 {
					conn, err := (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}).Dial("tcp", s.http)
					if errors.Is(err, syscall.ECONNRESET) {
						continue // it is refused
					}
					if err != nil {
						t.Fatal(err)
					}
					t.Cleanup(func() { _ = conn.Close() }) // the server may have closed it
					_, _ = io.WriteString(conn, begins)    // it may be refused
					mu.Lock()
					open[from]++
					mu.Unlock()
					go func() {
						_, _ = io.Copy(io.Discard, conn) // until it ends
						mu.Lock()
						open[from]--
						mu.Unlock()
					}()
					time.Sleep(5 * time.Millisecond)
				}
				served("beside those of " + from)
			}
			count := func() (a, b int) {
				mu.Lock()
				defer mu.Unlock()
				return open["127.0.0.2"], open["127.0.0.3"]
			}
			for end := time.Now().Add(5 * time.Second); ; time.Sleep(10 * time.Millisecond) {
				a, b := count()
				if a <= 30 && b <= 30 && a+b <= 40 {
					if a+b < 35 || a < 15 || b < 15 {
						t.Errorf("only %d and %d", a, b) // the control: they are not refused for nothing
					}
					break
				}
				if time.Now().After(end) {
					t.Fatalf("%d and %d connections", a, b)
				}
			}
			served("at last")
		})
	}
}

// TestStopBesideSilentClients: SIGTERM ends the server within its bounds, and well,
// whatever its clients do not send or take.
func TestStopBesideSilentClients(t *testing.T) {
	t.Parallel()
	plain := launch(t, t.TempDir())
	secured, config := launchSecured(t)
	for _, door := range []struct {
		name   string
		server *server
		config *tls.Config
	}{{"HTTP", plain, nil}, {"HTTPS", secured, config}} {
		t.Run(door.name, func(t *testing.T) {
			t.Parallel()
			for range 40 {
				for _, begins := range []string{
					"", aRequest[:20], posts(adminToken, 5000) + "{", posts("", 5000), muchAsked,
					"GET /audit/records?follow=true&from=1 HTTP/1.1\r\nHost: localhost\r\nX-Auth-Token: admin\r\n\r\n",
				} {
					drips(dialsHTTP(t, door.server, "127.0.0.1", door.config), begins, len(begins)+1, 0)
				}
			}
			time.Sleep(time.Second) // answers fill the buffers
			begun := time.Now()
			if err := door.server.cmd.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			err := door.server.wait()
			if took := time.Since(begun); err != nil || took > 9*time.Second {
				t.Errorf("after %v: %v\n%.3000s", took, err, door.server.logs)
			} else {
				t.Logf("ended after %v", took)
			}
		})
	}
}
