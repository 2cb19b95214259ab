package main_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/allot-project/allot/ledger/ledgertest"
)

// TestArchive: a server that is killed again and again archives everything, once.
// The archive alone verifies with the public key, and the ledger comes back from
// it as it was, at its end and at any moment.
func TestArchive(t *testing.T) {
	t.Parallel()
	dir, data, address, metrics := t.TempDir(), t.TempDir(), freeAddress(t), freeAddress(t)
	file := func(name string) string { return filepath.Join(dir, name) }
	one, two := "file://"+file("one"), "file://"+file("two")
	for _, name := range []string{"one", "two", "three"} {
		if err := os.Mkdir(file(name), 0o750); err != nil {
			t.Fatal(err)
		}
	}
	key := strings.TrimSpace(allot(t, true, "signing-key", "operator.example", file("key")))
	flags := []string{
		"--signing-key", file("key"), "--archive", one, "--archive", two, "--pace-part-records", "20",
		"--pace-part-age", "2s", "--nats", address, "--metrics", metrics,
	}
	var moment time.Time
	sequence := 0
	for round := range 3 {
		s := launch(t, data, flags...)
		for i := range 50 {
			s.must(201, "PUT", fmt.Sprintf("/resource_classes/CUSTOM_R%d_%d", round, i), "")
		}
		moment = time.Now()
		s.must(201, "PUT", fmt.Sprintf("/resource_classes/CUSTOM_R%d_LAST", round), "")
		if round < 2 {
			s.kill()
			continue
		}
		ledgertest.WaitFor(t, "the archive", func() bool {
			m := readMetrics(t, metrics)
			sequence = int(m["allot_log_sequence"])
			return m["allot_archive_lag_commits"] == 0 && m["allot_archive_parts"] > 6 && sequence >= 153
		})
		if m := readMetrics(t, metrics); m["allot_archive_failures_total"] != 0 || m["allot_archive_faulty"] != 0 {
			t.Errorf("%v", m)
		}
		want := fmt.Sprintf("up to sequence %d", sequence)
		for _, url := range []string{one, two} {
			out := allot(t, true, "verify", "--archive", url, "--public-key", key, "--state", file("state"))
			if !strings.Contains(out, want) || !strings.Contains(out, "vouches for everything "+want) {
				t.Errorf("%s", out)
			}
		}
		if out := allot(t, true, "backup", "--nats-url", "nats://"+address, "--to", "file://"+file("three")); !strings.Contains(out, want) {
			t.Errorf("%s", out)
		}
		s.terminate()
	}
	replayed := allot(t, true, "replay", "--data", data)
	for name, url := range map[string]string{"back": one, "other": "file://" + file("three")} {
		allot(t, true, "restore", "--from", url, "--data", file(name))
		if out := allot(t, true, "replay", "--data", file(name)); same(out) != same(replayed) {
			t.Errorf("restored:\n%s\nand it was:\n%s", out, replayed)
		}
	}
	if out := allot(t, true, "replay", "--archive", two); same(out) != same(replayed) {
		t.Errorf("the archive:\n%s\nand it was:\n%s", out, replayed)
	}
	// The class of the last command is not there, and those before it are.
	allot(t, true, "restore", "--from", one, "--data", file("then"), "--at", moment.UTC().Format(time.RFC3339Nano))
	then := launch(t, file("then"))
	then.must(200, "GET", "/resource_classes/CUSTOM_R2_49", "")
	then.must(404, "GET", "/resource_classes/CUSTOM_R2_LAST", "")
	if out := allot(t, true, "restore", "--check", "--from", one, "--data", file("drill"), "--public-key", key); !strings.Contains(
		out, "one vouches for sequence") {
		t.Errorf("%s", out)
	}
	if _, err := os.Stat(file("drill")); err == nil {
		t.Error("the drill has left its folder")
	}
}

// TestArchiveMended: a part in the middle of an archive is damaged. It is named,
// a restore takes the part of a second archive, and a backup from that one mends
// the first.
func TestArchiveMended(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	one, two := filepath.Join(dir, "one"), filepath.Join(dir, "two")
	data := filepath.Join(dir, "data")
	for _, name := range []string{one, two} {
		if err := os.Mkdir(name, 0o750); err != nil {
			t.Fatal(err)
		}
	}
	metrics := freeAddress(t)
	s := launch(t, data, "--archive", "file://"+one, "--archive", "file://"+two, "--pace-part-records", "5",
		"--pace-part-age", "1s", "--metrics", metrics)
	s.makeProvider(1000)
	for range 30 {
		s.must(204, "PUT", "/allocations/"+uuid.NewString(), allocation())
	}
	ledgertest.WaitFor(t, "the archive", func() bool {
		m := readMetrics(t, metrics)
		return m["allot_archive_lag_commits"] == 0 && m["allot_archive_parts"] > 10
	})
	s.terminate()
	parts, err := filepath.Glob(filepath.Join(one, "parts", "*.allot"))
	if err != nil || len(parts) < 6 {
		t.Fatalf("%q, %v", parts, err)
	}
	if err := os.Chmod(parts[3], 0o600); err != nil {
		t.Fatal(err)
	}
	rewrite(t, parts[3], func(text []byte) []byte { text[len(text)/2] ^= 1; return text })
	out := allot(t, false, "verify", "--archive", "file://"+one)
	if !strings.Contains(out, filepath.Base(parts[3])) || !strings.Contains(out, "damaged") {
		t.Errorf("%s", out)
	}
	// A restore that ended in the middle is no ledger, and goes on where it was.
	back := filepath.Join(dir, "back")
	allot(t, false, "restore", "--from", "file://"+one, "--data", back)
	written, err := filepath.Glob(filepath.Join(filepath.Dir(blockFile(back)), "*.blk"))
	if err != nil || !slices.ContainsFunc(written, func(path string) bool {
		info, err := os.Stat(path)
		return err == nil && info.Size() > 0
	}) {
		t.Errorf("the parts before the damaged one are not restored: %q, %v", written, err)
	}
	if out := allot(t, false, "serve", "--data", back, "--http", freeAddress(t), "--nats", ""); !strings.Contains(out, "unfinished") {
		t.Errorf("%s", out)
	}
	if out := allot(t, false, "restore", "--from", "file://"+two, "--data", back, "--at", "5"); !strings.Contains(out, "unfinished") {
		t.Errorf("%s", out)
	}
	allot(t, true, "restore", "--from", "file://"+one, "--from", "file://"+two, "--data", back)
	if restored, was := allot(t, true, "replay", "--data", back), allot(t, true, "replay", "--data", data); same(restored) != same(was) {
		t.Errorf("restored:\n%s\nand it was:\n%s", restored, was)
	}
	out = allot(t, true, "backup", "--mend", "--archive", "file://"+two, "--to", "file://"+one)
	if !strings.Contains(out, filepath.Base(parts[3])+" was damaged") {
		t.Errorf("%s", out)
	}
	allot(t, true, "verify", "--archive", "file://"+one)
}

// same is what two replays of one log have in common.
func same(replayed string) string {
	var list []string
	for _, line := range strings.Split(replayed, "\n") {
		if !strings.HasPrefix(line, "records") {
			list = append(list, line)
		}
	}
	return strings.Join(list, "\n")
}

// TestArchiveBadInput: what cannot be right is refused in one sentence, and
// changes nothing.
func TestArchiveBadInput(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	good, others := file("good"), file("others")
	for _, name := range []string{good, others, file("empty"), file("used/readmodel")} {
		if err := os.MkdirAll(name, 0o750); err != nil {
			t.Fatal(err)
		}
	}
	key := strings.TrimSpace(allot(t, true, "signing-key", "operator.example", file("key")))
	wrong := strings.TrimSpace(allot(t, true, "signing-key", "operator.example", file("wrong")))
	data, otherData := world(t, 3), world(t, 3)
	allot(t, true, "backup", "--data", data, "--to", "file://"+good, "--signing-key", file("key"))
	allot(t, true, "backup", "--data", otherData, "--to", "file://"+others)
	write(t, file("broken"), "{")
	from := []string{"restore", "--from", "file://" + good, "--data"}
	verify := []string{"verify", "--archive", "file://" + good, "--public-key", key}
	before := bytesOf(t, good) + bytesOf(t, others)
	for _, c := range []struct {
		args []string
		says string
	}{
		{append(from, file("new"), "--at", "100000"), "holds the sequences 1 to"},
		{append(from, file("new"), "--at", "0"), "holds the sequences 1 to"},
		{append(from, file("new"), "--at", "1970-01-01T00:00:00Z"), "holds the sequences 1 to"},
		{append(from, file("new"), "--at", "yesterday"), "neither a sequence nor a time"},
		{append(from, file("used")), "belonged to a server"},
		{append(from, data), "belonged to a server"},
		{append(from, data, "--check"), "may remove"},
		{[]string{"restore", "--from", "file://" + good}, "only a drill (--check) needs none"},
		{[]string{"serve", "--data", file("new"), "--http", freeAddress(t), "--nats", "", "--archive", "file://" + good}, "allot restore"},
		{append(from, file("new"), "--from", "file://"+others), "another ledger"},
		{[]string{"restore", "--from", "file://" + file("empty"), "--data", file("new")}, "empty"},
		{[]string{"restore", "--from", "file://" + file("nowhere"), "--data", file("new")}, "cannot be read"},
		{[]string{"restore", "--from", "/srv/x", "--data", file("new")}, "not the URL of an archive"},
		{[]string{"backup", "--data", otherData, "--to", "file://" + good}, "another ledger"},
		{[]string{"backup", "--data", data, "--to", "file://" + file("nowhere")}, "make it first"},
		{[]string{"verify", "--archive", "file://" + good, "--public-key", wrong}, "a key that was given: it is signed with operator.example+"},
		{[]string{"verify", "--archive", "file://" + others, "--public-key", key}, "no signed checkpoint vouches"},
		{[]string{"verify", "--archive", "file://" + file("empty"), "--public-key", key}, "is empty"},
		{[]string{"verify", "--archive", "s3://u:p@b/x"}, "holds a secret"},
		{append(verify, "--state", file("broken")), "remove it to verify everything"},
		{[]string{"verify", "--data", data, "--state", file("state")}, "--state is for an archive"},
		{[]string{"serve", "--data", otherData, "--http", freeAddress(t), "--nats", "", "--archive", "file://" + good}, "of another ledger"},
		{[]string{"serve", "--data", data, "--archive", "ftp://x"}, "not the URL of an archive"},
		{[]string{"serve", "--data", data, "--archive", "file:///x", "--archive", "file:///x"}, "given twice"},
	} {
		if out := allot(t, false, c.args...); !strings.Contains(out, c.says) {
			t.Errorf("%q: %s; want %q", c.args, out, c.says)
		}
		if _, err := os.Stat(file("new/log")); err == nil {
			t.Fatalf("%q has begun a log", c.args)
		}
	}
	if bytesOf(t, good)+bytesOf(t, others) != before {
		t.Error("an archive was changed")
	}
	// A server whose archive is away serves.
	s := launch(t, data, "--archive", "file://"+file("nowhere"))
	s.must(200, "GET", "/resource_classes", "")
}
