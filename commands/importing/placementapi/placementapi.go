// Package placementapi reads the contents of a Placement through its REST API,
// for those who cannot read its database. It changes nothing there.
package placementapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/allot-project/allot/commands/document"
	"github.com/allot-project/allot/commands/importing"
)

// Untold is what the API cannot tell.
var Untold = []string{
	"when providers, inventories and consumers were made and changed: the time of the import stands for it",
	"in which order consumers were written last: they are in the order of the providers that hold them",
	"in which order a consumer's allocations were asked for: they are sorted",
	"rows that the API does not show: consumers without allocations, aggregates without providers, rows about missing providers",
}

// Errors of reading.
var (
	// ErrAnswer means that Placement gave another answer than was expected.
	ErrAnswer = errors.New("unexpected answer of Placement")
	// ErrChanging means that the contents changed whenever they were read.
	ErrChanging = errors.New("the contents change while they are read")
)

// Source is a Placement's REST API.
type Source struct {
	URL   string
	Token string       // "": none, or the client adds one
	HTTP  *http.Client // nil: the usual one

	client  *http.Client
	version string // the microversion of requests
	minor   int    // its second number
	types   bool   // consumers have types
}

const (
	atOnce       = 8         // requests at once
	rounds       = 5         // readings of what changes meanwhile
	maxAnswer    = 256 << 20 // bytes of an answer
	newest       = 39        // microversion 1.39
	oldest       = 28        // the first with consumers' generations
	typesSince   = 38
	requestLimit = 2 * time.Minute
)

// Progress is called while providers are read.
type Progress func(done, total uint64)

// Name returns the address without credentials.
func (s *Source) Name() string {
	u, err := url.Parse(s.URL)
	if err != nil {
		return "an address that is no URL"
	}
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: strings.TrimRight(u.Path, "/")}).String()
}

// ask sends a GET and returns the answer.
func (s *Source) ask(ctx context.Context, path string) (status int, body []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, requestLimit)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.Name()+path, nil)
	if err != nil {
		return 0, nil, err
	}
	req.Header.Set("Accept", "application/json")
	if s.Token != "" {
		req.Header.Set("X-Auth-Token", s.Token)
	}
	if s.version != "" {
		req.Header.Set("OpenStack-API-Version", "placement "+s.version)
	}
	answer, err := s.client.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer func() { err = errors.Join(err, answer.Body.Close()) }()
	body, err = io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
	if err != nil {
		return 0, nil, fmt.Errorf("GET %s: %w", path, err)
	}
	return answer.StatusCode, body, nil
}

// refused returns an error for an answer other than 200.
func (s *Source) refused(status int, path string, body []byte) error {
	text := fmt.Sprintf("%d %s", status, http.StatusText(status))
	switch status {
	case http.StatusOK:
		return nil
	case http.StatusUnauthorized, http.StatusForbidden:
		return fmt.Errorf("%w: GET %s: %s: the token is wrong, has ended, or may not read everything; give one of an administrator",
			ErrAnswer, path, text)
	}
	return fmt.Errorf("%w: GET %s: %s: %.200s", ErrAnswer, path, text, body)
}

// get reads an answer; missing reports a 404.
func (s *Source) get(ctx context.Context, path string, into any) (missing bool, err error) {
	status, body, err := s.ask(ctx, path)
	switch {
	case err != nil:
		return false, err
	case status == http.StatusNotFound:
		return true, nil
	}
	if err := s.refused(status, path, body); err != nil {
		return false, err
	}
	if err := document.DecodeLoosely(body, into); err != nil {
		return false, fmt.Errorf("%w: GET %s: %w", ErrAnswer, path, err)
	}
	return false, nil
}

// must is get for what has to exist.
func (s *Source) must(ctx context.Context, path string, into any) error {
	missing, err := s.get(ctx, path, into)
	if missing {
		return fmt.Errorf("%w: GET %s: 404 Not Found: is %s the address of a Placement?", ErrAnswer, path, s.Name())
	}
	return err
}

// negotiate finds the newest microversion that both know.
func (s *Source) negotiate(ctx context.Context) error {
	var root struct {
		Versions []struct {
			Max string `json:"max_version"`
		} `json:"versions"`
	}
	if err := s.must(ctx, "/", &root); err != nil {
		return err
	}
	if len(root.Versions) == 0 {
		return fmt.Errorf("%w: GET / names no versions: is %s the address of a Placement?", ErrAnswer, s.Name())
	}
	_, minor, _ := strings.Cut(root.Versions[0].Max, ".")
	known, err := strconv.Atoi(minor)
	if err != nil || known < oldest {
		return fmt.Errorf("%w: it knows microversions up to %q, and 1.%d is needed: import its database instead",
			ErrAnswer, root.Versions[0].Max, oldest)
	}
	s.use(min(known, newest))
	return nil
}

// use sets the microversion of requests.
func (s *Source) use(minor int) {
	s.version, s.minor, s.types = fmt.Sprintf("1.%d", minor), minor, minor >= typesSince
}

// prepare makes requests possible.
func (s *Source) prepare(ctx context.Context) error {
	if s.version != "" {
		return nil
	}
	s.client = &http.Client{}
	if s.HTTP != nil {
		*s.client = *s.HTTP
	}
	// A redirection elsewhere would get the token.
	s.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return s.negotiate(ctx)
}

type provider struct {
	UUID       string `json:"uuid"`
	Name       string `json:"name"`
	Generation int64  `json:"generation"`
	Parent     string `json:"parent_provider_uuid"`
	Root       string `json:"root_provider_uuid"`
}

type inventory struct {
	Total    int64   `json:"total"`
	Reserved int64   `json:"reserved"`
	MinUnit  int64   `json:"min_unit"`
	MaxUnit  int64   `json:"max_unit"`
	StepSize int64   `json:"step_size"`
	Ratio    float64 `json:"allocation_ratio"`
}

type consumer struct {
	Allocations map[string]struct {
		Resources map[string]int64 `json:"resources"`
	} `json:"allocations"`
	Project    string `json:"project_id"`
	User       string `json:"user_id"`
	Type       string `json:"consumer_type"`
	Generation int64  `json:"consumer_generation"`
}

// parts are what belongs to a provider.
type parts struct {
	inventories map[string]inventory
	traits      []string
	aggregates  []string
	consumers   []string
}

// reading is what was read so far.
type reading struct {
	providers []provider
	parts     map[string]parts
	consumers map[string]consumer
}

// Read reads everything. What changes meanwhile is read again, until two lists of
// providers have the same generations: every change that the API knows raises one.
func (s *Source) Read(ctx context.Context, show Progress) (*importing.Rows, error) {
	if err := s.prepare(ctx); err != nil {
		return nil, s.explain(err)
	}
	r := &reading{parts: make(map[string]parts), consumers: make(map[string]consumer)}
	known := make(map[string]int64)
	for range rounds {
		list, err := s.list(ctx)
		if err != nil {
			return nil, s.explain(err)
		}
		var stale []provider
		for _, p := range list {
			if generation, read := known[p.UUID]; !read || generation != p.Generation {
				stale = append(stale, p)
			}
		}
		if len(stale) == 0 && slices.Equal(list, r.providers) {
			return s.rows(ctx, r)
		}
		r.providers = list
		if err := s.readParts(ctx, r, stale, show); err != nil {
			return nil, s.explain(err)
		}
		for _, p := range stale {
			known[p.UUID] = p.Generation
		}
	}
	return nil, s.explain(fmt.Errorf("%w: %d times in a row; stop those who write to Placement, or import its database", ErrChanging, rounds))
}

func (s *Source) explain(err error) error {
	return fmt.Errorf("read %s: %w; nothing was imported", s.Name(), err)
}

func (s *Source) list(ctx context.Context) ([]provider, error) {
	var answer struct {
		Providers []provider `json:"resource_providers"`
	}
	err := s.must(ctx, "/resource_providers", &answer)
	return answer.Providers, err
}

// readParts reads what belongs to providers, and then all their consumers.
func (s *Source) readParts(ctx context.Context, r *reading, list []provider, show Progress) error {
	read := make([]parts, len(list))
	var done atomic.Uint64
	group, within := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	for i, p := range list {
		group.Go(func() (err error) {
			read[i], err = s.partsOf(within, p.UUID)
			if n := done.Add(1); show != nil && err == nil {
				show(n, uint64(len(list)))
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	wanted := make(map[string]bool)
	for i, p := range list {
		for _, id := range append(read[i].consumers, r.parts[p.UUID].consumers...) {
			wanted[id] = true // those that left it have changed, too
		}
		r.parts[p.UUID] = read[i]
	}
	return s.readConsumers(ctx, r, wanted)
}

func (s *Source) readConsumers(ctx context.Context, r *reading, wanted map[string]bool) error {
	ids := make([]string, 0, len(wanted))
	for id := range wanted {
		ids = append(ids, id)
	}
	read := make([]consumer, len(ids))
	group, within := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	for i, id := range ids {
		group.Go(func() error { return s.must(within, "/allocations/"+url.PathEscape(id), &read[i]) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	for i, id := range ids {
		r.consumers[id] = read[i]
	}
	return nil
}

// partsOf reads a provider. One that is deleted meanwhile has nothing; the next
// list does not have it.
func (s *Source) partsOf(ctx context.Context, id string) (parts, error) {
	var inventories struct {
		Inventories map[string]inventory `json:"inventories"`
	}
	var traits struct {
		Traits []string `json:"traits"`
	}
	var aggregates struct {
		Aggregates []string `json:"aggregates"`
	}
	var held struct {
		Allocations map[string]any `json:"allocations"`
	}
	for what, into := range map[string]any{
		"inventories": &inventories, "traits": &traits, "aggregates": &aggregates, "allocations": &held,
	} {
		if _, err := s.get(ctx, "/resource_providers/"+url.PathEscape(id)+"/"+what, into); err != nil {
			return parts{}, err
		}
	}
	p := parts{inventories: inventories.Inventories, traits: traits.Traits, aggregates: aggregates.Aggregates}
	for consumer := range held.Allocations {
		p.consumers = append(p.consumers, consumer)
	}
	slices.Sort(p.consumers)
	return p, nil
}
