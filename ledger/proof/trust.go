package proof

import (
	"errors"
	"fmt"
	"strings"

	cosignature "github.com/transparency-dev/formats/note"
	"golang.org/x/mod/sumdb/note"
)

// CosignedFile is the file in a Folder of the newest checkpoint that witnesses have cosigned.
const CosignedFile = "cosigned" + checkpointSuffix

// Trust says which signatures a checkpoint must have.
type Trust struct {
	Operator  note.Verifiers  // nil: none is checked
	Witnesses []note.Verifier // that may cosign
	Quorum    int             // how many of them must
}

// Majority is how many of a number of witnesses are more than half of them; of none, 0. Two histories would
// need one witness that has signed both.
func Majority(witnesses int) int {
	if witnesses == 0 {
		return 0
	}
	return witnesses/2 + 1
}

// ErrQuorum means that a checkpoint lacks cosignatures. It wraps ErrCheckpoint.
var ErrQuorum = fmt.Errorf("%w: too few witnesses have cosigned it", ErrCheckpoint)

// ParseWitness reads the public key of a witness (c2sp.org/signed-note).
func ParseWitness(vkey string) (note.Verifier, error) {
	v, err := cosignature.NewVerifierForCosignatureV1(vkey)
	if err == nil && !strings.HasPrefix(vkey, fmt.Sprintf("%s+%08x+", v.Name(), v.KeyHash())) {
		err = errors.New("its hash is not that of a key for cosignatures")
	}
	if err != nil {
		return nil, fmt.Errorf("%q is not the public key of a witness, NAME+HASH+KEY with the algorithm cosignature/v1: %w", vkey, err)
	}
	return v, nil
}

// Open is Open for a checkpoint that must have all these signatures.
func (t Trust) Open(signed []byte) (*Checkpoint, error) {
	c, err := Open(signed, t.Operator)
	if err == nil {
		err = t.Cosigned(signed)
	}
	if err != nil {
		return nil, err
	}
	return c, nil
}

// Cosigned checks that enough witnesses have signed a note.
func (t Trust) Cosigned(signed []byte) error {
	if t.Quorum == 0 {
		return nil
	}
	var missing []string
	for _, w := range t.Witnesses {
		if n, err := note.Open(signed, note.VerifierList(w)); err != nil || len(n.Sigs) == 0 {
			missing = append(missing, w.Name())
		}
	}
	if good := len(t.Witnesses) - len(missing); good < t.Quorum {
		return fmt.Errorf("%w: %d of %d, and %d are needed; it lacks %s", ErrQuorum, good, len(t.Witnesses), t.Quorum,
			strings.Join(missing, ", "))
	}
	return nil
}
