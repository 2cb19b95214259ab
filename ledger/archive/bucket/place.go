package bucket

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// place is where a bucket is, as its URL says.
type place struct {
	endpoint, region string
	insecure         bool
}

func placeIn(u *url.URL) (at place, err error) {
	values, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return at, fmt.Errorf("%w: %q: %w", ErrURL, u, err)
	}
	for key, list := range values {
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
		default:
			return at, fmt.Errorf("%w: %q: %q is none of endpoint, region, insecure", ErrURL, u, key)
		}
	}
	return at, nil
}

// answerWait is how long it is waited until a store begins to answer.
const answerWait = 30 * time.Second

// transport returns what requests to a store go through.
func transport() http.RoundTripper {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.DialContext = (&net.Dialer{Timeout: answerWait, KeepAlive: time.Minute}).DialContext
	transport.ResponseHeaderTimeout = answerWait
	transport.DisableCompression = true // a part's bytes are its own
	return transport
}

// passing says of a broken connection that the store is out of reach.
type passing struct{ io.ReadCloser }

func (b *passing) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return n, err
}
