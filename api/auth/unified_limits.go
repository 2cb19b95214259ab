package auth

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/allot-project/allot/commands/processes"
)

// UnifiedLimits reads Keystone's unified limits, of a service and a region if
// they are given.
type UnifiedLimits struct {
	Keystone        *Keystone
	Service, Region string // ids; empty: whatever there is
}

// unifiedLimit is a limit, registered or not, in Keystone's form.
type unifiedLimit struct {
	Project  string `json:"project_id"`
	Domain   string `json:"domain_id"`
	Resource string `json:"resource_name"`
	Default  *int64 `json:"default_limit"`
	Limit    *int64 `json:"resource_limit"`
}

// UnifiedLimits implements processes.LimitSource. It reads all or fails.
func (u *UnifiedLimits) UnifiedLimits(ctx context.Context) (*processes.UnifiedLimits, error) {
	ctx, cancel := context.WithTimeout(ctx, 6*keystoneTimeout)
	defer cancel()
	out := &processes.UnifiedLimits{}
	var err error
	if out.Flat, err = u.Keystone.isFlat(ctx); err != nil {
		return nil, err
	}
	of := url.Values{}
	if u.Service != "" {
		of.Set("service_id", u.Service)
	}
	if u.Region != "" {
		of.Set("region_id", u.Region)
	}
	registered, err := list[unifiedLimit](ctx, u.Keystone, "registered_limits", of)
	limits, failed := list[unifiedLimit](ctx, u.Keystone, "limits", of)
	projects, unknown := list[struct {
		ID     string `json:"id"`
		Parent string `json:"parent_id"`
		Domain string `json:"domain_id"`
	}](ctx, u.Keystone, "projects", nil)
	if err := errors.Join(err, failed, unknown); err != nil {
		return nil, err
	}
	for _, one := range projects {
		out.Projects = append(out.Projects, processes.UnifiedProject(one))
	}
	for _, l := range registered {
		err = errors.Join(err, add(&out.Registered, processes.UnifiedLimit{Resource: l.Resource}, l.Default))
	}
	for _, l := range limits {
		one := processes.UnifiedLimit{Project: l.Project, Resource: l.Resource}
		if one.Project == "" {
			one.Project, one.Domain = l.Domain, l.Domain != ""
		}
		err = errors.Join(err, add(&out.Limits, one, l.Limit))
	}
	return out, err
}

func add(limits *[]processes.UnifiedLimit, one processes.UnifiedLimit, most *int64) error {
	if most == nil {
		return fmt.Errorf("the limit of %.100q says not how much", one.Resource)
	}
	one.Limit = *most
	*limits = append(*limits, one)
	return nil
}

// isFlat reports whether limits of projects know nothing of each other.
func (k *Keystone) isFlat(ctx context.Context) (bool, error) {
	var answer struct {
		Model struct {
			Name string `json:"name"`
		} `json:"model"`
	}
	if err := k.get(ctx, "limits/model", nil, &answer); err != nil {
		return false, err
	}
	switch answer.Model.Name {
	case "flat":
		return true, nil
	case "strict_two_level":
		return false, nil
	}
	return false, fmt.Errorf(
		"keystone has the limit model %q, and flat and strict_two_level are known", answer.Model.Name,
	)
}

// list reads a whole list. One that Keystone cuts short is an error: what is missing in it would be taken for gone.
func list[T any](ctx context.Context, k *Keystone, path string, query url.Values) (entries []T, err error) {
	var answer map[string]json.RawMessage
	if err := k.get(ctx, path, query, &answer); err != nil {
		return nil, err
	}
	var links struct {
		Next *string `json:"next"`
	}
	var truncated bool
	for member, into := range map[string]any{path: &entries, "links": &links, "truncated": &truncated} {
		if text, given := answer[member]; given {
			err = errors.Join(err, json.Unmarshal(text, into))
		}
	}
	switch {
	case err != nil:
		return nil, fmt.Errorf("keystone's %s cannot be read: %w", path, err)
	case links.Next != nil || truncated:
		return entries, fmt.Errorf("keystone cuts its list of %s short: raise its list_limit", path)
	case entries == nil:
		return nil, fmt.Errorf("keystone's answer has no %s", path)
	}
	return entries, nil
}

func (k *Keystone) get(ctx context.Context, path string, query url.Values, into any) error {
	if _, err := k.client.Get(ctx, k.client.ServiceURL(path)+"?"+query.Encode(), into, nil); err != nil {
		return fmt.Errorf("keystone does not tell its %s: %w", path, err)
	}
	return nil
}

const (
	// maxAnswerBytes is how much is read of an answer: the lists of some hundred thousand projects.
	maxAnswerBytes = 64 << 20
	// maxErrorBytes is how much is read of what Keystone says about an error.
	maxErrorBytes = 1 << 10
)

// boundedAnswers bounds the answers of Keystone, which its client reads whole.
type boundedAnswers struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (b boundedAnswers) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := b.next.RoundTrip(r)
	if err != nil {
		return resp, err
	}
	most := int64(maxAnswerBytes)
	if resp.StatusCode >= http.StatusMultipleChoices {
		most = maxErrorBytes // it becomes a part of an error's text
	}
	resp.Body = struct {
		io.Reader
		io.Closer
	}{io.LimitReader(resp.Body, most), resp.Body}
	return resp, nil
}
