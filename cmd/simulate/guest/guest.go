// Package guest compiles the server for a simulated machine: the program itself,
// for wasip1, with three files of Pebble and a network that are the machine's.
package guest

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/allot-project/allot/ledger"
)

//go:embed files
var files embed.FS

// pebble is the module that gets other files, and where they go.
const pebble = "github.com/cockroachdb/pebble/v2"

var pebbleFiles = map[string]string{
	"pebble_vfs.go.txt":      "vfs/machine_wasip1.go",
	"pebble_rawalloc.go.txt": "internal/rawalloc/rawalloc_wasm.go",
	"pebble_bitflip.go.txt":  "internal/bitflip/bitflip.go",
}

// pebbleWithout is what they take the place of.
const pebbleWithout = "vfs/file_lock_generic.go"

// goEdits are changes of Go's own packages: old text, new text. Connections are the
// machine's, and signals come as bytes of standard input.
var goEdits = map[string][2]string{
	"net/net_fake.go":          {"func socket(", "func fakeSocket("},
	"net/fd_fake.go":           {`netfd = newFD("tcp", d)`, "netfd = acceptedFD(fd, d)"},
	"net/sockopt_fake.go":      {"syscall.ENOPROTOOPT", "machineIgnores(syscall.ENOPROTOOPT)"},
	"os/signal/signal_unix.go": {"watchSignalLoop = loop", "watchSignalLoop = machineSignals"},
	"os/signal/signal.go":      {"\tsignalWaitUntilIdle()", ""}, // it would wait for the runtime's own signals
}

// goFiles are files that Go's own packages get besides.
var goFiles = map[string]string{
	"net_machine.go.txt":    "net/machine_wasip1.go",
	"signal_machine.go.txt": "os/signal/machine_wasip1.go",
}

// Folder is where all that is made is kept, outside of the project.
func Folder() (string, error) {
	caches, err := os.UserCacheDir()
	return filepath.Join(caches, "allot-simulate"), err
}

// Build compiles the program of a module's folder, and returns the file. What was
// compiled before is not compiled again.
func Build(root string) (program string, err error) {
	cache, err := Folder()
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(cache, 0o750); err != nil {
		return "", err
	}
	mod, err := modFile(root, cache)
	if err != nil {
		return "", err
	}
	overlay, err := overlayFile(cache)
	if err != nil {
		return "", err
	}
	program = filepath.Join(cache, "allot-"+name([]byte(root))+".wasm")
	build := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-tags", "nostatfs",
		"-modfile", mod, "-overlay", overlay, "-o", program, "./cmd/allot")
	build.Dir, build.Env = root, append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "GOFLAGS=-buildvcs=false")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("compile for wasip1: %w: %s", err, out)
	}
	return program, nil
}

// modFile writes a go.mod beside which Pebble is the copy with other files.
func modFile(root, cache string) (string, error) {
	mod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		return "", err
	}
	sum, err := os.ReadFile(filepath.Join(root, "go.sum"))
	if err != nil {
		return "", err
	}
	copied, err := copyPebble(root, cache)
	if err != nil {
		return "", err
	}
	mod = fmt.Appendf(mod, "\nreplace %s => %s\n", pebble, copied)
	folder := filepath.Join(cache, "mod-"+name(mod, sum))
	if err := os.MkdirAll(folder, 0o750); err != nil {
		return "", err
	}
	path := filepath.Join(folder, "go.mod")
	return path, errors.Join(os.WriteFile(path, mod, 0o600), os.WriteFile(filepath.Join(folder, "go.sum"), sum, 0o600))
}

// copyPebble makes the copy, unless it is there.
func copyPebble(root, cache string) (string, error) {
	list := exec.Command("go", "mod", "download", "-json", pebble)
	list.Dir = root
	out, err := list.Output()
	if err != nil {
		return "", fmt.Errorf("find %s: %w", pebble, err)
	}
	var module struct{ Dir, Version string }
	if err := json.Unmarshal(out, &module); err != nil {
		return "", fmt.Errorf("find %s: %w", pebble, err)
	}
	key, more := []byte(module.Dir), map[string][]byte{}
	for _, from := range slices.Sorted(maps.Keys(pebbleFiles)) {
		text, err := files.ReadFile("files/" + from)
		if err != nil {
			return "", err
		}
		more[pebbleFiles[from]] = text
		key = append(key, text...)
	}
	target := filepath.Join(cache, "pebble-"+module.Version+"-"+name(key))
	if _, err := os.Stat(target); !errors.Is(err, fs.ErrNotExist) {
		return target, err
	}
	making, err := os.MkdirTemp(cache, "making-")
	if err != nil {
		return "", err
	}
	if err := copySources(module.Dir, making); err != nil {
		return "", err
	}
	for to, text := range more {
		if err := os.WriteFile(filepath.Join(making, filepath.FromSlash(to)), text, 0o600); err != nil {
			return "", err
		}
	}
	return target, os.Rename(making, target)
}

// copySources copies a module without its tests.
func copySources(from, to string) error {
	return filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		rel, relErr := filepath.Rel(from, path)
		if err := errors.Join(err, relErr); err != nil {
			return err
		}
		switch slash := filepath.ToSlash(rel); {
		case entry.IsDir() && entry.Name() == "testdata":
			return filepath.SkipDir
		case entry.IsDir():
			return os.MkdirAll(filepath.Join(to, rel), 0o750)
		case slash == pebbleWithout || strings.HasSuffix(slash, "_test.go"):
			return nil
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, rel), data, 0o600)
	})
}

// overlayFile writes what takes the place of files of Go's own packages.
func overlayFile(cache string) (string, error) {
	goroot, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return "", fmt.Errorf("find Go: %w", err)
	}
	source := filepath.Join(string(bytes.TrimSpace(goroot)), "src")
	texts := map[string][]byte{}
	for from, to := range goFiles {
		if texts[to], err = files.ReadFile("files/" + from); err != nil {
			return "", err
		}
	}
	for file, edit := range goEdits {
		text, err := os.ReadFile(filepath.Join(source, filepath.FromSlash(file)))
		if err != nil {
			return "", err
		}
		if !bytes.Contains(text, []byte(edit[0])) {
			return "", fmt.Errorf("%s of this Go has no %q: the simulator's changes of it must be written anew", file, edit[0])
		}
		texts[file] = bytes.ReplaceAll(text, []byte(edit[0]), []byte(edit[1]))
	}
	replace := map[string]string{}
	for file, text := range texts {
		at := filepath.Join(cache, "go-"+name(text)+"-"+strings.ReplaceAll(file, "/", "-"))
		if err := os.WriteFile(at, text, 0o600); err != nil {
			return "", err
		}
		replace[filepath.Join(source, filepath.FromSlash(file))] = at
	}
	overlay, err := ledger.PlainJSON(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	path := filepath.Join(cache, "overlay-"+name(overlay)+".json")
	return path, os.WriteFile(path, overlay, 0o600)
}

// name is a name for contents.
func name(contents ...[]byte) string {
	sum := sha256.Sum256(bytes.Join(contents, []byte{0}))
	return hex.EncodeToString(sum[:6])
}
