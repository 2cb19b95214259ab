package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"time"
)

// release is the version that `make release` and `make deb` build; otherwise
// the go command's own record of the module's version counts.
var release string

// devVersion is the version of a build that recorded none.
const devVersion = "0.1.0-dev"

// build describes the program.
type build struct {
	Version string `json:"version"`
	// Commit is the source's; empty if the build recorded none, as `go run` does.
	Commit string `json:"commit,omitempty"`
	// Date is the commit's.
	Date *time.Time `json:"date,omitempty"`
	// Modified says that the source had changes that were not committed.
	Modified bool   `json:"modified,omitempty"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// version is the program's version.
func version() string {
	if release != "" {
		return release
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "(devel)" {
		return cmp.Or(info.Main.Version, devVersion)
	}
	return devVersion
}

// thisBuild reads what the go command recorded.
func thisBuild() build {
	b := build{Version: version(), Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
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

type versionCommand struct {
	JSON bool `name:"json" help:"Print JSON."`
}

// Run prints the version, and which commit it was built from.
func (c *versionCommand) Run() error {
	b := thisBuild()
	if c.JSON {
		return json.NewEncoder(os.Stdout).Encode(b)
	}
	_, err := fmt.Printf("allot %s\n%s\n%s %s\n", b.Version, b.source(), b.Go, b.Platform)
	return err
}

// source says which commit the program was built from.
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
