package projector

import (
	"crypto/sha256"
	"encoding/binary"
	"hash"

	"github.com/allot-project/allot/ledger"
)

// digester hashes a list of byte strings so that different lists give different
// hashes.
type digester struct {
	h      hash.Hash
	length [8]byte
}

func newDigester() *digester { return &digester{h: sha256.New()} }

func (d *digester) add(b []byte) {
	binary.BigEndian.PutUint64(d.length[:], uint64(len(b)))
	d.h.Write(d.length[:])
	d.h.Write(b)
}

func (d *digester) digest() (sum ledger.Digest) {
	d.h.Sum(sum[:0])
	return sum
}
