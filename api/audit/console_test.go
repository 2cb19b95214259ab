package audit_test

import (
	"bufio"
	either "cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/allot-project/allot/api/audit"
	"github.com/allot-project/allot/api/present"
	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/commandstest"
	"github.com/allot-project/allot/commands/fair"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/ledgertest"
	"github.com/allot-project/allot/ledger/memlog"
	"github.com/allot-project/allot/projector"
)

// TestSeries: each point is what was used at its time.
func TestSeries(t *testing.T) {
	w := newWorld(t, &memlog.Log{}, 21)
	q := ask(w.Ledger, nil)
	now := func(and time.Duration) string {
		return url.QueryEscape(time.Now().UTC().Add(and).Format(time.RFC3339Nano))
	}
	during := "&since=" + now(0) // most points of the usual span are before the commands, or after them
	for range 40 {
		w.Submit(t, w.command())
	}
	during += "&until=" + now(0)
	ofProject := func(view projector.View) (used int64, err error) {
		usages, err := present.Usages(view, "project", "")
		for _, u := range usages {
			used += u.Amounts["VCPU"]
		}
		return used, err
	}
	ofProvider := func(view projector.View) (int64, error) {
		p, err := present.Provider(view, w.providers[0], nil)
		if err != nil || p == nil || len(p.Inventories) == 0 {
			return 0, err
		}
		return p.Inventories[0].Used, nil
	}
	for target, used := range map[string]func(projector.View) (int64, error){
		"project=project": ofProject, "provider=" + w.providers[0].String(): ofProvider,
	} {
		for _, span := range []string{"", during} {
			points := told[audit.Series](t, q, "/audit/series?points=50&"+target+span).Points
			if len(points) < 40 || points[len(points)-1].Sequence != w.Views.View().Sequence() {
				t.Fatalf("%d points", len(points))
			}
			for _, p := range points {
				view := commandstest.Must(w.Views.ViewAtTime(p.Time, time.Now()))
				want, err := used(view)
				if err != nil || view.Sequence() != p.Sequence || p.Used["VCPU"] != want {
					t.Fatalf("%s: %+v, not %d as of %d, %v", target, p, want, view.Sequence(), err)
				}
			}
		}
	}
}

// TestDiff: a diff finds exactly what a comparison of everything finds.
func TestDiff(t *testing.T) {
	w := newWorld(t, &memlog.Log{}, 22)
	q := ask(w.Ledger, nil)
	for range 80 {
		w.Submit(t, w.command())
	}
	last := w.Views.View().Sequence()
	for range 60 {
		from, to := 1+w.random.Uint64N(last), 1+w.random.Uint64N(last)
		diff := told[audit.Diff](t, q, fmt.Sprintf("/audit/diff?from=%d&to=%d", from, to))
		got := make(map[ledger.UUID]bool)
		for _, d := range diff.Providers {
			got[either.Or(d.After, d.Before).Provider] = true
		}
		for _, d := range diff.Consumers {
			got[either.Or(d.After, d.Before).Consumer] = true
		}
		before, after := everything(t, w, from), everything(t, w, to)
		for id := range after {
			if got[id] == cmp.Equal(before[id], after[id]) {
				t.Fatalf("%d to %d: %s differs: %v", from, to, id, got[id])
			}
		}
	}
}

// everything is what there was of a world at a moment.
func everything(t *testing.T, w *world, at uint64) map[ledger.UUID]any {
	t.Helper()
	view, err := w.Views.ViewAt(at)
	ledgertest.OK(t, err)
	all := make(map[ledger.UUID]any)
	for _, id := range w.providers {
		p, failure := present.Provider(view, id, nil)
		all[id], err = p, errors.Join(err, failure)
	}
	for _, id := range w.consumers {
		c, failure := present.Allocations(view, id)
		all[id], err = c, errors.Join(err, failure)
	}
	ledgertest.OK(t, err)
	return all
}

// TestEvents: a client that accepts server-sent events gets the records in that
// form, including those that come later.
func TestEvents(t *testing.T) {
	l := commandstest.Start(t, t.TempDir(), &memlog.Log{})
	stop := make(chan struct{})
	asked := questionsTo(l)
	asked.Stop = stop
	server := httptest.NewServer(asked.Handlers()["/audit/records"])
	defer server.Close()
	defer close(stop)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+"/audit/records?follow=true&limit=5", nil)
	ledgertest.OK(t, err)
	r.Header.Set("Accept", "text/event-stream")
	resp := commandstest.Must(http.DefaultClient.Do(r))
	defer func() { _ = resp.Body.Close() }() // nothing was written
	if got := resp.Header.Get("Content-Type"); got != "text/event-stream" {
		t.Errorf("Content-Type %q", got)
	}
	var writing sync.WaitGroup
	defer writing.Wait()
	writing.Go(func() {
		for i := range 9 {
			l.Submit(t, &commands.CreateTrait{Name: fmt.Sprint("CUSTOM_", i)})
		}
	})
	var ids []string
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		if id, found := strings.CutPrefix(lines.Text(), "id: "); found {
			ids = append(ids, id)
		}
		if data, found := strings.CutPrefix(lines.Text(), "data: "); found {
			at := decoded[ledger.Address](t, data)
			if at.String() != ids[len(ids)-1] {
				t.Errorf("%s has the id %s", data, ids[len(ids)-1])
			}
		}
	}
	if len(ids) != 5 || ids[0] != "1.0" {
		t.Errorf("%v", ids)
	}
}

// TestThoroughInTurn: questions that read all that the ledger holds, and all about the
// past, wait for a place before anything else, and are answered as soon as there is one.
// Waiting ends with the request. Other questions do not need such a place.
func TestThoroughInTurn(t *testing.T) {
	t.Parallel()
	q := questionsTo(commandstest.Start(t, t.TempDir(), &memlog.Log{}))
	q.Fair = fair.NewPoolOf(4, 1)
	handlers := q.Handlers()
	get := func(ctx context.Context, target string) string {
		r, w := httptest.NewRequestWithContext(ctx, http.MethodGet, target, nil), httptest.NewRecorder()
		handlers[r.URL.Path].ServeHTTP(w, r)
		return w.Body.String()
	}
	other := commandstest.Must(q.Fair.Long(t.Context(), "another"))
	gone, goes := context.WithCancel(t.Context())
	goes()
	thorough := []string{
		"/audit/digest", "/audit/diff?from=1&to=1", "/audit/fleet?at=1", "/audit/trees?at=1", "/audit/providers?at=1",
	}
	for _, target := range thorough {
		if got := get(gone, target); got != "" {
			t.Errorf("%s beside another: %q", target, got)
		}
	}
	answered := func(targets ...string) {
		for _, target := range targets {
			if got := get(t.Context(), target); !strings.HasPrefix(got, "{") {
				t.Errorf("%s: %q", target, got)
			}
		}
	}
	answered("/audit/providers", "/audit/fleet")
	other.End()
	answered(thorough...)
	commandstest.TakeMemory(q.Fair)
	for _, target := range []string{"/audit/records", "/audit/commits?from=1", "/audit/contents"} {
		if got := get(t.Context(), target); !strings.Contains(got, "too many requests") {
			t.Errorf("%s without memory: %q", target, got)
		}
	}
}
