package auth

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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

// frugal reads an answer of Keystone's as long as it has no more bytes than it may,
// in all and since meter was last called. What reads it keeps at least the value that
// it has begun, however long that is.
type frugal struct {
	from       io.Reader
	read, most int64
	value      int64 // bytes since the last value ended
}

// Read implements io.Reader.
func (f *frugal) Read(p []byte) (int, error) {
	n, err := f.from.Read(p)
	f.read += int64(n)
	f.value += int64(n)
	switch {
	case f.read > f.most:
		return 0, fmt.Errorf("it has more than %d bytes", f.most)
	case f.value > maxEntryBytes+maxOtherBytes:
		return 0, fmt.Errorf("one of its values has more than %d bytes", maxEntryBytes)
	}
	return n, err
}

// meter begins to count the bytes of the next value.
func (f *frugal) meter() { f.value = 0 }

// listing reads {"PATH": [...], "links": {"next": ...}, "truncated": ...}.
type listing struct {
	path           string
	entry          func(json.RawMessage) error
	found, isShort bool
}

func (l *listing) read(from *frugal) error {
	in := json.NewDecoder(from)
	if token, err := in.Token(); err != nil || token != json.Delim('{') {
		return errors.Join(err, errors.New("it is no object"))
	}
	for in.More() {
		key, err := in.Token()
		if err != nil {
			return err
		}
		from.meter()
		if err := l.member(in, from, key.(string)); err != nil { // a key of an object is a text
			return err
		}
	}
	_, err := in.Token()
	return err
}

func (l *listing) member(in *json.Decoder, from *frugal, key string) error {
	switch key {
	case l.path:
		if l.found {
			return fmt.Errorf("it has %s twice", key)
		}
		l.found = true
		return l.entries(in, from)
	case "links":
		var links struct {
			Next *string `json:"next"`
		}
		err := in.Decode(&links)
		l.isShort = l.isShort || links.Next != nil
		return err
	case "truncated":
		var truncated bool
		err := in.Decode(&truncated)
		l.isShort = l.isShort || truncated
		return err
	}
	var other json.RawMessage
	return in.Decode(&other)
}

func (l *listing) entries(in *json.Decoder, from *frugal) error {
	switch token, err := in.Token(); {
	case err != nil:
		return err
	case token == nil:
		return fmt.Errorf("the %s are null", l.path)
	case token != json.Delim('['):
		return fmt.Errorf("the %s are no list", l.path)
	}
	for in.More() {
		var text json.RawMessage
		if err := in.Decode(&text); err != nil {
			return err
		}
		if len(text) > maxEntryBytes {
			return fmt.Errorf("one of its values has more than %d bytes", maxEntryBytes)
		}
		from.meter()
		if err := l.entry(text); err != nil {
			return err
		}
	}
	_, err := in.Token()
	return err
}

// maxErrorBytes is how much is read of what Keystone says about an error.
const maxErrorBytes = 1 << 10

// longAnswer marks the context of a request for a list, which is read by listing.
type longAnswer struct{}

// shortAnswers bounds the answers of Keystone that its client reads whole: all but
// lists.
type shortAnswers struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (s shortAnswers) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := s.next.RoundTrip(r)
	if err != nil || r.Context().Value(longAnswer{}) != nil && resp.StatusCode == http.StatusOK {
		return resp, err
	}
	var short io.Reader = &frugal{from: resp.Body, most: maxOtherBytes}
	if resp.StatusCode >= http.StatusMultipleChoices {
		short = io.LimitReader(resp.Body, maxErrorBytes) // it becomes a part of an error's text
	}
	resp.Body = shortBody{short, resp.Body}
	return resp, nil
}

// shortBody is the body of an answer, bounded.
type shortBody struct {
	io.Reader
	io.Closer
}
