package copies

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/ledgertest"
)

// between is a network in front of a server that may break off.
type between struct {
	*httptest.Server
	requests atomic.Int64 // for files
	breaks   atomic.Int64 // before this request for a file, and those after it; 0: never
}

func (w *world) between(address string) *between {
	w.t.Helper()
	b := new(between)
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "https", Host: address})
	proxy.Transport = &http.Transport{TLSClientConfig: w.secure}
	proxy.ErrorLog = slog.NewLogLogger(quiet.Handler(), slog.LevelError)
	b.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(answer http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, filesPath) {
			if n, at := b.requests.Add(1), b.breaks.Load(); at > 0 && n >= at {
				panic(http.ErrAbortHandler) // the connection ends
			}
		}
		proxy.ServeHTTP(answer, r)
	}))
	b.TLS = w.secure.Clone()
	b.Config.ErrorLog = proxy.ErrorLog
	b.StartTLS()
	w.t.Cleanup(b.Close)
	return b
}

func (b *between) address() string { return b.Listener.Addr().String() }

// TestInterruptedAtEachFile: wherever the way to the other replica breaks off, nothing
// has changed, and the next try, of this process or the next one, takes what is missing
// and nothing twice.
func TestInterruptedAtEachFile(t *testing.T) {
	w := newWorld(t)
	have := w.full(testCommits - 10)
	giver := have.serve(nil)
	want := digestOf(t, have.views)
	whole := w.between(giver.Address())
	into := w.open(t.TempDir())
	ledgertest.Must(w.join(into, nil, peer("a", whole.address())))
	into.close()
	files := whole.requests.Load()
	if files < 4 {
		t.Fatalf("a copy is of %d files", files)
	}
	for at := int64(1); at <= files; at++ {
		into := w.open(t.TempDir())
		into.fold(20, 10)
		before := digestOf(t, into.views)
		way := w.between(giver.Address())
		way.breaks.Store(at)
		if got, err := w.join(into, nil, peer("a", way.address())); got != nil || !errors.Is(err, errGone) {
			t.Fatalf("broken off at file %d: %v, %v", at, got, err)
		}
		if digestOf(t, into.views) != before {
			t.Error("something has changed")
		}
		into.close()
		into = w.open(into.dir) // another process
		here := int64(len(filesIn(t, into.folder().path(partsName))))
		way.breaks.Store(0)
		way.requests.Store(0)
		damaged := int64(0)
		if at == files && here > 0 { // what is left, and is not what it should be, comes again
			ledgertest.Flip(t, find(t, into.folder().path(partsName), ""))
			damaged = 1
		}
		ledgertest.Must(w.join(into, nil, peer("a", way.address())))
		if came := way.requests.Load(); here < at-atOnce || here >= at || came != files-here+damaged {
			t.Errorf("broken off at file %d of %d: %d files were here, and %d came then", at, files, here, came)
		}
		ledgertest.OK(t, into.views.Exchange(into.folder().Finish))
		if digestOf(t, into.views) != want {
			t.Error("the read models differ")
		}
		into.close()
		nothingLeft(t, into)
	}
}

// TestManyJoin: all that ask at a time get the same copy, and it is removed when none
// asks any more.
func TestManyJoin(t *testing.T) {
	w := newWorld(t)
	made := 0
	giver := w.full(0).serve(func(cfg *ServerConfig) {
		fork := cfg.Fork
		cfg.kept, cfg.Fork = time.Hour, func(ctx context.Context) (*ledger.State, error) {
			made++
			return fork(ctx)
		}
	})
	for range 3 {
		into := w.open(t.TempDir())
		ledgertest.Must(w.join(into, nil, peer("a", giver.Address())))
		into.close()
	}
	if made != 1 {
		t.Errorf("%d copies were made", made)
	}
	giver.cfg.kept = time.Millisecond
	ledgertest.Must(giver.current(nil))
	ledgertest.WaitFor(t, "no copy any more", func() bool { return len(filesIn(t, giver.folder())) == 0 })
}

// TestUnfit: a replica whose disk is full gives no copy, and says why.
func TestUnfit(t *testing.T) {
	w := newWorld(t)
	full := w.full(0).serve(func(cfg *ServerConfig) { cfg.Unfit = func() error { return errors.New("the disk is full") } })
	into := w.open(t.TempDir())
	defer into.close()
	if _, err := w.join(into, nil, peer("a", full.Address())); err == nil || !strings.Contains(err.Error(), "the disk is full") {
		t.Error(err)
	}
	if _, err := w.join(into, nil); !errors.Is(err, ErrNone) {
		t.Errorf("without peers: %v", err)
	}
}

// TestOnlyReplicas: a client that does not know the secret gets nothing, even with a certificate, and its requests have
// no copy made. What is sent does not have the secret in it.
func TestOnlyReplicas(t *testing.T) {
	w := newWorld(t)
	giver := w.full(0).serve(nil)
	if strings.Contains(token(secret), secret) {
		t.Error("the token has the secret in it")
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: w.secure}}
	defer client.CloseIdleConnections()
	for _, path := range []string{offerPath, copyPath, filesPath + strings.Repeat("0", 64), "/", "/files/../copy"} {
		for _, shown := range []string{"", "Bearer ", token("another secret of sixteen bytes"), token(secret) + "0"} {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+giver.Address()+path, nil)
			ledgertest.OK(t, err)
			req.Header.Set("Authorization", shown)
			resp := ledgertest.Must(client.Do(req))
			body, err := io.ReadAll(resp.Body)
			ledgertest.OK(t, err, resp.Body.Close())
			if resp.StatusCode != http.StatusUnauthorized || strings.Contains(string(body), "sha256") {
				t.Errorf("%s with %q: %d, %s", path, shown, resp.StatusCode, body)
			}
		}
	}
	if giver.manifest != nil {
		t.Error("a copy is made for a stranger")
	}
	into := w.open(t.TempDir())
	defer into.close()
	_, err := w.join(into, func(cfg *JoinConfig) { cfg.Secret = "another secret of sixteen bytes" }, peer("a", giver.Address()))
	if err == nil || !strings.Contains(err.Error(), "cluster's secret") {
		t.Errorf("another secret: %v", err)
	}
}

// TestWithTLS: a copy goes encrypted, and a client that has no certificate of the replicas, or one that takes a
// replica's place without one, gets nothing, even with the secret.
func TestWithTLS(t *testing.T) {
	w := newWorld(t)
	stranger := certificates(t)
	giver := w.full(0).serve(nil)
	into := w.open(t.TempDir())
	defer into.close()
	for name, config := range map[string]*tls.Config{
		"with another one's certificate": stranger, "without a certificate": {RootCAs: w.secure.RootCAs}, "without TLS": nil,
	} {
		_, err := w.join(into, func(cfg *JoinConfig) { cfg.TLS = config }, peer("a", giver.Address()))
		if !errors.Is(err, errGone) {
			t.Errorf("%s: %v", name, err)
		}
	}
	ledgertest.Must(w.join(into, nil, peer("a", giver.Address())))
}

// certificates are those of replicas on this machine, as allot serve makes them of files.
func certificates(t *testing.T) *tls.Config {
	t.Helper()
	key := ledgertest.Must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "replica"}, NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	raw := ledgertest.Must(x509.CreateCertificate(rand.Reader, template, template, key.Public(), key))
	parsed := ledgertest.Must(x509.ParseCertificate(raw))
	signers := x509.NewCertPool()
	signers.AddCert(parsed)
	return &tls.Config{
		MinVersion: tls.VersionTLS13, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: signers, RootCAs: signers,
		Certificates: []tls.Certificate{{Certificate: [][]byte{raw}, PrivateKey: key}},
	}
}

// TestNoSuchFile: a replica sends files of the copy that it gives, by their digests, and
// no others.
func TestNoSuchFile(t *testing.T) {
	w := newWorld(t)
	giver := w.full(0).serve(nil)
	p := newPeerCopy(peer("a", giver.Address()), secret, w.secure)
	if _, err := p.open(t.Context(), ledger.Digest{1}); !errors.Is(err, errGone) {
		t.Errorf("without a copy: %v", err)
	}
	ledgertest.Must(p.manifest(t.Context()))
	if _, err := p.open(t.Context(), ledger.Digest{1}); err == nil || !strings.Contains(err.Error(), "404") {
		t.Errorf("an unknown digest: %v", err)
	}
	for _, path := range []string{"/files/state", "/files/..%2f..%2fetc%2fpasswd", "/files/" + strings.Repeat("g", 64)} {
		if resp, err := p.send(t.Context(), path); err == nil {
			_ = resp.Body.Close()
			t.Errorf("%s is sent", path)
		}
	}
}
