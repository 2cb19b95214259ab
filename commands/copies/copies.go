// Package copies gives a replica that lacks them the State and the read models
// of another one, so that it need not replay the log from its beginning. The
// files are: make, how a copy is made; serve, what the replica does that has them;
// join and fetch, what the other one does; stored and stored_take, the same through
// an archive; arrive, what both ways have in common; folder, how files come to where they belong, all of them or none;
// worth, when that is faster than a replay.
//
// Nothing of a copy is believed for who sent it. Where it stands, a sequence
// and the digest of its commit, is compared with the log; every part, file and
// block of a table has a checksum; and a State is decoded. What is not good is
// thrown away, another replica is asked, and in the end the log is replayed.
package copies

import (
	"fmt"
	"hash/crc32"
	"path/filepath"
	"strings"

	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/projector"
)

// Subjects on which replicas ask each other for copies. They are among those
// that only replicas may use.
const (
	offerSubject = "allot.cluster.copy.offer" // who could give a copy? to all
	ofSubject    = "allot.cluster.copy.of."   // an instance follows: what it is asked for
)

const (
	// partBytes is how much of a file travels at once: an external NATS takes
	// messages of 1 MiB, and commits of others do not wait behind it for long.
	partBytes = 512 << 10
	// headroomBytes is what headers and framing take of the payload limit.
	headroomBytes = 4096
)

// Headers of an answer with a part.
const (
	headerSum     = "Allot-Part-Sum"
	headerFailure = "Allot-Failure"
)

// What a replica can be asked to do for another one.
const (
	doBegin = "begin" // make a copy
	doLook  = "look"  // how far is it?
	doPart  = "part"  // send a part of a file
	doEnd   = "end"   // it is needed no more
)

// form is what two builds must have in common.
type form struct {
	projector.Form
	Level uint64 `json:"level"` // of features
}

func ownForm() form { return form{projector.OwnForm(), ledger.Level} }

// offer is what a replica that could give a copy says of it.
type offer struct {
	Name     string      `json:"name"`
	Instance ledger.UUID `json:"instance"`
	Form     form        `json:"form"`
	Sequence uint64      `json:"sequence"`
	Records  int64       `json:"records"`
	Bytes    int64       `json:"bytes"` // about
	Leads    bool        `json:"leads,omitempty"`
	// Busy: it is giving a copy to another replica.
	Busy bool `json:"busy,omitempty"`
}

// question is what the replica is asked that makes a copy.
type question struct {
	Do     string      `json:"do"`
	Joiner ledger.UUID `json:"joiner"`         // who asks
	Copy   ledger.UUID `json:"copy,omitempty"` // for what; of the answer to begin
	File   int         `json:"file,omitempty"` // 0: the manifest; else its place there, from 1 on
	Offset int64       `json:"offset,omitempty"`
	Bytes  int         `json:"bytes,omitempty"` // at most
}

// answer is what it says.
type answer struct {
	Failure string      `json:"failure,omitempty"`
	Copy    ledger.UUID `json:"copy"`
	Ready   bool        `json:"ready,omitempty"`
	// Bytes and Sum are the manifest's, once the copy is ready.
	Bytes int64  `json:"bytes,omitempty"`
	Sum   string `json:"sum,omitempty"`
}

// manifest is what a copy consists of.
type manifest struct {
	Form   form               `json:"form"`
	State  ledger.Head        `json:"state"`
	Models projector.Position `json:"models"`
	Files  []file             `json:"files"`
}

// file is one of a copy.
type file struct {
	Name  string `json:"name"` // stateName, or one in modelsName
	Bytes int64  `json:"bytes"`
	Sum   string `json:"sum"` // SHA-256
}

// Names in a copy.
const (
	stateName  = "state"
	modelsName = "models" // a folder
)

func (m *manifest) bytes() (total int64) {
	for _, f := range m.Files {
		total += f.Bytes
	}
	return total
}

// maxFiles bounds what a manifest may list.
const maxFiles = 1 << 20

// check refuses a manifest that this build could not use, or that would write
// where it should not.
func (m *manifest) check() error {
	if m.Form != ownForm() {
		return fmt.Errorf("%w: it is of the form %+v, and this release reads %+v", ErrOtherForm, m.Form, ownForm())
	}
	if m.State.Sequence == 0 || m.State.Sequence > m.Models.Head.Sequence || len(m.Files) > maxFiles {
		return fmt.Errorf("%w: its State is at %d, its read models at %d, in %d files",
			errBad, m.State.Sequence, m.Models.Head.Sequence, len(m.Files))
	}
	seen := make(map[string]bool)
	for _, f := range m.Files {
		folder, name := filepath.Split(f.Name)
		inModels := folder == modelsName+"/" && name != "" && filepath.IsLocal(name) && !strings.HasPrefix(name, ".")
		if f.Name != stateName && !inModels || seen[f.Name] || f.Bytes < 0 {
			return fmt.Errorf("%w: it lists the file %q", errBad, f.Name)
		}
		seen[f.Name] = true
	}
	if !seen[stateName] || len(seen) < 2 {
		return fmt.Errorf("%w: it lacks the State or the read models", errBad)
	}
	return nil
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// partSum is the checksum of a part on its way.
func partSum(part []byte) string { return fmt.Sprintf("%08x", crc32.Checksum(part, castagnoli)) }
