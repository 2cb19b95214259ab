package auth

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
)

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
