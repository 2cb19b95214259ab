package main_test

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync"
	"testing"
)

// switched passes requests on to one server or another.
type switched struct {
	mu sync.Mutex
	to string // guarded by mu
}

func (s *switched) set(to string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.to = to
}

func (s *switched) serve(t *testing.T) (address string) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		target, err := url.Parse(s.to)
		s.mu.Unlock()
		if err != nil {
			t.Error(err)
			return
		}
		httputil.NewSingleHostReverseProxy(target).ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	return server.URL
}
