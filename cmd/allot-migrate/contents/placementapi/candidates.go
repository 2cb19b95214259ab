package placementapi

import (
	"context"
	"fmt"
	"net/http"
	"net/url"

	"github.com/allot-project/allot/cmd/allot-migrate/contents"
)

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

// Candidates asks for allocation candidates. A refusal is an answer, too.
func (s *Source) Candidates(ctx context.Context, query string) (*contents.Candidates, error) {
	if _, err := url.ParseQuery(query); err != nil {
		return nil, fmt.Errorf("%q is no query, such as resources=VCPU:1: %w", query, err)
	}
	got, err := s.ask(ctx, "/allocation_candidates?"+query)
	if err != nil {
		return nil, err
	}
	if got.Status == http.StatusBadRequest {
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
