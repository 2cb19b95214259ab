package main

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
)

// protocols are what a TLS client may choose from. HTTP/2 carries many requests at
// a time over one connection, which spares a cloud's services the handshakes.
var protocols = []string{"h2", "http/1.1"}

// maxStreams is how many requests one HTTP/2 connection may have under way, as few as
// RFC 9113 recommends: each has a goroutine before it has its turn. Clients that want
// more open another connection, or wait.
const maxStreams = 100

// secured makes TLS connections of a listener's. Whether plainErrors belongs
// between a connection and net/http is known only once the handshake has told the
// protocol: HTTP/2 has its own form for errors, and net/http must see its TLS
// connection. Handshakes go on beside each other, so that a client that is slow,
// or never ends one, keeps nobody waiting.
type secured struct {
	net.Listener
	config *tls.Config

	accepted chan accepted
	quit     context.Context
	end      context.CancelFunc
}

// accepted is what Accept returns.
type accepted struct {
	conn net.Conn
	err  error
}

func newSecured(listener net.Listener, config *tls.Config) *secured {
	config = config.Clone()
	config.NextProtos = protocols
	s := &secured{Listener: listener, config: config, accepted: make(chan accepted)}
	s.quit, s.end = context.WithCancel(context.Background())
	go s.accept()
	return s
}

// accept takes connections until the listener is closed. Whether another fault
// passes is for net/http to say.
func (s *secured) accept() {
	for s.quit.Err() == nil {
		c, err := s.Listener.Accept()
		if err != nil {
			s.deliver(accepted{err: err})
			continue
		}
		go s.shakeHands(c)
	}
}

// deliver reports whether Accept took it.
func (s *secured) deliver(a accepted) bool {
	select {
	case s.accepted <- a:
		return true
	case <-s.quit.Done():
		return false
	}
}

func (s *secured) shakeHands(c net.Conn) {
	ctx, cancel := context.WithTimeout(s.quit, readHeaderTimeout)
	defer cancel()
	shaken := tls.Server(c, s.config)
	if err := shaken.HandshakeContext(ctx); err != nil {
		_ = c.Close() // a client that speaks no TLS, or has gone
		return
	}
	c = shaken
	if shaken.ConnectionState().NegotiatedProtocol != protocols[0] {
		c = &plainErrorsConn{Conn: shaken}
	} else if outer, ok := shaken.NetConn().(*connection); ok {
		outer.speaksStreams()
	}
	if !s.deliver(accepted{conn: c}) {
		_ = c.Close() // the server ends
	}
}

// Accept implements net.Listener.
func (s *secured) Accept() (net.Conn, error) {
	select {
	case a := <-s.accepted:
		return a.conn, a.err
	case <-s.quit.Done():
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (s *secured) Close() error {
	s.end()
	return s.Listener.Close()
}

const (
	// streamWindow is how much of bodies that no handler has read a connection may have
	// sent, and largestFrame how much is read until a handler has some of it.
	streamWindow = 256 << 10
	largestFrame = 64 << 10
)

// bounds are those of HTTP/2.
func bounds() *http.HTTP2Config {
	return &http.HTTP2Config{
		MaxConcurrentStreams: maxStreams, MaxReadFrameSize: largestFrame,
		MaxReceiveBufferPerConnection: streamWindow, MaxReceiveBufferPerStream: streamWindow,
	}
}
