package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"

	"github.com/allot-project/allot/cmd/internal/cli"
	"github.com/allot-project/allot/ledger"
)

// newestIronic is the version of Ironic's API whose answers are printed.
const newestIronic = "latest"

// serverFlags name the running server that a command asks.
type serverFlags struct {
	HTTP   string `name:"http" help:"HOST:PORT of the server." default:"127.0.0.1:8778"`
	URL    string `name:"url" help:"URL of the server, instead of --http and --https." placeholder:"URL"`
	HTTPS  bool   `name:"https" help:"Connect with TLS."`
	CAFile string `name:"ca-file" help:"Certificates to trust instead of the system's; implies TLS." type:"existingfile" placeholder:"FILE"`
	Token  string `help:"Token to send as X-Auth-Token; not on the command line, where others see it." default:"admin" secret:""`

	microversion string // microversion of Placement's API, if a request needs one
	ironic       string // the version of Ironic's API, if it is asked
}

// resolved derives the server's address from --url, if it is given.
func (s serverFlags) resolved() (serverFlags, error) {
	if s.URL == "" {
		return s, nil
	}
	target, err := url.Parse(s.URL)
	if err != nil || target.Host == "" || target.Scheme != "http" && target.Scheme != "https" {
		return s, fmt.Errorf("--url %q is not http://HOST:PORT or https://HOST:PORT", s.URL)
	}
	s.HTTP, s.HTTPS, s.URL = target.Host, target.Scheme == "https", ""
	return s, nil
}

// client returns an HTTP client, with TLS if the flags say so.
func (s serverFlags) client() (scheme string, c *http.Client, err error) {
	if !s.HTTPS && s.CAFile == "" {
		return "http", http.DefaultClient, nil
	}
	if s.CAFile == "" {
		return "https", http.DefaultClient, nil
	}
	pool, err := cli.Trusted(s.CAFile)
	if err != nil {
		return "", nil, fmt.Errorf("--ca-file %s: %w", s.CAFile, err)
	}
	return "https", &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}}, nil
}

// get sends a GET; the caller closes the answer's body.
func (s serverFlags) get(ctx context.Context, path string, query url.Values) (*http.Response, error) {
	return s.send(ctx, http.MethodGet, path, query, nil)
}

// send sends a request with a body that is encoded as JSON, or without a body
// (nil); the caller closes the answer's body.
func (s serverFlags) send(
	ctx context.Context, method, path string, query url.Values, body any,
) (*http.Response, error) {
	s, err := s.resolved()
	if err != nil {
		return nil, err
	}
	scheme, client, err := s.client()
	if err != nil {
		return nil, err
	}
	var content io.Reader
	if body != nil {
		text, err := ledger.PlainJSON(body)
		if err != nil {
			return nil, err
		}
		content = bytes.NewReader(text)
	}
	target := url.URL{Scheme: scheme, Host: s.HTTP, Path: path, RawQuery: query.Encode()}
	req, err := http.NewRequestWithContext(ctx, method, target.String(), content)
	if err != nil {
		return nil, err
	}
	req.Header.Set("X-Auth-Token", s.Token)
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if s.microversion != "" {
		req.Header.Set("OpenStack-API-Version", s.microversion)
	}
	if s.ironic != "" {
		req.Header.Set("X-OpenStack-Ironic-API-Version", s.ironic)
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("no server answers at %s: %w", s.HTTP, err)
	}
	if resp.StatusCode/100 != 2 {
		defer func() { _ = resp.Body.Close() }()               // nothing was written
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 4096)) // the status alone says enough
		said := fmt.Sprintf("the server answered %s: %s", resp.Status, bytes.TrimSpace(text))
		return nil, &answered{code: resp.StatusCode, text: said}
	}
	return resp, nil
}

// answered is an answer that says no.
type answered struct {
	code int
	text string
}

// Error implements error.
func (a *answered) Error() string { return a.text }

// put changes something, which a server says with an empty answer.
func (s serverFlags) put(ctx context.Context, path string, body any) error {
	resp, err := s.send(ctx, http.MethodPut, path, nil, body)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }() // it is empty
	if resp.StatusCode != http.StatusNoContent {
		return fmt.Errorf("the server answered %s, and not that it is done: it may be no Allot", resp.Status)
	}
	return nil
}

// maxAnswerBytes is how much of a server's answer is read.
const maxAnswerBytes = 64 << 20

func (s serverFlags) read(ctx context.Context, path string, query url.Values) ([]byte, error) {
	resp, err := s.get(ctx, path, query)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }() // nothing was written
	return io.ReadAll(io.LimitReader(resp.Body, maxAnswerBytes))
}

// readJSON is read for answers that are printed as they are.
func (s serverFlags) readJSON(ctx context.Context, path string, query url.Values) ([]byte, error) {
	text, err := s.read(ctx, path, query)
	if err == nil && !json.Valid(text) {
		err = fmt.Errorf("the server's answer is not JSON: %.40q", text)
	}
	return text, err
}

// momentFlag is the moment that a question is about; default: now.
type momentFlag struct {
	At string `help:"As of this sequence or RFC 3339 time."`
}

// in adds the moment to the parameters of a request.
func (f momentFlag) in(query url.Values) url.Values {
	if f.At != "" {
		query.Set("at", f.At)
	}
	return query
}

// ask gets an answer. It prints the answer as JSON if raw is set, and decodes it
// otherwise.
func ask[T any](
	ctx context.Context, s serverFlags, path string, query url.Values, raw bool, print func(*T) error,
) error {
	for key, values := range query {
		if len(values) == 1 && values[0] == "" {
			query.Del(key)
		}
	}
	text, err := s.readJSON(ctx, path, query)
	if err != nil {
		return err
	}
	if raw {
		_, err = os.Stdout.Write(text)
		return err
	}
	answer, err := answerIn[T](text)
	if err != nil {
		return err
	}
	return print(answer)
}

// fetch gets an answer.
func fetch[T any](ctx context.Context, s serverFlags, path string, query url.Values) (*T, error) {
	text, err := s.read(ctx, path, query)
	if err != nil {
		return nil, err
	}
	return answerIn[T](text)
}

// answerIn reads what a server has sent as an answer.
func answerIn[T any](text []byte) (*T, error) {
	answer := new(T)
	return answer, readAnswer(text, answer)
}

func readAnswer(text []byte, into any) error {
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("the server sent something else than an answer, so it may be no Allot, or one of another "+
			"release: look at --http and --url: %w", err)
	}
	return nil
}
