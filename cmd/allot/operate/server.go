package operate

import (
	"context"
	"net/http"
	"net/url"

	"github.com/allot-project/allot/cmd/internal/cli"
)

// serverFlags name the running server that a command asks.
type serverFlags struct {
	cli.Server `embed:""`
}

// get sends a GET; the caller closes the answer's body.
func (s serverFlags) get(ctx context.Context, path string, query url.Values) (*http.Response, error) {
	client, err := s.Client()
	if err != nil {
		return nil, err
	}
	return client.Send(ctx, cli.Request{Path: path, Query: query})
}

// read returns an answer whole.
func (s serverFlags) read(ctx context.Context, path string, query url.Values) ([]byte, error) {
	client, err := s.Client()
	if err != nil {
		return nil, err
	}
	return client.Read(ctx, cli.Request{Path: path, Query: query})
}

// fetch gets an answer.
func fetch[T any](ctx context.Context, s serverFlags, path string, query url.Values) (*T, error) {
	text, err := s.read(ctx, path, query)
	if err != nil {
		return nil, err
	}
	answer := new(T)
	return answer, cli.Decode(text, answer)
}
