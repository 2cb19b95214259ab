package copies

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/allot-project/allot/ledger"
)

// Peer is a replica that may give a copy, as it says of itself.
type Peer struct {
	Name     string
	Address  string // HOST:PORT of its Server
	Leads    bool
	Sequence uint64 // up to which it has folded the log
}

const (
	// offerWait is how long an offer is waited for.
	offerWait = 5 * time.Second
	// stallWait is how long a file may bring nothing.
	stallWait = time.Minute
)

// errGone: the network failed, or the replica has ended. The next try may succeed.
var errGone = errors.New("the replica cannot be reached")

type peerCopy struct {
	Peer
	token  string
	client *http.Client
}

func newPeerCopy(peer Peer, secret string, secure *tls.Config) *peerCopy {
	keepAlive := net.KeepAliveConfig{Enable: true, Idle: offerWait, Interval: offerWait, Count: 3}
	return &peerCopy{peer, token(secret), &http.Client{
		Transport: &http.Transport{
			DialContext:        (&net.Dialer{Timeout: offerWait, KeepAliveConfig: keepAlive}).DialContext,
			DisableCompression: true, MaxIdleConnsPerHost: atOnce, IdleConnTimeout: offerWait, MaxResponseHeaderBytes: 64 << 10,
			TLSClientConfig: secure, TLSHandshakeTimeout: offerWait,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// String names it.
func (p *peerCopy) String() string { return p.Name }

func (p *peerCopy) offer(ctx context.Context) (o offer, err error) {
	text, err := p.ask(ctx, offerPath, offerWait)
	if err == nil {
		if err = json.Unmarshal(text, &o); err != nil {
			err = fmt.Errorf("%w: what it offers cannot be read: %w", errBad, err)
		}
	}
	return o, err
}

func (p *peerCopy) manifest(ctx context.Context) (*manifest, error) {
	text, err := p.ask(ctx, copyPath, makeWait)
	if err != nil {
		return nil, err
	}
	return readManifest(text)
}

// ask returns an answer, which may take some time.
func (p *peerCopy) ask(ctx context.Context, path string, wait time.Duration) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	resp, err := p.send(ctx, path)
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxManifest+1))
	if err = errors.Join(err, resp.Body.Close()); err != nil {
		return nil, fmt.Errorf("%w: %w", errGone, err)
	}
	if len(text) > maxManifest {
		return nil, fmt.Errorf("%w: its answer has more than %d bytes", errBad, maxManifest)
	}
	return text, nil
}

func (p *peerCopy) open(ctx context.Context, sum ledger.Digest) (io.ReadCloser, error) {
	ctx, cancel := context.WithCancel(ctx)
	stall := time.AfterFunc(stallWait, cancel)
	resp, err := p.send(ctx, filesPath+sum.String())
	if err != nil {
		stall.Stop()
		cancel()
		return nil, err
	}
	return &coming{resp.Body, stall, cancel}, nil
}

// coming is a file that comes from another replica. It ends when nothing comes any more.
type coming struct {
	body   io.ReadCloser
	stall  *time.Timer
	cancel context.CancelFunc
}

func (c *coming) Read(p []byte) (int, error) {
	c.stall.Reset(stallWait)
	n, err := c.body.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = fmt.Errorf("%w: %w", errGone, err)
	}
	return n, err
}

func (c *coming) Close() error {
	c.stall.Stop()
	c.cancel()
	return c.body.Close()
}

func (p *peerCopy) send(ctx context.Context, path string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+p.Address+path, nil)
	if err != nil {
		return nil, fmt.Errorf("copies: %w", err)
	}
	req.Header.Set("Authorization", p.token)
	resp, err := p.client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errGone, err)
	}
	if resp.StatusCode == http.StatusOK {
		return resp, nil
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, 1<<10))
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		return nil, fmt.Errorf("%w: %w", errGone, err)
	}
	err = fmt.Errorf("it answers %d: %q", resp.StatusCode, strings.TrimSpace(string(text)))
	if resp.StatusCode == http.StatusGone { // it has forgotten the copy, and can make another one
		err = fmt.Errorf("%w: %w", errGone, err)
	}
	return nil, err
}
