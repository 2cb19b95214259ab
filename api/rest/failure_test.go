package rest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/allot-project/allot/commands/fair"
)

// TestClientsFillNoLog: what a client can bring about as often as it likes is not in the
// log of a server, and what is wrong with the server is.
func TestClientsFillNoLog(t *testing.T) {
	gone, goes := context.WithCancel(t.Context())
	goes()
	for _, c := range []struct {
		name   string
		ctx    context.Context
		err    error
		status int
		level  string // empty: nothing is logged
	}{
		{"the client has gone", gone, fmt.Errorf("reading: %w", context.Canceled), statusGone, ""},
		{"another wait gave up", t.Context(), context.Canceled, http.StatusInternalServerError, "ERROR"},
		{"another error, and the client has gone", gone, errors.New("damage"), http.StatusInternalServerError, "ERROR"},
		{"too many searches", t.Context(), fair.ErrBusy, http.StatusServiceUnavailable, ""},
		{"a search for too long", t.Context(), fair.ErrTooLong, http.StatusServiceUnavailable, ""},
		{"too much for the log", t.Context(), fair.ErrBudget, http.StatusServiceUnavailable, ""},
		{"the client's fault", t.Context(), BadRequest("no"), http.StatusBadRequest, ""},
	} {
		var logs bytes.Buffer
		r := httptest.NewRequest(http.MethodGet, "/traits", nil).WithContext(c.ctx)
		failure := FailureOf(c.err, r, "req-1", slog.New(slog.NewTextHandler(&logs, nil)))
		if failure.Status != c.status {
			t.Errorf("%s: %d, want %d", c.name, failure.Status, c.status)
		}
		if text := logs.String(); (text == "") != (c.level == "") || !strings.Contains(text, c.level) {
			t.Errorf("%s: the log has %q, want level %q", c.name, text, c.level)
		}
	}
}
