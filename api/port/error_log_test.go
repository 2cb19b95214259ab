package port

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
)

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
