package bucket

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// place is where a bucket is, as its URL says.
type place struct {
	endpoint, region string
	insecure         bool
}

// placeIn reads the parameters of a URL, which must be among those that are allowed.
func placeIn(u *url.URL, allowed ...string) (at place, err error) {
	values, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return at, fmt.Errorf("%w: %q: %w", ErrURL, u, err)
	}
	for key, list := range values {
		if !slices.Contains(allowed, key) {
			return at, fmt.Errorf("%w: %q: %q is none of %s", ErrURL, u, key, strings.Join(allowed, ", "))
		}
		switch value := list[len(list)-1]; key {
		case "endpoint":
			if strings.Contains(value, "/") {
				return at, fmt.Errorf("%w: endpoint=%s is not HOST:PORT; for a store without TLS add insecure=true", ErrURL, value)
			}
			at.endpoint = value
		case "region":
			at.region = value
		case "insecure":
			if value != "true" && value != "false" {
				return at, fmt.Errorf("%w: insecure=%q is neither true nor false", ErrURL, value)
			}
			at.insecure = value == "true"
		}
	}
	return at, nil
}

// prefixIn is how the names of all objects begin, as a URL says.
func prefixIn(u *url.URL) string {
	prefix := strings.Trim(u.Path, "/")
	if prefix != "" {
		prefix += "/"
	}
	return prefix
}

// transport returns what requests to a store go through.
func (p Patience) transport() http.RoundTripper {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.DialContext = (&net.Dialer{Timeout: p.Answer, KeepAlive: time.Minute}).DialContext
	transport.ResponseHeaderTimeout = p.Answer
	transport.DisableCompression = true // a part's bytes are its own
	return checked{transport}
}

// passing says of a broken connection that the store is out of reach.
type passing struct{ io.ReadCloser }

// Read implements io.Reader.
func (b *passing) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = says(ErrUnavailable, err)
	}
	return n, err
}

// listed is a list of a store, which must be in the order of names.
type listed struct {
	store, prefix, after string
	yield                func(Object) error
	last                 string
}

// next takes the next object of the list.
func (l *listed) next(key string, size int64) error {
	name, isBelow := strings.CutPrefix(key, l.prefix)
	if !isBelow || name <= l.last && l.last != "" {
		return fmt.Errorf("%w: %s lists %.200q after %.200q, and a list is in the order of names", ErrUnavailable, l.store, key, l.last)
	}
	l.last = name
	if name <= l.after {
		return nil // a store that does not know where to begin lists all
	}
	return l.yield(Object{name, size})
}

// says wraps what a store, or its client, said in an error of this package.
func says(what, err error) error {
	return fmt.Errorf("%w: %w", what, brief{err})
}

// maxErrorBytes bounds the text of a store's error.
const maxErrorBytes = 1 << 10

// brief is an error on one line, of which only the beginning is told: a client may
// quote a whole answer.
type brief struct{ err error }

// Error implements error.
func (b brief) Error() string {
	text := b.err.Error()
	cut := len(text) > maxErrorBytes
	text = strings.Join(strings.Fields(text[:min(len(text), maxErrorBytes)]), " ")
	if cut {
		return strings.ToValidUTF8(text, "") + "..."
	}
	return text
}

// Unwrap returns the error.
func (b brief) Unwrap() error { return b.err }
