package auth

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"github.com/gophercloud/gophercloud/v2"

	"github.com/allot-project/allot/commands/processes"
)

const (
	// maxUnifiedBytes is how much of a list is read, maxEntryBytes how long one of its
	// entries may be, and maxOtherBytes how much is read of every other answer.
	maxUnifiedBytes = 64 << 20
	maxEntryBytes   = 256 << 10
	maxOtherBytes   = 1 << 20
	// maxKeptBytes is what all limits and projects may take in memory. It is some
	// hundred thousand projects: each takes entryBytes besides its texts.
	maxKeptBytes = 32 << 20
	entryBytes   = 128
)

// UnifiedLimits reads Keystone's unified limits, of a service and a region if
// they are given.
type UnifiedLimits struct {
	Keystone        *Keystone
	Service, Region string // ids; empty: whatever there is
}

// unifiedLimit is a limit, registered or not, in Keystone's form.
type unifiedLimit struct {
	Project  *string `json:"project_id"`
	Domain   *string `json:"domain_id"`
	Resource string  `json:"resource_name"`
	Default  *int64  `json:"default_limit"`
	Limit    *int64  `json:"resource_limit"`
}

// UnifiedLimits implements processes.LimitSource. It reads all or fails.
func (u *UnifiedLimits) UnifiedLimits(ctx context.Context) (*processes.UnifiedLimits, error) {
	ctx, cancel := context.WithTimeout(ctx, 6*keystoneTimeout)
	defer cancel()
	out := &processes.UnifiedLimits{}
	var model struct {
		Model struct {
			Name string `json:"name"`
		} `json:"model"`
	}
	if err := u.get(ctx, "limits/model", nil, &model); err != nil {
		return nil, err
	}
	switch model.Model.Name {
	case "flat":
		out.Flat = true
	case "strict_two_level":
	default:
		return nil, fmt.Errorf("keystone has the limit model %q, and flat and strict_two_level are known", model.Model.Name)
	}
	of := url.Values{}
	if u.Service != "" {
		of.Set("service_id", u.Service)
	}
	if u.Region != "" {
		of.Set("region_id", u.Region)
	}
	kept := &kept{}
	err := errors.Join(
		u.list(ctx, "registered_limits", of, kept.limitsInto(&out.Registered, true)),
		u.list(ctx, "limits", of, kept.limitsInto(&out.Limits, false)),
		u.list(ctx, "projects", nil, kept.projectsInto(&out.Projects)),
	)
	if err != nil {
		return nil, err
	}
	return out, nil
}

// kept counts what is kept of Keystone's answers.
type kept struct{ bytes int }

func (k *kept) add(texts ...string) error {
	k.bytes += entryBytes
	for _, text := range texts {
		k.bytes += len(text)
	}
	if k.bytes > maxKeptBytes {
		return fmt.Errorf("its limits and projects take more than %d MiB of memory", maxKeptBytes>>20)
	}
	return nil
}

func (k *kept) limitsInto(limits *[]processes.UnifiedLimit, registered bool) func(json.RawMessage) error {
	return func(text json.RawMessage) error {
		var l unifiedLimit
		if err := json.Unmarshal(text, &l); err != nil {
			return err
		}
		most := l.Limit
		if registered {
			most, l.Project, l.Domain = l.Default, nil, nil
		}
		if most == nil {
			return fmt.Errorf("the limit of %.100q says not how much", l.Resource)
		}
		one := processes.UnifiedLimit{Project: orEmpty(l.Project), Resource: l.Resource, Limit: *most}
		if one.Project == "" && l.Domain != nil {
			one.Project, one.Domain = *l.Domain, true
		}
		*limits = append(*limits, one)
		return k.add(one.Project, one.Resource)
	}
}

func (k *kept) projectsInto(projects *[]processes.UnifiedProject) func(json.RawMessage) error {
	return func(text json.RawMessage) error {
		var p struct {
			ID     string  `json:"id"`
			Parent *string `json:"parent_id"`
			Domain *string `json:"domain_id"`
		}
		if err := json.Unmarshal(text, &p); err != nil {
			return err
		}
		one := processes.UnifiedProject{ID: p.ID, Parent: orEmpty(p.Parent), Domain: orEmpty(p.Domain)}
		*projects = append(*projects, one)
		return k.add(one.ID, one.Parent, one.Domain)
	}
}

func orEmpty(text *string) string {
	if text == nil {
		return ""
	}
	return *text
}

// list reads a whole list, an entry after the other. One that Keystone cuts short is
// an error: what is missing in it would be taken for gone.
func (u *UnifiedLimits) list(
	ctx context.Context, path string, query url.Values, entry func(json.RawMessage) error,
) error {
	resp, err := u.ask(context.WithValue(ctx, longAnswer{}, true), path, query)
	if err != nil {
		return err
	}
	l := listing{path: path, entry: entry}
	err = errors.Join(l.read(&frugal{from: resp.Body, most: maxUnifiedBytes}), resp.Body.Close())
	switch {
	case err != nil:
		return fmt.Errorf("keystone's %s cannot be read: %w", path, err)
	case l.isShort:
		return fmt.Errorf("keystone cuts its list of %s short: raise its list_limit", path)
	case !l.found:
		return fmt.Errorf("keystone's answer has no %s", path)
	}
	return nil
}

func (u *UnifiedLimits) get(ctx context.Context, path string, query url.Values, into any) error {
	resp, err := u.ask(ctx, path, query)
	if err != nil {
		return err
	}
	err = json.NewDecoder(resp.Body).Decode(into)
	if err = errors.Join(err, resp.Body.Close()); err != nil {
		return fmt.Errorf("keystone's %s cannot be read: %w", path, err)
	}
	return nil
}

// ask asks Keystone. The caller closes the answer's body.
func (u *UnifiedLimits) ask(ctx context.Context, path string, query url.Values) (*http.Response, error) {
	target := u.Keystone.client.ServiceURL(path)
	if len(query) > 0 {
		target += "?" + query.Encode()
	}
	resp, err := u.Keystone.client.Get(ctx, target, nil, &gophercloud.RequestOpts{KeepResponseBody: true})
	if err != nil {
		return nil, fmt.Errorf("keystone does not tell its %s: %w", path, err)
	}
	return resp, nil
}
