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

// Query is the query string of a request. It is parsed once, and whoever asks
// for a parameter, be it the policy or a handler, gets the same value: no
// other code reads query strings, which a test checks. Of a query string that
// cannot be read nobody gets anything.
type Query struct {
	values url.Values
	fault  error
}

// ParseQuery reads the query string of a request.
func ParseQuery(r *http.Request) *Query { return ParseText(r.URL.RawQuery) }

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

// Fault is why the query string cannot be read; nil if it can.
func (q *Query) Fault() error { return q.fault }

// Has reports whether a parameter is given, if only with an empty value.
func (q *Query) Has(key string) bool { return len(q.values[key]) > 0 }

// Get is the value that counts of a parameter that has one: the last, as in
// OpenStack; empty if there is none.
func (q *Query) Get(key string) string {
	if list := q.values[key]; len(list) > 0 {
		return list[len(list)-1]
	}
	return ""
}

// First is the first value, which counts for a few parameters of Placement's.
func (q *Query) First(key string) string { return q.values.Get(key) }

// All are all values of a parameter that may be repeated.
func (q *Query) All(key string) []string { return q.values[key] }

// Keys are the parameters that are given, in order.
func (q *Query) Keys() []string {
	return slices.Sorted(maps.Keys(q.values))
}

// Once finds the parameters that are none of the known ones, and the first
// that is repeated and may not be.
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

// Values are all values by their keys, for whoever has made sure with Once
// that each has one.
func (q *Query) Values() url.Values { return maps.Clone(q.values) }

// take takes one of Allot's own parameters out, so that the facade's own
// checks do not see it.
func (q *Query) take(key string) (value string, found bool, err error) {
	if q.fault != nil {
		return "", false, q.fault
	}
	list, found := q.values[key]
	if len(list) > 1 {
		return "", false, fmt.Errorf("'%s' may be given once", key)
	}
	delete(q.values, key)
	if found {
		value = list[0]
	}
	return value, found, nil
}

// TakeAt takes the moment that a request is about out of it; empty: now. The
// parameter wins over the header.
func (q *Query) TakeAt(r *http.Request) (string, error) {
	at := r.Header.Get(AtHeader)
	value, found, err := q.take("at")
	if err != nil {
		return "", err
	}
	if found {
		at = value
	}
	if at != "" && r.Method != http.MethodGet {
		return "", fmt.Errorf("only a GET can be about the past: %s is not possible at %s", r.Method, at)
	}
	return at, nil
}

// TakeDryRun takes the parameter dry_run=true out of a request: the command
// is then decided, and nothing happens.
func (q *Query) TakeDryRun(r *http.Request) (bool, error) {
	if r.Method == http.MethodGet {
		return false, nil // the facade knows no such parameter
	}
	return q.TakeBool("dry_run")
}

// TakeBool takes a parameter of Allot's own that is true or false.
func (q *Query) TakeBool(key string) (bool, error) {
	text, found, err := q.take(key)
	if err != nil || !found {
		return false, err
	}
	value, err := strconv.ParseBool(text)
	if err != nil {
		return false, fmt.Errorf("%s must be true or false, not %q", key, text)
	}
	return value, nil
}
