package main_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
)

// launchSecured starts a server that speaks TLS, and returns the configuration of
// its clients.
func launchSecured(t *testing.T) (*server, *tls.Config) {
	t.Helper()
	dir := t.TempDir()
	pool := issue(t, dir, 1)
	s := start(t, t.TempDir(), "--tls-cert", filepath.Join(dir, "cert.pem"), "--tls-key", filepath.Join(dir, "key.pem"))
	config := &tls.Config{RootCAs: pool}
	web := &http.Client{Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}}
	for deadline := time.Now().Add(startLimit); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if got := secretly(t, web, s, "GET", "/", ""); strings.HasSuffix(got, " 200") {
			return s, config
		}
	}
	t.Fatalf("the server does not serve:\n%s", s.logs)
	return nil, nil
}

// TestHTTP2: clients that can speak HTTP/2 do, and many requests share one
// connection. Others speak HTTP/1.1, with its errors in Placement's form. Who
// connects and says nothing keeps nobody waiting.
func TestHTTP2(t *testing.T) {
	t.Parallel()
	s, config := launchSecured(t)
	for range 100 {
		silent, err := net.Dial("tcp", s.http)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = silent.Close() }() // it said nothing
	}
	var dialed atomic.Int64
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		dialed.Add(1)
		return new(net.Dialer).DialContext(ctx, network, address)
	}
	for protocol, transport := range map[string]*http.Transport{
		"HTTP/2.0": {TLSClientConfig: config.Clone(), ForceAttemptHTTP2: true, DialContext: dial},
		"HTTP/1.1": {TLSClientConfig: config.Clone()},
	} {
		web := &http.Client{Transport: transport}
		if got := secretly(t, web, s, "GET", "/placement/resource_providers", ""); got != protocol+" 200" {
			t.Errorf("%s: %s", protocol, got)
		}
		var all sync.WaitGroup
		for range 50 {
			all.Go(func() {
				body := fmt.Sprintf(`{"name":"n-%s"}`, uuid.NewString())
				if got := secretly(t, web, s, "POST", "/placement/resource_providers", body); got != protocol+" 200" {
					t.Errorf("%s: %s", protocol, got)
				}
			})
		}
		all.Wait()
	}
	if dialed.Load() != 1 {
		t.Errorf("51 requests took %d connections", dialed.Load())
	}

	raw, err := tls.Dial("tcp", s.http, config.Clone())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = raw.Close() }() // all was read
	if _, err := io.WriteString(raw, "nonsense\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(raw)
	if err != nil || !strings.Contains(string(answer), `{"errors":[{"status":400`) {
		t.Errorf("nonsense: %s, %v", answer, err)
	}
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	s.ends("with silent connections and one of HTTP/2")
}

// secretly sends a request over TLS, and returns the protocol and the status.
func secretly(t *testing.T, web *http.Client, s *server, method, path, body string) string {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, "https://"+s.http+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("X-Auth-Token", "admin")
	r.Header.Set("OpenStack-API-Version", "placement 1.39")
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	resp, err := web.Do(r)
	if err != nil {
		return err.Error()
	}
	defer func() { _ = resp.Body.Close() }() // it was read
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return err.Error()
	}
	return fmt.Sprint(resp.Proto, " ", resp.StatusCode)
}
