// Package services asks the REST APIs of the OpenStack services whose contents are
// imported, compared or followed.
package services

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/allot-project/allot/commands/document"
	"github.com/allot-project/allot/ledger"
)

// Errors of reading.
var (
	// ErrAnswer means that a service gave another answer than was expected.
	ErrAnswer = errors.New("unexpected answer")
	// ErrChanging means that the contents changed whenever they were read.
	ErrChanging = errors.New("the contents change while they are read")
)

// Bounds of a request.
const (
	maxAnswer    = 256 << 20
	requestLimit = 2 * time.Minute
)

// prices are what the values of an answer take in memory once decoded, about: a list of
// providers takes less than two KiB for each, with its links, so that 500,000 fit.
var prices = document.Prices{Byte: 2, Object: 128, Array: 32, Element: 16, Pair: 48, Most: 1 << 30}

// Service is the REST API of one service.
type Service struct {
	Kind string // what texts call it: Placement, Ironic
	URL  string // without credentials
	// Token is sent with each request; "": none, or the client adds one.
	Token string
	// Close gives each request a connection of its own.
	Close  bool
	client *http.Client
}

// New returns the service of a kind at an address, whose query and credentials it
// leaves out. A nil client is the usual one.
func New(kind, address, token string, client *http.Client) (*Service, error) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		return nil, fmt.Errorf("the address of %s is no URL", kind) // the parser's error would repeat a password
	}
	s := &Service{Kind: kind, Token: token, client: &http.Client{}}
	s.URL = (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: strings.TrimRight(u.Path, "/")}).String()
	if client != nil {
		*s.client = *client
	}
	// A redirection elsewhere would get the token.
	s.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return s, nil
}

// Answer is the answer to a request.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte

	service *Service
	request string
}

// Get asks for a path below the address, with one more header.
func (s *Service) Get(ctx context.Context, path, header, value string) (*Answer, error) {
	return s.Send(ctx, http.MethodGet, path, nil, header, value)
}

// Send sends a document to a path below the address, with one more header; nil: there is none.
func (s *Service) Send(
	ctx context.Context, method, path string, document any, header, value string,
) (_ *Answer, err error) {
	ctx, cancel := context.WithTimeout(ctx, requestLimit)
	defer cancel()
	var body io.Reader
	if document != nil {
		text, err := ledger.PlainJSON(document)
		if err != nil {
			return nil, err
		}
		body = bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(ctx, method, s.URL+path, body)
	if err != nil {
		return nil, err
	}
	req.Close = s.Close
	req.Header.Set("Accept", "application/json")
	if document != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if s.Token != "" {
		req.Header.Set("X-Auth-Token", s.Token)
	}
	if value != "" {
		req.Header.Set(header, value)
	}
	response, err := s.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, response.Body.Close()) }()
	a := &Answer{Status: response.StatusCode, Header: response.Header, service: s, request: method + " " + path}
	if a.Body, err = io.ReadAll(io.LimitReader(response.Body, maxAnswer+1)); err != nil {
		return nil, fmt.Errorf("%s: %w", a.request, err)
	}
	if len(a.Body) > maxAnswer {
		return nil, a.Faultf("more than %d MiB", maxAnswer>>20)
	}
	return a, nil
}

// Decode reads the answer's document. Any status but 200 is an error that says what to do about it.
func (a *Answer) Decode(into any) error {
	text := fmt.Sprintf("%d %s", a.Status, http.StatusText(a.Status))
	switch a.Status {
	case http.StatusOK:
		_, err := prices.Weigh(a.Body) // the length of "[{},{},..." does not say what it takes
		if err == nil {
			err = document.DecodeLoosely(a.Body, into)
		}
		if err != nil {
			return a.Faultf("%w", err)
		}
		return nil
	case http.StatusUnauthorized, http.StatusForbidden:
		return a.Faultf("%s: the token is wrong, has ended, or may not read everything; give one of an administrator", text)
	case http.StatusNotFound:
		return a.Faultf("%s: is %s the address of %s's API?", text, a.service.URL, a.service.Kind)
	}
	return a.Faultf("%s: %.200s", text, a.Body)
}

// Faultf returns an ErrAnswer that names the request and says what is wrong with its answer.
func (a *Answer) Faultf(format string, args ...any) error {
	return fmt.Errorf("%w of %s: %s: %w", ErrAnswer, a.service.Kind, a.request, fmt.Errorf(format, args...))
}
