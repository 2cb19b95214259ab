package archive

import (
	"fmt"
	"regexp"
	"strconv"

	"github.com/allot-project/allot/ledger"
)

// Name names a part: its range of sequences, and the digest of its last commit.
// Because a commit holds the digest of the one before, the name vouches for
// everything up to there.
type Name struct {
	First uint64      // sequence of the first entry
	Last  ledger.Head // head of the last commit
	Copy  int         // 0; more: written again because the ones before are damaged
}

// folder is where parts are in an archive.
const folder = "parts/"

var names = regexp.MustCompile(`^parts/(\d{20})-(\d{20})-([0-9a-f]{64})(?:\.(\d))?\.allot$`)

// maxCopies is how many times a part may be written.
const maxCopies = 9

// String returns the name of the part's object. Objects in the order of their
// names are in the order of the log.
func (n Name) String() string {
	text := fmt.Sprintf("%s%020d-%020d-%s", folder, n.First, n.Last.Sequence, n.Last.Digest)
	if n.Copy > 0 {
		text += "." + strconv.Itoa(n.Copy)
	}
	return text + ".allot"
}

// parseName reads the name of an object; false: the object is no part.
func parseName(text string) (n Name, isPart bool) {
	found := names.FindStringSubmatch(text)
	if found == nil {
		return n, false
	}
	n.First, _ = strconv.ParseUint(found[1], 10, 64) // what is no number has another name
	n.Last.Sequence, _ = strconv.ParseUint(found[2], 10, 64)
	n.Copy, _ = strconv.Atoi(found[4])
	err := n.Last.Digest.UnmarshalText([]byte(found[3]))
	return n, err == nil && n.String() == text && n.First > 0 && n.First <= n.Last.Sequence
}
