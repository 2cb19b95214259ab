// Package cli holds what the programs share on the command line: the client of a
// running server, and the printer of answers.
package cli

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/allot-project/allot/ledger"
)

// Server names the running server that a command asks.
type Server struct {
	URL    string `name:"url" help:"URL of the server, or its HOST:PORT." default:"http://127.0.0.1:8778"`
	CAFile string `name:"ca-file" help:"Certificates to trust instead of the system's, if --url begins with https." type:"existingfile" placeholder:"FILE"`
	Token  string `help:"Token to send as X-Auth-Token; not on the command line, where others see it." default:"admin" secret:""`
}

// Base returns the URL of the server.
func (s Server) Base() (*url.URL, error) {
	given := s.URL
	switch {
	case strings.Contains(given, "://"):
	case s.CAFile != "":
		given = "https://" + given
	default:
		given = "http://" + given
	}
	base, err := url.Parse(given)
	if err != nil || base.Port() == "" && s.URL != given || base.Hostname() == "" || base.User != nil ||
		base.Scheme != "http" && base.Scheme != "https" {
		return nil, fmt.Errorf("--url %q is not http://HOST:PORT, https://HOST:PORT or HOST:PORT", s.URL)
	}
	return base, nil
}

// Client returns a client of the server.
func (s Server) Client() (*Client, error) {
	base, err := s.Base()
	if err != nil {
		return nil, err
	}
	var trusted *x509.CertPool
	if s.CAFile != "" {
		if trusted, err = Trusted(s.CAFile); err != nil {
			return nil, fmt.Errorf("--ca-file %s: %w", s.CAFile, err)
		}
	}
	return NewClient(base, s.Token, trusted), nil
}

// Trusted reads certificates to trust.
func Trusted(path string) (*x509.CertPool, error) {
	pem, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, errors.New("it contains no certificates")
	}
	return pool, nil
}

// Bounds of a request. An answer may go on for as long as it likes, because a backup does.
const (
	dialTimeout   = 10 * time.Second
	answerTimeout = 10 * time.Minute // a comparison of a large ledger takes minutes
	// MaxAnswerBytes is the size of the largest answer that is read at once, in bytes.
	MaxAnswerBytes = 64 << 20
	maxErrorBytes  = 4096
)

// Client asks one server. It follows no redirect to another one, because the token is for this one alone.
type Client struct {
	base  *url.URL
	token string
	http  *http.Client
}

// NewClient returns a client of the server at a URL, with a token to send as X-Auth-Token and the
// certificates to trust instead of the system's; nil: the system's.
func NewClient(base *url.URL, token string, trusted *x509.CertPool) *Client {
	return &Client{base: base, token: token, http: &http.Client{
		CheckRedirect: SameOrigin,
		Transport: &http.Transport{
			Proxy: http.ProxyFromEnvironment, DialContext: (&net.Dialer{Timeout: dialTimeout}).DialContext,
			TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: trusted}, ForceAttemptHTTP2: true,
			TLSHandshakeTimeout: dialTimeout, ResponseHeaderTimeout: answerTimeout, MaxResponseHeaderBytes: 64 << 10,
		},
	}}
}

// errElsewhere means that a server redirects to another one.
var errElsewhere = errors.New("it redirects to another server, which is not followed, because the token is not for that one: check --url")

// maxRedirects is how often a request is redirected.
const maxRedirects = 10

// SameOrigin is a CheckRedirect that follows no redirect to another scheme, host or port.
func SameOrigin(to *http.Request, via []*http.Request) error {
	if from := via[0].URL; to.URL.Scheme != from.Scheme || to.URL.Host != from.Host {
		return errElsewhere
	}
	if len(via) >= maxRedirects {
		return errors.New("it redirects again and again: check --url")
	}
	return nil
}

// Request is a question to a server, or a change.
type Request struct {
	Method string // empty: GET
	Path   string
	Query  url.Values
	Body   any // sent as JSON; nil: none
	Header map[string]string
	// AnyStatus takes an answer in JSON whatever its status says.
	AnyStatus bool
}

// Send sends a request. The caller closes the body of the answer, whose status says that all is well.
func (c *Client) Send(ctx context.Context, r Request) (*http.Response, error) {
	var content io.Reader
	if r.Body != nil {
		text, err := ledger.PlainJSON(r.Body)
		if err != nil {
			return nil, err
		}
		content = bytes.NewReader(text)
	}
	target := c.base.JoinPath(r.Path)
	target.RawQuery = r.Query.Encode()
	req, err := http.NewRequestWithContext(ctx, r.Method, target.String(), content)
	if err != nil {
		return nil, err
	}
	req.Header.Set("X-Auth-Token", c.token)
	if r.Body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	for name, value := range r.Header {
		req.Header.Set(name, value)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, c.explain(ctx, err)
	}
	taken := r.AnyStatus && strings.HasPrefix(resp.Header.Get("Content-Type"), "application/json")
	if resp.StatusCode/100 != 2 && !taken {
		defer func() { _ = resp.Body.Close() }()                        // nothing was written
		text, _ := io.ReadAll(io.LimitReader(resp.Body, maxErrorBytes)) // the status alone says enough
		return nil, &StatusError{resp.StatusCode, c.refusal(resp, text)}
	}
	return resp, nil
}

// Read returns an answer whole.
func (c *Client) Read(ctx context.Context, r Request) ([]byte, error) {
	resp, err := c.Send(ctx, r)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }() // nothing was written
	text, err := io.ReadAll(io.LimitReader(resp.Body, MaxAnswerBytes+1))
	if err != nil {
		return nil, fmt.Errorf("the answer of the server at %s breaks off: %w", c.base.Host, err)
	}
	if len(text) > MaxAnswerBytes {
		return nil, fmt.Errorf("the answer of the server at %s is larger than %d MiB: ask for less", c.base.Host, MaxAnswerBytes>>20)
	}
	return text, nil
}

// ErrNotAllot means that an answer is not one of Allot's.
var ErrNotAllot = errors.New("the answer is not Allot's: check --url")

// ReadJSON reads an answer, and returns it as it is, too.
func (c *Client) ReadJSON(ctx context.Context, r Request, into any) ([]byte, error) {
	text, err := c.Read(ctx, r)
	if err != nil {
		return nil, err
	}
	return text, Decode(text, into)
}

// Decode reads an answer. Numbers of any size stay what they are.
func Decode(text []byte, into any) error {
	in := json.NewDecoder(bytes.NewReader(text))
	in.UseNumber()
	if err := in.Decode(into); err != nil {
		return ErrNotAllot
	}
	return nil
}

// Change sends a request that a server answers with 204.
func (c *Client) Change(ctx context.Context, r Request) error {
	resp, err := c.Send(ctx, r)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }() // it is empty
	if resp.StatusCode != http.StatusNoContent {
		return fmt.Errorf("unexpected status %s: is this an Allot server?", resp.Status)
	}
	return nil
}

// StatusError is an answer that says no.
type StatusError struct {
	Code int
	text string
}

// Error implements error.
func (e *StatusError) Error() string { return e.text }

// refusal says in words what a server refuses.
func (c *Client) refusal(resp *http.Response, text []byte) string {
	if resp.StatusCode == http.StatusBadRequest && bytes.Contains(text, []byte("HTTP request to an HTTPS server")) {
		return fmt.Sprintf("the server at %s speaks TLS: begin --url with https://, and name certificates to trust with --ca-file", c.base.Host)
	}
	reason := reasonIn(text)
	if reason == "" && strings.HasPrefix(resp.Header.Get("Content-Type"), "text/plain") {
		reason, _, _ = strings.Cut(strings.TrimSpace(string(text)), "\n")
	}
	if resp.StatusCode == http.StatusUnauthorized {
		return "the server does not accept the token: give a valid one as ALLOT_TOKEN in the environment"
	}
	if resp.StatusCode == http.StatusForbidden && reason != "" {
		reason += " A token with more rights may: give it as ALLOT_TOKEN in the environment"
	}
	if reason == "" || reason == "404 page not found" || reason[0] == '{' || reason[0] == '<' {
		return fmt.Sprintf("unexpected status %s: is this an Allot server? Check --url", Clean(resp.Status))
	}
	return fmt.Sprintf("the server answered %s: %s", Clean(resp.Status), Clean(reason))
}

// reasonIn finds the reason in an error of Placement's API or of Ironic's; empty: there is none.
func reasonIn(text []byte) string {
	var said struct {
		Errors []struct{ Detail string }
		Metal  json.RawMessage `json:"error_message"`
	}
	if json.Unmarshal(text, &said) != nil {
		return ""
	}
	if len(said.Errors) > 0 {
		detail := said.Errors[0].Detail
		if _, own, found := strings.Cut(detail, "\n\n"); found { // what stands before is the same for each status
			detail = own
		}
		return strings.TrimSpace(detail)
	}
	inner := string(said.Metal)
	_ = json.Unmarshal(said.Metal, &inner) // an object stays what it is
	var fault struct{ FaultString string }
	_ = json.Unmarshal([]byte(inner), &fault) // what is no object has no such text
	return fault.FaultString
}

// explain says in words why a request got no answer.
func (c *Client) explain(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	where := c.base.Host
	var (
		unknown *tls.CertificateVerificationError
		noTLS   tls.RecordHeaderError
	)
	switch {
	case errors.Is(err, errElsewhere):
		return fmt.Errorf("the server at %s: %w", where, errElsewhere)
	case errors.As(err, &unknown):
		return fmt.Errorf("the certificate of the server at %s is not trusted (%w): give the certificates to trust with --ca-file, and a name that is in them with --url", where, unknown.Err)
	case errors.As(err, &noTLS), strings.Contains(err.Error(), "HTTP response to HTTPS client"):
		return fmt.Errorf("the server at %s speaks no TLS: begin --url with http://", where)
	case strings.Contains(err.Error(), "malformed HTTP"):
		return fmt.Errorf("what listens at %s does not speak HTTP: %w", where, ErrNotAllot)
	}
	var failed *url.Error
	if errors.As(err, &failed) {
		err = failed.Err
	}
	return fmt.Errorf("no server answers at %s: %w", where, err)
}
