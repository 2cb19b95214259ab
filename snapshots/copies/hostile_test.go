package copies

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/ledgertest"
)

// hostile are manifests of who wants to write, read or wait elsewhere: what is done to one
// that is good, and what is said of it.
var hostile = map[string]struct {
	change func(m map[string]any)
	says   string
}{
	"a sum is a path":          {inFile("sha256", "../../victim"), "is not a SHA-256 digest"},
	"a sum is absolute":        {inFile("sha256", "/dev/zero"), "is not a SHA-256 digest"},
	"a sum is short":           {inFile("sha256", "abcd"), "is not a SHA-256 digest"},
	"a name is a path":         {inFile("name", "../../victim"), "is no file's name"},
	"a name is absolute":       {inFile("name", "/etc/passwd"), "is no file's name"},
	"a name is in a folder":    {inFile("name", "models/000001.sst"), "is no file's name"},
	"a name is the one above":  {inFile("name", ".."), "is no file's name"},
	"a name is the folder":     {inFile("name", "."), "is no file's name"},
	"a name is hidden":         {inFile("name", ".x"), "is no file's name"},
	"a name has a NUL":         {inFile("name", "x\x00y"), "is no file's name"},
	"a name has a line":        {inFile("name", "x\ny"), "is no file's name"},
	"a name is none":           {inFile("name", ""), "is no file's name"},
	"a name is long":           {inFile("name", strings.Repeat("x", 300)), "is no file's name"},
	"a name is not given":      {func(m map[string]any) { delete(aFile(m), "name") }, "it lists the file"},
	"a name is another one's":  {inFile("name", string(stateName)), "it lists the file"},
	"a size is negative":       {inFile("size", -1), "it lists the file"},
	"a size is more than all":  {inFile("size", int64(math.MaxInt64)), "it lists the file"},
	"a size is more than here": {inFile("size", int64(1)<<50), "there is room for"},
	"the State is ahead":       {func(m map[string]any) { m["state"].(map[string]any)["sequence"] = testCommits + 1 }, "its State is at"},
	"there is no State":        {func(m map[string]any) { m["state"].(map[string]any)["sequence"] = 0 }, "its State is at"},
	"no file is listed":        {func(m map[string]any) { m["files"] = []any{} }, "it lacks"},
	"it is no manifest":        {func(m map[string]any) { m["files"] = "all" }, "cannot be read"},
}

// aFile is a file of a manifest that no other one equals.
func aFile(m map[string]any) map[string]any {
	for _, one := range m["files"].([]any) {
		if f := one.(map[string]any); strings.HasPrefix(f["name"].(string), "MANIFEST") {
			return f
		}
	}
	panic("there is no MANIFEST")
}

func inFile(key string, value any) func(map[string]any) {
	return func(m map[string]any) { aFile(m)[key] = value }
}

// TestHostileManifests: whatever a manifest says, of an archive or of a replica, nothing
// outside of the folder is touched, nothing in it is changed, and the error says what is
// wrong.
func TestHostileManifests(t *testing.T) {
	w := newWorld(t)
	have := w.full(0)
	state := have.state.Fork()
	ledgertest.OK(t, have.snaps.Save(state))
	good := t.TempDir()
	have.keepOnce(good, nil)
	path := objects(t, good, storedManifests)[0]
	text := strings.TrimPrefix(string(ledgertest.ReadFile(t, path)), storedTitle)
	for name, one := range hostile {
		t.Run(name, func(t *testing.T) {
			w.t = t
			m := make(map[string]any)
			ledgertest.OK(t, json.Unmarshal([]byte(text), &m))
			one.change(m)
			changed := ledgertest.Must(json.Marshal(m))
			w.refuses(t, nil, one.says, func(into *replica) (*Copy, error) {
				archive := t.TempDir()
				putObject(t, archive, changed)
				return w.take(into, archive, func(cfg *JoinConfig) { cfg.Room = func() int64 { return 1 << 40 } })
			})
			w.refuses(t, nil, one.says, func(into *replica) (*Copy, error) {
				liar := have.serve(nil)
				liar.http.Handler = onlyReplicas(secret, liar.answers(func(r *http.Request) ([]byte, error) {
					if r.URL.Path == offerPath {
						return json.Marshal(liar.cfg.offer())
					}
					return changed, nil
				}))
				return w.join(into, func(cfg *JoinConfig) { cfg.Room = func() int64 { return 1 << 40 } }, peer("liar", liar.Address()))
			})
		})
	}
}

// putObject puts a manifest into an archive under a fitting name.
func putObject(t *testing.T, archive string, manifest []byte) {
	t.Helper()
	var position struct {
		Models struct{ Head ledger.Head }
	}
	if err := json.Unmarshal(manifest, &position); err != nil && position.Models.Head.Sequence == 0 {
		t.Fatal(err)
	}
	object := append([]byte(storedTitle), append(manifest, '\n')...)
	name := storedName{position.Models.Head, sha256.Sum256(object)}.String()
	path := filepath.Join(archive, filepath.FromSlash(name))
	ledgertest.OK(t, os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, object, 0o600))
}

// refuses makes sure that a copy is not taken, that the error is one, if it is given, and has some
// words, and that nothing beside the replica's folder, or in it, has changed.
func (w *world) refuses(t *testing.T, want error, says string, get func(into *replica) (*Copy, error)) {
	t.Helper()
	around := t.TempDir()
	into := w.open(filepath.Join(around, "data"))
	defer into.close()
	into.fold(20, 10)
	before := digestOf(t, into.views)
	for _, dir := range []string{around, into.dir, into.folder().ReadModels} {
		victim := filepath.Join(dir, "victim")
		ledgertest.OK(t, os.WriteFile(victim, []byte("precious"), 0o600))
		defer func() {
			if text := ledgertest.ReadFile(t, victim); string(text) != "precious" {
				t.Errorf("%s has %q", victim, text)
			}
		}()
	}
	entries := len(filesIn(t, around))
	got, err := get(into)
	if got != nil || err == nil || want != nil && !errors.Is(err, want) || !strings.Contains(err.Error(), says) {
		t.Errorf("%v, and not %v with %q: %v", got, want, says, err)
	}
	if there, err := exists(into.folder().path(readyName)); err != nil || there {
		t.Errorf("what was refused is ready: %v", err)
	}
	if err := into.folder().Clean(); err != nil || digestOf(t, into.views) != before {
		t.Errorf("something has changed: %v", err)
	}
	if now := filesIn(t, around); len(now) != entries {
		t.Errorf("there are other files than before: %q", now)
	}
	nothingLeft(t, into)
}

// TestEndlessFile: of a file that has no end no more is read than the manifest lists.
func TestEndlessFile(t *testing.T) {
	w := newWorld(t)
	have := w.full(30)
	w.refuses(t, nil, "has more than", func(into *replica) (*Copy, error) {
		endless := have.serve(nil)
		routes := endless.http.Handler
		endless.http.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !strings.HasPrefix(r.URL.Path, filesPath) || r.Header.Get("Authorization") == "" {
				routes.ServeHTTP(w, r)
				return
			}
			for zeros := [1 << 10]byte{}; ; {
				if _, err := w.Write(zeros[:]); err != nil {
					return
				}
			}
		})
		return w.join(into, nil, peer("endless", endless.Address()))
	})
}
