package main_test

import (
	"bytes"
	"crypto/tls"
	bits "encoding/binary"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// Frames of HTTP/2 (RFC 9113), as no well-behaved client sends them.
const (
	frameHeaders      = 0x1
	frameReset        = 0x3
	frameSettings     = 0x4
	framePing         = 0x6
	frameContinuation = 0x9

	flagEndStream  = 0x1
	flagEndHeaders = 0x4
)

func frame(kind, flags byte, stream uint32, payload []byte) []byte {
	head := bits.BigEndian.AppendUint32(nil, uint32(len(payload))<<8|uint32(kind))
	return append(bits.BigEndian.AppendUint32(append(head, flags), stream), payload...)
}

// asks is the block of headers of a request (RFC 7541), without indexing.
func asks(method, path string) []byte {
	block := []byte{0x87} // https
	for _, field := range []struct {
		name  byte // its index
		value string
	}{{1, "localhost"}, {2, method}, {4, path}} {
		block = append(append(block, field.name, byte(len(field.value))), field.value...)
	}
	return block
}

// noWindow are settings of a client that takes nothing of an answer's body.
var noWindow = frame(frameSettings, 0, 0, []byte{0, 4, 0, 0, 0, 0})

// streams returns an attack by twenty connections. Each sends the beginning once and
// then, if there is a rest, that for one stream after the other, and comes back when
// it is cut off. It does not look at what it is answered.
func streams(reads bool, begins []byte, rest func(stream uint32) []byte) func(*testing.T, *guarded, <-chan struct{}) {
	return func(_ *testing.T, g *guarded, stop <-chan struct{}) {
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() { until(stop, func() { floodsStreams(g.nats, reads, begins, rest, stop) }) })
		}
		all.Wait()
	}
}

func floodsStreams(address string, reads bool, begins []byte, rest func(uint32) []byte, stop <-chan struct{}) {
	from := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP("127.0.0.2")}} // another one than the well-behaved client's
	conn, err := tls.DialWithDialer(from, "tcp", address, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
	if err != nil {
		return // the other client finds out whether the server is there
	}
	done := make(chan struct{})
	defer close(done)
	go func() {
		select {
		case <-stop:
		case <-done:
		}
		_ = conn.NetConn().Close() // which ends a write, too
	}()
	if reads {
		go func() { _, _ = io.Copy(io.Discard, conn) }() // until it is cut off
	}
	if _, err := conn.Write(append([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), begins...)); err != nil {
		return
	}
	for stream := uint32(1); rest != nil; {
		var some []byte
		for ; len(some) < 16<<10; stream += 2 {
			some = append(some, rest(stream)...)
		}
		if _, err := conn.Write(some); err != nil {
			return
		}
	}
	<-stop
}

// opens returns frames that begin streams.
func opens(flags byte, block []byte, many int) (all []byte) {
	for i := range many {
		all = append(all, frame(frameHeaders, flags, uint32(2*i+1), block)...)
	}
	return all
}

// aHeader is a header whose value has 15,872 bytes.
var aHeader = append([]byte{0, 1, 'a', 0x7f, 0x81, 0x7b}, bytes.Repeat([]byte("x"), 15_872)...)

const wholeRequest = flagEndHeaders | flagEndStream

var settings = frame(frameSettings, 0, 0, nil)

// streamAttacks are attacks over HTTP/2.
var streamAttacks = []attack{
	{name: "rapid resets", do: streams(true, settings, func(stream uint32) []byte {
		return append(frame(frameHeaders, wholeRequest, stream, asks("GET", "/placement/resource_providers")),
			frame(frameReset, 0, stream, []byte{0, 0, 0, 8})...)
	})},
	{name: "more streams than there may be", do: streams(true, settings, func(stream uint32) []byte {
		return frame(frameHeaders, wholeRequest, stream, asks("GET", "/placement/resource_providers"))
	})},
	{name: "streams without an end",
		do: streams(true, append(settings, opens(flagEndHeaders, asks("POST", "/placement/allocations"), 100)...), nil)},
	{name: "headers without an end",
		do: streams(true, append(settings, frame(frameHeaders, 0, 1, asks("GET", "/"))...), func(uint32) []byte {
			return frame(frameContinuation, 0, 1, aHeader)
		})},
	{name: "answers that are not taken",
		do: streams(false, append(noWindow, opens(wholeRequest, asks("GET", "/openapi.json"), 100)...), nil)},
	{name: "pings without end", do: streams(false, settings, func(uint32) []byte {
		return frame(framePing, 0, 0, make([]byte, 8))
	})},
}

// TestStreamsAreBounded: whatever a client does with the streams of HTTP/2, the
// server's memory grows by a bounded amount, and the server answers another client
// all the while.
func TestStreamsAreBounded(t *testing.T) { areBounded(t, streamAttacks, attack.measureStreams) }

// measureStreams attacks a new server over HTTP/2, beside a client that waits for its
// answers.
func (a attack) measureStreams(t *testing.T) (lost []string) {
	t.Helper()
	s, config := launchSecured(t)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%.5000s", s.logs)
		}
	})
	web := &http.Client{Transport: &http.Transport{TLSClientConfig: config.Clone(), ForceAttemptHTTP2: true}}
	defer s.kill()
	return a.compare(t, s, s.http, func(n int, _ bool) (list taken) {
		for range n {
			begun := time.Now()
			if got := secretly(t, web, s, "GET", "/placement/resource_providers", ""); !strings.HasSuffix(got, "HTTP/2.0 200") {
				t.Fatalf("another client: %s", got)
			}
			list = append(list, time.Since(begun))
		}
		slices.Sort(list)
		return list
	})
}
