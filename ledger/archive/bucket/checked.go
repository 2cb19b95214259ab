package bucket

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
)

const (
	// maxAnswerBytes and maxAnswerTags bound an answer that is read into memory: a page
	// of a list of 1,000 objects has some 20,000 tags. Each object takes half a KiB
	// however short its tag is.
	maxAnswerBytes = 8 << 20
	maxAnswerTags  = 32 << 10
)

// checked bounds what the answers of a store may take in memory: lists, errors, and
// whatever else its client decodes. An object goes through in pieces.
type checked struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (w checked) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := w.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	object := r.Method == http.MethodGet && r.URL.RawQuery == "" && resp.StatusCode < http.StatusMultipleChoices
	if !object {
		resp.Body = &checkedBody{ReadCloser: resp.Body}
	}
	return resp, nil
}

// checkedBody is an answer that ends with an error when it is too large.
type checkedBody struct {
	io.ReadCloser
	bytes, tags int
}

// Read implements io.Reader.
func (b *checkedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.bytes += n
	b.tags += bytes.Count(p[:n], []byte("<"))
	if b.bytes > maxAnswerBytes || b.tags > maxAnswerTags {
		return 0, fmt.Errorf("bucket: the store's answer has more than %d bytes or %d tags, which no list of it has",
			maxAnswerBytes, maxAnswerTags)
	}
	return n, err
}
