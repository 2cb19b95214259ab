package cli

import (
	"cmp"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/allot-project/allot/ledger"
)

// release is the version that `make release` and `make deb` build. Without it the
// module's version counts, as the go command recorded it.
var release string

// devVersion is the version of a build without a recorded one.
const devVersion = "0.1.0-dev"

// build describes the program's build.
type build struct {
	Version string `json:"version"`
	// Commit is the source's commit; empty if the build recorded none, as with `go run`.
	Commit string `json:"commit,omitempty"`
	// Date is the commit's date.
	Date *time.Time `json:"date,omitempty"`
	// Modified means that the source had uncommitted changes.
	Modified bool `json:"modified,omitempty"`
	// Level is the newest level of features that the program writes and reads.
	Level    uint64 `json:"level"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// Version returns the program's version.
func Version() string {
	if release != "" {
		return release
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		return moduleVersion(info.Main.Version)
	}
	return devVersion
}

// moduleVersion returns the version that the go command recorded for the module, without
// Go's v, which is no part of a semantic version: NATS takes no service with it.
func moduleVersion(recorded string) string {
	if recorded == "(devel)" {
		return devVersion
	}
	return cmp.Or(strings.TrimPrefix(recorded, "v"), devVersion)
}

// thisBuild reads what the go command recorded.
func thisBuild() build {
	b := build{
		Version: Version(), Level: ledger.Level, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH,
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	for _, setting := range info.Settings {
		switch setting.Key {
		case "vcs.revision":
			b.Commit = setting.Value
		case "vcs.time":
			if date, err := time.Parse(time.RFC3339, setting.Value); err == nil {
				b.Date = &date
			}
		case "vcs.modified":
			b.Modified = setting.Value == "true"
		}
	}
	return b
}

// VersionCommand prints the version, and the commit that it was built from.
type VersionCommand struct {
	JSON bool `name:"json" help:"Print JSON."`
}

// Run prints the version, and the commit that it was built from.
func (c *VersionCommand) Run(k *kong.Kong) error {
	b := thisBuild()
	if c.JSON {
		return ledger.PlainEncoder(os.Stdout).Encode(b)
	}
	_, err := fmt.Printf("%s %s\nlevel %d\n%s\n%s %s\n", k.Model.Name, b.Version, b.Level, b.source(), b.Go, b.Platform)
	return err
}

// source names the commit that the program was built from.
func (b build) source() string {
	if b.Commit == "" {
		return "commit unknown: the build recorded none"
	}
	text := "commit " + b.Commit
	if b.Date != nil {
		text += " of " + b.Date.Format(time.RFC3339)
	}
	if b.Modified {
		text += ", with changes that were not committed"
	}
	return text
}
