package audit_test

import (
	"bufio"
	"context"
	"encoding/json"
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
	"github.com/allot-project/allot/ledger/memlog"
	"github.com/allot-project/allot/projector"
)

// TestSeries: each point is what was used at its time.
func TestSeries(t *testing.T) {
	w := newWorld(t, &memlog.Log{}, 21)
	q := ask(t, w.Ledger, nil)
	moment := func() string { return url.QueryEscape(time.Now().UTC().Format(time.RFC3339Nano)) }
	during := "&since=" + moment() // most points of the usual span are before the commands, or after them
	for range 40 {
		w.Submit(t, w.command())
	}
	during += "&until=" + moment()
	provider := "provider=" + w.providers[0].String()
	for _, target := range []string{provider, provider + during, "project=project", "project=project" + during} {
		var s audit.Series
		q.get(t, 200, "/audit/series?points=50&"+target, &s)
		if len(s.Points) < 40 || s.Points[len(s.Points)-1].Sequence != w.Views.View().Sequence() {
			t.Fatalf("%d points", len(s.Points))
		}
		for _, p := range s.Points {
			view, err := w.Views.ViewAtTime(p.Time, time.Now())
			if err != nil || view.Sequence() != p.Sequence {
				t.Fatalf("%v: %d, %v", p, view.Sequence(), err)
			}
			var want int64
			if strings.HasPrefix(target, "project") {
				usages, err := present.Usages(view, "project", "")
				if err != nil {
					t.Fatal(err)
				}
				for _, u := range usages {
					want += u.Amounts["VCPU"]
				}
			} else if provider, err := present.Provider(view, w.providers[0], nil); err != nil {
				t.Fatal(err)
			} else if provider != nil && len(provider.Inventories) > 0 {
				want = provider.Inventories[0].Used
			}
			if p.Used["VCPU"] != want {
				t.Fatalf("%s at %d: %d, not %d", target, p.Sequence, p.Used["VCPU"], want)
			}
		}
	}
	future := url.QueryEscape(time.Now().Add(time.Hour).Format(time.RFC3339))
	for _, bad := range []string{"", "provider=x", "project=p&provider=" + w.providers[0].String(), "project=p&points=1", "project=p&points=501",
		"project=p&since=noon", "project=p&until=" + future, "project=p&since=" + future} {
		q.get(t, 400, "/audit/series?"+bad, nil)
	}
}

// TestDiff: a diff finds exactly what a comparison of everything finds.
func TestDiff(t *testing.T) {
	w := newWorld(t, &memlog.Log{}, 22)
	q := ask(t, w.Ledger, nil)
	for range 80 {
		w.Submit(t, w.command())
	}
	last := w.Views.View().Sequence()
	for range 60 {
		from, to := 1+w.random.Uint64N(last), 1+w.random.Uint64N(last)
		var got audit.Diff
		q.get(t, 200, fmt.Sprintf("/audit/diff?from=%d&to=%d", from, to), &got)
		before, err := w.Views.ViewAt(from)
		if err != nil {
			t.Fatal(err)
		}
		after, err := w.Views.ViewAt(to)
		if err != nil {
			t.Fatal(err)
		}
		differ := make(map[ledger.UUID]bool)
		for _, d := range got.Providers {
			differ[orBefore(d.After, d.Before).Provider] = true
		}
		compare(
			t, w.providers, differ, func(v projector.View, id ledger.UUID) (any, error) { return present.Provider(v, id, nil) },
			before, after,
		)
		clear(differ)
		for _, d := range got.Consumers {
			differ[orBefore(d.After, d.Before).Consumer] = true
		}
		compare(
			t, w.consumers, differ, func(v projector.View, id ledger.UUID) (any, error) { return present.Allocations(v, id) },
			before, after,
		)
	}
	for _, bad := range []string{"", "from=0", "from=1&to=99999", "from=1&to=tomorrow"} {
		q.get(t, 400, "/audit/diff?"+bad, nil)
	}
}

// compare fails if the reported differences between two views are not the real
// ones.
func compare(
	t *testing.T, ids []ledger.UUID, differ map[ledger.UUID]bool, read func(projector.View, ledger.UUID) (any, error),
	before, after projector.View,
) {
	t.Helper()
	for _, id := range ids {
		one, err1 := read(before, id)
		other, err2 := read(after, id)
		if err1 != nil || err2 != nil || cmp.Equal(one, other) == differ[id] {
			t.Fatalf("%d to %d, %s: %v %v", before.Sequence(), after.Sequence(), id, err1, err2)
		}
	}
}

func orBefore[T any](after, before *T) *T {
	if after == nil {
		return before
	}
	return after
}

// TestFind: everything is found under its name, even if it no longer exists.
func TestFind(t *testing.T) {
	l, q := inMemory(t)
	provider := l.Provider(t, "<b>host</b>", commands.Inventory{Class: "VCPU", Total: 9})
	consumer := commandstest.NewID()
	l.Accept(t, commandstest.Allocate(consumer, provider, "VCPU", 1))
	l.Accept(t, &commands.ReleaseConsumer{Consumer: consumer})
	for text, want := range map[string]string{
		provider.String(): "provider", "<b>host</b>": "provider", consumer.String(): "consumer", "project": "project",
		"user": "user", "unknown": "",
	} {
		var f audit.Found
		q.get(t, 200, "/audit/find?q="+url.QueryEscape(text), &f)
		if want == "" && len(f.Found) > 0 || want != "" && (len(f.Found) != 1 || f.Found[0].Of != want) {
			t.Errorf("%s: %+v", text, f)
		}
	}
	q.get(t, 400, "/audit/find", nil)
	q.get(t, 400, "/audit/find?q="+strings.Repeat("x", 300), nil)
	var status audit.Status
	q.get(t, 200, "/audit/status", &status)
	if status.Sequence != l.Views.View().Sequence() || status.Records < int64(status.Sequence) ||
		status.Root == (ledger.Digest{}) {
		t.Errorf("%+v", status)
	}
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
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Accept", "text/event-stream")
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
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
			var line struct {
				Sequence uint64
				Index    int
			}
			if err := json.Unmarshal([]byte(data), &line); err != nil ||
				fmt.Sprintf("%d.%d", line.Sequence, line.Index) != ids[len(ids)-1] {
				t.Errorf("%s: %v", data, err)
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
	l := commandstest.Start(t, t.TempDir(), &memlog.Log{})
	pool := fair.NewPoolOf(4, 1)
	q := questionsTo(l)
	q.Fair = pool
	handlers := q.Handlers()
	get := func(ctx context.Context, target string) string {
		r := httptest.NewRequestWithContext(ctx, http.MethodGet, target, nil)
		w := httptest.NewRecorder()
		handlers[r.URL.Path].ServeHTTP(w, r)
		return w.Body.String()
	}
	other, err := pool.Long(t.Context(), "another")
	if err != nil {
		t.Fatal(err)
	}
	goes, cancel := context.WithCancel(t.Context())
	cancel()
	const thorough = 5
	targets := []string{
		"/audit/digest", "/audit/diff?from=1&to=1", "/audit/fleet?at=1", "/audit/trees?at=1", "/audit/providers?at=1",
		"/audit/providers", "/audit/fleet",
	}
	for i, target := range targets {
		ctx := t.Context()
		if i < thorough {
			ctx = goes
		}
		if got := get(ctx, target); (got == "") != (i < thorough) {
			t.Errorf("%s beside another: %q", target, got)
		}
	}
	other.End()
	for _, target := range targets {
		if got := get(t.Context(), target); !strings.HasPrefix(got, "{") {
			t.Errorf("%s alone: %q", target, got)
		}
	}
}
