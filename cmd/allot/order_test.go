package main_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/allot-project/allot/api/client"
	"github.com/allot-project/allot/api/wire"
	"github.com/allot-project/allot/ledger"
)

// Providers whose names, uuids and creation all have other orders than their
// allocations.
const orderedProviders = "cab"

func orderedID(letter string) string {
	return strings.Repeat(letter, 8) + "-1111-4111-8111-111111111111"
}

func (s *server) makeOrderedProviders() {
	s.t.Helper()
	for _, letter := range strings.Split(orderedProviders, "") {
		id := orderedID(letter)
		s.must(200, "POST", "/resource_providers", fmt.Sprintf(`{"name":"of %s","uuid":"%s"}`, letter, id))
		s.must(200, "PUT", "/resource_providers/"+id+"/inventories",
			`{"resource_provider_generation":0,"inventories":{"VCPU":{"total":99},"MEMORY_MB":{"total":99},"DISK_GB":{"total":99}}}`)
	}
}

// hold makes a consumer hold something, in the order of a text such as "b DISK_GB
// VCPU, a VCPU": one unit of each.
func (s *server) hold(consumer, what string) {
	s.t.Helper()
	var providers []string
	for provider := range strings.SplitSeq(what, ", ") {
		names := strings.Fields(provider)
		for i, class := range names[1:] {
			names[i+1] = `"` + class + `":1`
		}
		providers = append(
			providers, fmt.Sprintf(`"%s":{"resources":{%s}}`, orderedID(names[0]), strings.Join(names[1:], ",")),
		)
	}
	generation := "null"
	found := regexp.MustCompile(`"consumer_generation":(\d+)`).FindStringSubmatch(s.must(200, "GET", "/allocations/"+consumer, ""))
	if found != nil {
		generation = found[1]
	}
	s.must(204, "PUT", "/allocations/"+consumer, fmt.Sprintf(
		`{"allocations":{%s},"project_id":"p","user_id":"u","consumer_generation":%s,"consumer_type":"T"}`,
		strings.Join(providers, ","), generation))
}

var (
	heldFlat   = regexp.MustCompile(`"provider": ?"(.)[^"]*", ?"class": ?"([^"]*)"`)
	heldNested = regexp.MustCompile(`"(.)[0-9a-f]{7}-1111-4111-8111-111111111111": ?\{"resources": ?\{([^}]*)`)
	heldLines  = regexp.MustCompile(`([A-Z_]+):\d+ of provider (.)`)
)

// heldIn returns what is held according to an answer of any API, in the answer's
// order, in the form of hold's text.
func heldIn(text string) string {
	var all []string
	last := ""
	add := func(provider, class string) {
		if provider != last {
			all, last = append(all, provider), provider
		}
		all[len(all)-1] += " " + class
	}
	for _, one := range heldFlat.FindAllStringSubmatch(text, -1) {
		add(one[1], one[2])
	}
	for _, one := range heldLines.FindAllStringSubmatch(text, -1) {
		add(one[2], one[1])
	}
	for _, one := range heldNested.FindAllStringSubmatch(text, -1) {
		for class := range strings.SplitSeq(one[2], ",") {
			add(one[1], strings.Split(class, `"`)[1])
		}
	}
	return strings.Join(all, ", ")
}

// TestOrderAtEveryDoor: what a consumer holds is shown everywhere in the order of
// the request that wrote it.
func TestOrderAtEveryDoor(t *testing.T) {
	address := freeAddress(t)
	s := launch(t, t.TempDir(), "--nats", address)
	nc := dial(t, "nats://"+address)
	told, err := nc.SubscribeSync("allot.notice.consumer." + consumerID(1))
	if err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	s.makeOrderedProviders()
	const first, then = "b DISK_GB VCPU, c MEMORY_MB VCPU, a VCPU", "c VCPU MEMORY_MB, a VCPU, b VCPU DISK_GB"
	s.hold(consumerID(1), first)
	before := s.sequenceNow()
	s.hold(consumerID(1), then)
	now := s.sequenceNow()
	get := func(path string) string { return s.must(200, "GET", path, "") }
	only := func(field string) func(string) string {
		return func(text string) string { return fieldOf(t, text, field) }
	}
	query := func(name, body string) string {
		answer, err := nc.Request("allot.query."+name, []byte(body), time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		return string(answer.Data)
	}
	file := filepath.Join(t.TempDir(), "consumers")
	if err := os.WriteFile(file, []byte(consumerID(2)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	whatIf := func(at string) string {
		return s.must(200, "POST", "/audit/what-if",
			`{`+at+`"steps":[],"questions":[{"query":"Allocations","body":{"consumer":"`+consumerID(1)+`"}}]}`)
	}
	notice := func() string {
		msg, err := told.NextMsg(time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		return string(msg.Data)
	}
	for _, door := range []struct {
		name, answer string
		of           func(string) string // the part that is looked at; nil: all
		want         string
	}{
		{"REST", get("/allocations/" + consumerID(1)), nil, then},
		{"REST, then", get(fmt.Sprintf("/allocations/%s?at=%d", consumerID(1), before)), nil, first},
		{"NATS", query("Allocations", `{"consumer":"`+consumerID(1)+`"}`), nil, then},
		{"NATS, then", query("Allocations", fmt.Sprintf(`{"consumer":"%s","at":%d}`, consumerID(1), before)), nil, first},
		{"the Go client", packed(t, nc, consumerID(1)), nil, then},
		{"history, before", get("/audit/history?limit=1&consumer=" + consumerID(1)), only("before"), first},
		{"history, after", get("/audit/history?limit=1&consumer=" + consumerID(1)), only("after"), then},
		{"history over NATS", query("History", `{"of":"consumer","limit":1,"name":"`+consumerID(1)+`"}`), only("after"), then},
		{"allot history", allot(t, true, "history", "consumer", consumerID(1), "--limit", "1", "--json", "--http", s.http), only("after"), then},
		{"consumers", get("/audit/consumers"), nil, then},
		{"diff, before", get(fmt.Sprintf("/audit/diff?from=%d&to=%d", before, now)), consumersOnly(only("before")), first},
		{"diff, after", get(fmt.Sprintf("/audit/diff?from=%d&to=%d", before, now)), consumersOnly(only("after")), then},
		{"what-if", whatIf(""), nil, then},
		{"what-if, then", whatIf(fmt.Sprintf(`"at":"%d",`, before)), nil, first},
		{"orphans", allot(t, true, "orphans", "--consumers", file, "--older-than", "0s", "--http", s.http), nil, then},
		{"orphans in JSON", allot(t, true, "orphans", "--consumers", file, "--older-than", "0s", "--json", "--http", s.http), func(text string) string {
			line, _, _ := strings.Cut(text, "\n")
			return fieldOf(t, line, "holds")
		}, then},
		{"the first notice", notice(), only("after"), first},
		{"the second notice", notice(), only("after"), then},
	} {
		part := door.answer
		if door.of != nil {
			part = door.of(part)
		}
		if got := heldIn(part); got != door.want {
			t.Errorf("%s: %s, want %s in\n%s", door.name, got, door.want, door.answer)
		}
	}
	// What is held of a provider is ordered by class, in every API.
	for _, answer := range []string{
		get("/audit/holders?provider=" + orderedID("b")), query("Holders", `{"provider":"`+orderedID("b")+`"}`),
	} {
		if got := heldIn(answer); got != "b VCPU DISK_GB" {
			t.Errorf("holders: %s in %s", got, answer)
		}
	}
	was := get(fmt.Sprintf("/resource_providers/%s/allocations?at=%d", orderedID("b"), before))
	if got := regexp.MustCompile(`"resources":\{"VCPU":1,"DISK_GB":1\}`).FindString(was); got == "" {
		t.Errorf("the provider's allocations: %s", was)
	}
}

// packed asks for what a consumer holds with the Go client, and returns the
// answer as JSON.
func packed(t *testing.T, nc *nats.Conn, consumer string) string {
	t.Helper()
	answer, err := client.New(nc, client.Options{}).Allocations(
		t.Context(), wire.AllocationsQuery{Consumer: mustParse(t, consumer)},
	)
	if err != nil {
		t.Fatal(err)
	}
	text, err := ledger.PlainJSON(answer.Result)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// sequenceNow returns the newest commit's sequence.
func (s *server) sequenceNow() uint64 { return s.digestAt("").Sequence }

// fieldOf returns the first member of that name in a JSON document, at any depth.
func fieldOf(t *testing.T, text, name string) string {
	t.Helper()
	_, rest, found := strings.Cut(text, `"`+name+`":`)
	var value json.RawMessage
	if err := json.NewDecoder(strings.NewReader(rest)).Decode(&value); err != nil || !found {
		t.Fatalf("no %s: %v in %s", name, err, text)
	}
	return string(value)
}

func consumersOnly(of func(string) string) func(string) string {
	return func(text string) string {
		_, rest, _ := strings.Cut(text, `"consumers":`)
		return of(rest)
	}
}

// digests is an answer of GET /audit/digest.
type digests struct {
	Sequence   uint64 `json:"sequence"`
	Digest     string `json:"digest"`
	ReadModels string `json:"read_models"`
	Records    int64  `json:"records"`
	Root       string `json:"root"`
}

// digestAt asks for the digests of a moment; empty: now.
func (s *server) digestAt(at string) (d digests) {
	s.t.Helper()
	path := "/audit/digest"
	if at != "" {
		path += "?at=" + at
	}
	if err := json.Unmarshal([]byte(s.must(200, "GET", path, "")), &d); err != nil {
		s.t.Fatal(err)
	}
	return d
}

// TestDigestOfThePast: the digest of a past moment is the one that the server
// gave at that moment: later in the same process, after a crash from a snapshot,
// with rebuilt read models, and with only the log. A replay of the log up to
// there has the same.
func TestDigestOfThePast(t *testing.T) {
	address, data := freeAddress(t), t.TempDir()
	flags := []string{"--nats", address, "--pace-snapshot-records", "5"}
	s := launch(t, data, flags...)
	then := make(map[uint64]digests)
	note := func() {
		t.Helper()
		d := s.digestAt("")
		if old, known := then[d.Sequence]; known && old != d {
			t.Errorf("at %d the digests are %+v, and were %+v", d.Sequence, d, old)
		}
		then[d.Sequence] = d
	}
	s.makeOrderedProviders()
	note()
	classes := []string{"b DISK_GB VCPU, a VCPU MEMORY_MB", "a MEMORY_MB VCPU, b VCPU DISK_GB", "c VCPU", "c VCPU, b VCPU"}
	for i := range 24 {
		s.hold(consumerID(i%6), classes[(i+i/6)%len(classes)])
		note()
	}
	s.must(204, "DELETE", "/allocations/"+consumerID(3), "")
	note()
	s.makeNode("n1", "bm")
	s.mustMetal(201, "POST", "/allocations", `{"resource_class":"bm","name":"a1"}`)
	s.settle()
	note()
	if len(then) < 26 {
		t.Fatalf("only %d moments", len(then))
	}
	check := func(when string) {
		t.Helper()
		for sequence, want := range then {
			if got := s.digestAt(fmt.Sprint(sequence)); got != want {
				t.Errorf("%s: the digests of sequence %d are %+v, and were %+v", when, sequence, got, want)
			}
		}
		newest := s.digestAt("")
		if want, known := then[newest.Sequence]; known && newest != want {
			t.Errorf("%s: the digests are %+v, and were %+v", when, newest, want)
		}
	}
	check("later")
	s.kill()
	for _, gone := range []string{"", "readmodel", "snapshots"} {
		if gone != "" {
			if err := os.RemoveAll(filepath.Join(data, gone)); err != nil && !errors.Is(err, fs.ErrNotExist) {
				t.Fatal(err)
			}
		}
		s = launch(t, data, flags...)
		check("started again, without " + gone)
		s.hold(consumerID(9), "b MEMORY_MB VCPU, a DISK_GB")
		note()
		if gone != "snapshots" {
			s.kill()
		}
	}
	for sequence := range then {
		if sequence%5 == 0 {
			out := allot(t, true, "replay", "--compare", "--to", fmt.Sprint(sequence), "--server-http", s.http, "--nats-url", "nats://"+address)
			if !strings.Contains(out, "the server has the same") {
				t.Errorf("a replay up to %d: %s", sequence, out)
			}
		}
	}
	s.kill()
	allot(t, true, "verify", "--data", data)
}
