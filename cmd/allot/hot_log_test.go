package main_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
)

// streamsOf returns the folders of the log's streams in a data folder.
func streamsOf(t *testing.T, data string) []string {
	t.Helper()
	list, err := filepath.Glob(filepath.Join(data, "log", "jetstream", "$G", "streams", "ALLOT*"))
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(list, func(path string) bool {
		// A stream that was being deleted when the server ended is no part of the log.
		return filepath.Base(path) == "ALLOT_REJECTED" || gone(filepath.Join(path, "meta.inf"))
	})
}

// gone reports that a file is not there.
func gone(path string) bool {
	_, err := os.Stat(path)
	return errors.Is(err, fs.ErrNotExist)
}

// TestHotLog: what all archives have leaves the log while a server runs, and after
// it was killed. Everything is read as before: what was true then, a whole replay,
// a verification and an export, and again when read models and snapshots are gone.
func TestHotLog(t *testing.T) {
	t.Parallel()
	dir, data, address, metrics := t.TempDir(), t.TempDir(), freeAddress(t), freeAddress(t)
	one, two := filepath.Join(dir, "one"), filepath.Join(dir, "two")
	for _, name := range []string{one, two} {
		if err := os.Mkdir(name, 0o750); err != nil {
			t.Fatal(err)
		}
	}
	flags := []string{
		"--archive", "file://" + one, "--archive", "file://" + two, "--archive-part-records", "20", "--archive-part-age", "1s",
		"--archive-cache", "1", "--nats", address, "--snapshot-records", "10", "--metrics", metrics,
	}
	bounded := append(slices.Clone(flags), "--hot-log-records", "40")
	made := 0
	write := func(s *server, n int) {
		t.Helper()
		for range n {
			s.must(201, "PUT", fmt.Sprintf("/resource_classes/CUSTOM_N%d", made), "")
			made++
		}
	}
	s := launch(t, data, flags...)
	write(s, 150)
	before := s.must(200, "GET", "/resource_classes?at=60", "")
	s.kill()
	if list := streamsOf(t, data); len(list) != 1 {
		t.Fatalf("without bounds the log is sealed: %q", list)
	}
	for range 3 {
		s = launch(t, data, bounded...)
		write(s, 30)
		oldest := streamsOf(t, data)[0]
		waitFor(t, "a part of the log leaves, and is counted", func() bool {
			write(s, 1)
			m := readMetrics(t, metrics) // each is read by itself, and counted when its file has gone
			left := m["allot_hot_log_left_commits_total"]
			return gone(oldest) && left > 0 && m["allot_hot_log_first_sequence"] > left &&
				m["allot_hot_log_left_records_total"] >= left && m["allot_hot_log_left_bytes_total"] > left
		})
		s.kill()
	}
	s = launch(t, data, flags...) // without bounds: nothing may leave
	for i := range made {
		s.must(200, "GET", fmt.Sprintf("/resource_classes/CUSTOM_N%d", i), "")
	}
	nothingLeavesForStrangers(t, dial(t, "nats://"+address), data)
	exported := filepath.Join(dir, "exported")
	allot(t, true, "export", exported, "--nats-url", "nats://"+address)
	s.terminate()
	for _, gone := range []string{"readmodel", "snapshots"} {
		if err := os.RemoveAll(filepath.Join(data, gone)); err != nil {
			t.Fatal(err)
		}
	}
	s = launch(t, data, bounded...)
	if after := s.must(200, "GET", "/resource_classes?at=60", ""); after != before {
		t.Errorf("it was:\n%s\nand is:\n%s", before, after)
	}
	s.terminate()
	again := filepath.Join(dir, "again")
	allot(t, true, "import", exported, "--data", again)
	then := launch(t, again)
	then.must(200, "GET", fmt.Sprintf("/resource_classes/CUSTOM_N%d", made-1), "")
	if after := then.must(200, "GET", "/resource_classes?at=60", ""); after != before {
		t.Errorf("it was:\n%s\nand is, from the export:\n%s", before, after)
	}
	then.terminate()
	whole := allot(t, true, "replay", "--archive", exported)
	last := strings.Fields(whole)[1] // commits N
	if joined := allot(t, true, "replay", "--data", data, "--archive", "file://"+one, "--to", last); same(joined) != same(whole) {
		t.Errorf("replayed:\n%s\nand from the export:\n%s", joined, whole)
	}
	hotLogRefusals(t, data, dir)
	hotLogRepaired(t, data, "file://"+one, bounded, made)
}

// TestHotLogAge: what is younger than --hot-log-age stays in the log, whatever
// --hot-log-records says, and what is older leaves.
func TestHotLogAge(t *testing.T) {
	t.Parallel()
	dir, metrics := t.TempDir(), freeAddress(t)
	flags := []string{
		"--archive", "file://" + dir, "--archive-part-records", "5", "--archive-part-age", "100ms", "--snapshot-records", "5",
		"--hot-log-records", "1", "--metrics", metrics, "--hot-log-age",
	}
	data := t.TempDir()
	made := 0
	write := func(s *server, n int) {
		t.Helper()
		for range n {
			s.must(201, "PUT", fmt.Sprintf("/resource_classes/CUSTOM_N%d", made), "")
			made++
		}
	}
	first := func() float64 { return readMetrics(t, metrics)["allot_hot_log_first_sequence"] }
	s := launch(t, data, append(flags, "1h")...)
	write(s, 50)
	waitFor(t, "everything is archived and could leave", func() bool {
		m := readMetrics(t, metrics)
		return m["allot_archive_lag_commits"] == 0 && len(streamsOf(t, data)) > 1
	})
	write(s, 5)
	if first() != 1 {
		t.Errorf("what is younger than an hour has left: the log begins with %v", first())
	}
	s.terminate()
	s = launch(t, data, append(flags, "1s")...)
	defer s.terminate()
	waitFor(t, "what is older than a second leaves", func() bool {
		write(s, 1)
		return first() > 50
	})
	for i := range made {
		s.must(200, "GET", fmt.Sprintf("/resource_classes/CUSTOM_N%d", i), "")
	}
}

// TestArchivesAway: a server of whose log a part has left starts while all archives
// are away, after a kill, too. It serves, and what is only in archives it refuses in
// one sentence until they are back.
func TestArchivesAway(t *testing.T) {
	t.Parallel()
	dir, data, metrics := filepath.Join(t.TempDir(), "archive"), t.TempDir(), freeAddress(t)
	if err := os.Mkdir(dir, 0o750); err != nil {
		t.Fatal(err)
	}
	key := filepath.Join(t.TempDir(), "key")
	allot(t, true, "signing-key", "operator.example", key)
	flags := []string{
		"--archive", "file://" + dir, "--archive-part-records", "5", "--archive-part-age", "100ms", "--snapshot-records", "5",
		"--hot-log-records", "8", "--metrics", metrics, "--signing-key", key,
	}
	made := 0
	write := func(s *server) {
		t.Helper()
		s.must(201, "PUT", fmt.Sprintf("/resource_classes/CUSTOM_N%d", made), "")
		made++
	}
	s := launch(t, data, flags...)
	waitFor(t, "a part of the log leaves", func() bool {
		write(s)
		return readMetrics(t, metrics)["allot_hot_log_first_sequence"] > 30
	})
	before := s.must(200, "GET", "/audit/records?from=1&limit=20", "")
	was := s.must(200, "GET", "/resource_classes?at=20", "")
	s.kill()
	if err := os.Rename(dir, dir+".away"); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		s = launch(t, data, flags...)
		if now := s.must(200, "GET", "/resource_classes?at=20", ""); now != was {
			t.Errorf("it was:\n%s\nand is:\n%s", was, now)
		}
		for range 12 {
			write(s)
		}
		if text := s.must(503, "GET", "/audit/records?from=1&limit=20", ""); !strings.Contains(text, "only in archives, and none of them can be read now") ||
			strings.Contains(text, dir) {
			t.Errorf("%s", text)
		}
		s.kill()
	}
	s = launch(t, data, flags...)
	if err := os.Rename(dir+".away", dir); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the archives are read again", func() bool {
		status, _, err := s.call("GET", "/audit/records?from=1&limit=20", "", "")
		return err == nil && status == 200
	})
	if after := s.must(200, "GET", "/audit/records?from=1&limit=20", ""); after != before {
		t.Errorf("it was:\n%s\nand is:\n%s", before, after)
	}
	first := readMetrics(t, metrics)["allot_hot_log_first_sequence"]
	waitFor(t, "more of the log leaves", func() bool {
		write(s)
		return readMetrics(t, metrics)["allot_hot_log_first_sequence"] > first
	})
	s.terminate()
}

// hotLogRepaired: a sealed part of the log is damaged. The server refuses it, and a
// repair takes from an archive what is damaged and what has left.
func hotLogRepaired(t *testing.T, data, archive string, flags []string, made int) {
	t.Helper()
	oldest := streamsOf(t, data)[0]
	block, err := filepath.Glob(filepath.Join(oldest, "msgs", "*.blk"))
	if err != nil || len(block) == 0 {
		t.Fatal(block, err)
	}
	rewrite(t, block[0], func(text []byte) []byte { text[len(text)/2] ^= 1; return text })
	out := allot(t, false, append([]string{"serve", "--data", data, "--http", freeAddress(t)}, flags...)...)
	if !strings.Contains(out, "damaged") {
		t.Errorf("%s", out)
	}
	if out := allot(t, false, "repair", "--data", data, "--cut-after", "1000"); !strings.Contains(out, "the commits 1 to") {
		t.Errorf("%s", out)
	}
	allot(t, true, "repair", "--data", data, "--archive", archive)
	s := launch(t, data, flags...)
	for i := range made {
		s.must(200, "GET", fmt.Sprintf("/resource_classes/CUSTOM_N%d", i), "")
	}
}

// nothingLeavesForStrangers: no client can seal or delete a stream of the log.
func nothingLeavesForStrangers(t *testing.T, nc *nats.Conn, data string) {
	t.Helper()
	list := streamsOf(t, data)
	if len(list) < 2 {
		t.Fatalf("nothing is sealed: %q", list)
	}
	for _, path := range list {
		stream := filepath.Base(path)
		for subject, body := range map[string]string{
			"$JS.API.STREAM.DELETE." + stream: "", "$JS.API.STREAM.PURGE." + stream: "{}",
			"$JS.API.STREAM.UPDATE." + stream: fmt.Sprintf(`{"name":%q,"sealed":true,"subjects":["allot.sealed.x"]}`, stream),
			"allot.sealed." + stream:          "{}",
			"$JS.API.STREAM.CREATE." + stream: fmt.Sprintf(`{"name":%q,"subjects":["allot.log"]}`, stream),
		} {
			if answer, err := nc.Request(subject, []byte(body), 50*time.Millisecond); err == nil {
				t.Errorf("a client got an answer on %s: %s", subject, answer.Data)
			}
		}
	}
	if now := streamsOf(t, data); !slices.Equal(now, list) {
		t.Errorf("the streams were %q and are %q", list, now)
	}
}

// hotLogRefusals: a log of which a part has left needs archives that have it.
func hotLogRefusals(t *testing.T, data, dir string) {
	t.Helper()
	empty := filepath.Join(dir, "empty")
	if err := os.Mkdir(empty, 0o750); err != nil {
		t.Fatal(err)
	}
	was := strings.Join(streamsOf(t, data), " ")
	for _, c := range []struct {
		args []string
		says string
	}{
		{nil, "name them with --archive"},
		{[]string{"--archive", "file://" + empty}, "no archive has what is before it"},
		{[]string{"--hot-log-records", "10"}, "need --archive"},
		{[]string{"--archive", "file://" + empty, "--hot-log-records", "0"}, "at least 1"},
		{[]string{"--archive", "file://" + empty, "--hot-log-age", "0s"}, "more than 0"},
		{[]string{"--archive", "file://" + empty, "--hot-log-age", "1h", "--snapshot-records", "0", "--snapshot-age", "0"}, "need snapshots"},
	} {
		args := append([]string{"serve", "--data", data, "--http", freeAddress(t), "--nats", ""}, c.args...)
		if out := allot(t, false, args...); !strings.Contains(out, c.says) {
			t.Errorf("%q: %s; want %q", c.args, out, c.says)
		}
	}
	if out := allot(t, false, "replay", "--data", data); !strings.Contains(out, "name one with --archive") {
		t.Errorf("%s", out)
	}
	if now := strings.Join(streamsOf(t, data), " "); now != was {
		t.Errorf("the streams were %s and are %s", was, now)
	}
}
