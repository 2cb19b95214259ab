package rest

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"unicode/utf8"
)

// Query is the query string of a request. It is parsed once, so that policy and
// handlers get the same value of a parameter. No other code reads query strings;
// a test checks that. If the query string cannot be parsed, no parameter has a
// value.
type Query struct {
	values url.Values
	fault  error
}

// ParseQuery reads the query string of a request.
func ParseQuery(r *http.Request) *Query { return ParseText(r.URL.RawQuery) }

// Sent returns the query string of a request as it came, for who passes it on and
// decides nothing by it.
func Sent(r *http.Request) string { return r.URL.RawQuery }

// PassOn puts a query string into an address, as it came.
func PassOn(target *url.URL, query string) { target.RawQuery = query }

// ParseText reads a query string that came in another way.
func ParseText(text string) *Query {
	values, err := url.ParseQuery(text)
	if err != nil {
		return &Query{fault: fmt.Errorf("the query string cannot be read: %w", err)}
	}
	for key, list := range values {
		if !utf8.ValidString(key) || slices.ContainsFunc(list, func(s string) bool { return !utf8.ValidString(s) }) {
			return &Query{fault: errors.New("'utf-8' codec can't decode the query string")}
		}
	}
	return &Query{values: values}
}

// Fault returns why the query string cannot be parsed, or nil.
func (q *Query) Fault() error { return q.fault }

// Has reports whether a parameter is given, even with an empty value.
func (q *Query) Has(key string) bool { return len(q.values[key]) > 0 }

// Get returns the value of a parameter that has one value: the last, as in
// OpenStack; empty if it is missing.
func (q *Query) Get(key string) string {
	if list := q.values[key]; len(list) > 0 {
		return list[len(list)-1]
	}
	return ""
}

// First returns the first value, which counts for a few of Placement's
// parameters.
func (q *Query) First(key string) string { return q.values.Get(key) }

// All returns all values of a parameter that may be repeated.
func (q *Query) All(key string) []string { return q.values[key] }

// Keys returns the names of the given parameters, in order.
func (q *Query) Keys() []string {
	return slices.Sorted(maps.Keys(q.values))
}

// Once returns the unknown parameters, and the first parameter that is repeated
// and may not be.
func (q *Query) Once(known []string, repeatable ...string) (unknown []string, repeated string) {
	for _, key := range q.Keys() {
		if !slices.Contains(known, key) {
			unknown = append(unknown, key)
		} else if repeated == "" && len(q.values[key]) > 1 && !slices.Contains(repeatable, key) {
			repeated = key
		}
	}
	return unknown, repeated
}

// Values returns all values by parameter, for callers that have checked with Once
// that each has one value.
func (q *Query) Values() url.Values { return maps.Clone(q.values) }

// TakeText removes one of Allot's own parameters, so that an API's own checks do not
// see it.
func (q *Query) TakeText(key string) (value string, found bool, err error) {
	if q.fault != nil {
		return "", false, q.fault
	}
	list, found := q.values[key]
	if len(list) > 1 {
		return "", false, fmt.Errorf("'%s' may be given only once", key)
	}
	delete(q.values, key)
	if found {
		value = list[0]
	}
	return value, found, nil
}

// TakeAt removes and returns the moment that a request is about; empty: now. The
// parameter overrides the header.
func (q *Query) TakeAt(r *http.Request) (string, error) {
	at := r.Header.Get(AtHeader)
	value, found, err := q.TakeText("at")
	if err != nil {
		return "", err
	}
	if found && value == "" {
		return "", errors.New("'at' is empty: leave it out for the present")
	}
	if found {
		at = value
	}
	if at != "" && r.Method != http.MethodGet {
		return "", fmt.Errorf("only a GET can be about the past: %s is not possible at %s", r.Method, at)
	}
	return at, nil
}

// TakeDryRun removes the parameter dry_run=true from a request. The command is
// then only decided, and changes nothing.
func (q *Query) TakeDryRun(r *http.Request) (bool, error) {
	if r.Method == http.MethodGet {
		return false, nil // the API has no such parameter
	}
	return q.TakeBool("dry_run")
}

// TakeBool removes a parameter of Allot's own that is true or false.
func (q *Query) TakeBool(key string) (bool, error) {
	text, found, err := q.TakeText(key)
	if err != nil || !found {
		return false, err
	}
	value, err := strconv.ParseBool(text)
	if err != nil {
		return false, fmt.Errorf("%s must be true or false, not %q", key, text)
	}
	return value, nil
}
