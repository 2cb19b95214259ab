// Package placementapi reads the contents of a Placement through its REST API,
// for those who cannot read its database. It changes nothing there.
package placementapi

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/allot-project/allot/cmd/allot-migrate/contents"
	"github.com/allot-project/allot/cmd/allot-migrate/contents/services"
)

// Untold is what the API cannot tell.
var Untold = []string{
	"when providers, inventories and consumers were made and changed: the time of the import stands for it",
	"in which order consumers were written last: they are in the order of the providers that hold them",
	"in which order a consumer's allocations were asked for: they are sorted",
	"rows that the API does not show: consumers without allocations, aggregates without providers, rows about missing providers",
}

// Source is a Placement's REST API.
type Source struct {
	URL   string
	Token string       // "": none, or the client adds one
	HTTP  *http.Client // nil: the usual one
	// Moving takes what was read last for the contents even if they never stood still.
	// Then things that changed meanwhile may be as they were before or after.
	Moving bool

	placement *services.Service
	version   string // the microversion of requests
	minor     int    // its second number
	types     bool   // consumers have types
}

const (
	atOnce     = 8  // requests at once
	rounds     = 5  // readings of what changes meanwhile
	newest     = 39 // microversion 1.39
	oldest     = 28 // the first with consumers' generations
	typesSince = 38
)

func (s *Source) ask(ctx context.Context, path string) (*services.Answer, error) {
	return s.placement.Get(ctx, path, "OpenStack-API-Version", "placement "+s.version)
}

func (s *Source) must(ctx context.Context, path string, into any) error {
	answer, err := s.ask(ctx, path)
	if err != nil {
		return err
	}
	return answer.Decode(into)
}

// may asks for what may be gone; then into stays as it is.
func (s *Source) may(ctx context.Context, path string, into any) error {
	answer, err := s.ask(ctx, path)
	if err != nil || answer.Status == http.StatusNotFound {
		return err
	}
	return answer.Decode(into)
}

// Newest returns the newest microversion, 1.N, that a Placement and this program know.
func Newest(ctx context.Context, placement *services.Service) (minor int, err error) {
	var root struct {
		Versions []struct {
			Max string `json:"max_version"`
		} `json:"versions"`
	}
	answer, err := placement.Get(ctx, "/", "", "")
	if err == nil {
		err = answer.Decode(&root)
	}
	if err != nil {
		return 0, err
	}
	if len(root.Versions) == 0 {
		return 0, answer.Faultf("it names no versions: is %s the address of Placement's API?", placement.URL)
	}
	_, known, _ := strings.Cut(root.Versions[0].Max, ".")
	if minor, err = strconv.Atoi(known); err != nil || minor < oldest {
		return 0, answer.Faultf("it knows microversions up to %q, and 1.%d is needed", root.Versions[0].Max, oldest)
	}
	return min(minor, newest), nil
}

func (s *Source) use(minor int) {
	s.version, s.minor, s.types = fmt.Sprintf("1.%d", minor), minor, minor >= typesSince
}

func (s *Source) prepare(ctx context.Context) error {
	if s.version != "" {
		return nil
	}
	var err error
	if s.placement, err = services.New("Placement", s.URL, s.Token, s.HTTP); err != nil {
		return err
	}
	minor, err := Newest(ctx, s.placement)
	if err == nil {
		s.use(minor)
	}
	return err
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

type parts struct {
	inventories map[string]inventory
	traits      []string
	aggregates  []string
	consumers   []string
	used, seen  map[string]int64 // by class: what is used, and by allocations that are shown
}

type reading struct {
	providers []provider
	parts     map[string]parts
	consumers map[string]consumer
}

// Read reads everything. What changes meanwhile is read again, until two lists of
// providers have the same generations: every change that the API knows raises one.
func (s *Source) Read(ctx context.Context, show contents.Progress) (*contents.Rows, error) {
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
	if s.Moving {
		return s.rows(ctx, r)
	}
	return nil, s.explain(fmt.Errorf("%w: %d times in a row; stop those who write to Placement, or import its database", services.ErrChanging, rounds))
}

func (s *Source) explain(err error) error {
	if s.placement == nil {
		return err // which says that there is no address
	}
	return fmt.Errorf("read %s: %w", s.placement.URL, err)
}

func (s *Source) list(ctx context.Context) ([]provider, error) {
	var answer struct {
		Providers []provider `json:"resource_providers"`
	}
	err := s.must(ctx, "/resource_providers", &answer)
	return answer.Providers, err
}

func (s *Source) readParts(ctx context.Context, r *reading, list []provider, show contents.Progress) error {
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
	return s.readConsumers(ctx, r, wanted, func(n int) {
		if show != nil {
			show(uint64(len(list)+n), uint64(len(list)+len(wanted)))
		}
	})
}

func (s *Source) readConsumers(ctx context.Context, r *reading, wanted map[string]bool, show func(done int)) error {
	ids := slices.Collect(maps.Keys(wanted))
	read := make([]consumer, len(ids))
	var done atomic.Int64
	group, within := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	for i, id := range ids {
		group.Go(func() error {
			defer func() { show(int(done.Add(1))) }()
			return s.must(within, "/allocations/"+url.PathEscape(id), &read[i])
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	for i, id := range ids {
		r.consumers[id] = read[i]
	}
	return nil
}

// partsOf reads a provider. One that is deleted meanwhile has nothing; the next list does not have it.
func (s *Source) partsOf(ctx context.Context, id string) (parts, error) {
	var all struct {
		Inventories map[string]inventory `json:"inventories"`
		Traits      []string             `json:"traits"`
		Aggregates  []string             `json:"aggregates"`
		Allocations map[string]struct {
			Resources map[string]int64 `json:"resources"`
		} `json:"allocations"`
		Usages map[string]int64 `json:"usages"`
	}
	// A release raises no generation. Read after the allocations, the usages are never more for it.
	for _, part := range []string{"inventories", "traits", "aggregates", "allocations", "usages"} {
		if err := s.may(ctx, "/resource_providers/"+url.PathEscape(id)+"/"+part, &all); err != nil {
			return parts{}, err
		}
	}
	p := parts{
		inventories: all.Inventories, traits: all.Traits, aggregates: all.Aggregates,
		used: all.Usages, seen: make(map[string]int64),
	}
	for consumer, of := range all.Allocations {
		p.consumers = append(p.consumers, consumer)
		for class, amount := range of.Resources {
			p.seen[class] += amount
		}
	}
	slices.Sort(p.consumers)
	return p, nil
}

// Same makes two Placements answer in one microversion: the newest that both know.
func Same(ctx context.Context, sources ...*Source) error {
	lowest := newest
	for _, s := range sources {
		if err := s.prepare(ctx); err != nil {
			return s.explain(err)
		}
		lowest = min(lowest, s.minor)
	}
	for _, s := range sources {
		s.use(lowest)
	}
	return nil
}

// Candidates asks for allocation candidates. A refusal is an answer, too, and so is that Placement
// fails, which it does at some requests.
func (s *Source) Candidates(ctx context.Context, query string) (*contents.Candidates, error) {
	if _, err := url.ParseQuery(query); err != nil {
		return nil, fmt.Errorf("%q is no query, such as resources=VCPU:1: %w", query, err)
	}
	got, err := s.ask(ctx, "/allocation_candidates?"+query)
	if err != nil {
		return nil, err
	}
	if got.Status == http.StatusBadRequest || got.Status == http.StatusInternalServerError {
		return &contents.Candidates{Failure: http.StatusText(got.Status)}, nil
	}
	var answer struct {
		Requests  []contents.CandidateRequest          `json:"allocation_requests"`
		Summaries map[string]contents.CandidateSummary `json:"provider_summaries"`
	}
	if err := got.Decode(&answer); err != nil {
		return nil, err
	}
	return &contents.Candidates{Requests: answer.Requests, Summaries: answer.Summaries}, nil
}
