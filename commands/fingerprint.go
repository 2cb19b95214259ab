package commands

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"sync"

	"github.com/allot-project/allot/commands/demand"
	"github.com/allot-project/allot/ledger"
)

// FingerprintOf identifies a command's content: it is the first bytes of the
// SHA-256 of the command's name, a zero byte and its JSON form. Records store it
// for ever, so it must never change.
func FingerprintOf(c Command) (ledger.Fingerprint, error) {
	scratch := scratches.Get().(*[]byte)
	defer scratches.Put(scratch)
	hashed, err := appendContent(append(append((*scratch)[:0], NameOf(c)...), 0), c)
	if err != nil {
		return ledger.Fingerprint{}, fmt.Errorf("commands: %s cannot be encoded: %w", NameOf(c), err)
	}
	if cap(hashed) <= keptScratch {
		*scratch = hashed
	}
	sum := sha256.Sum256(hashed)
	return ledger.Fingerprint(sum[:len(ledger.Fingerprint{})]), nil
}

// keptScratch is the largest buffer, in bytes, that is kept for the next command.
const keptScratch = 64 << 10

var scratches = sync.Pool{New: func() any { return new([]byte) }}

// appendContent writes a command's JSON form. The form of the most frequent
// commands is written by hand, byte for byte as encoding/json would, because
// encoding/json took an eighth of the time of a command.
func appendContent(b []byte, c Command) ([]byte, error) {
	switch c := c.(type) {
	case *AllocateForConsumers:
		return c.appendJSON(b)
	case *Claim:
		return c.AppendJSON(b)
	}
	content, err := json.Marshal(c)
	return append(b, content...), err
}

func (c *AllocateForConsumers) appendJSON(b []byte) ([]byte, error) {
	j := demand.JSONAfter(b)
	j.Object(func() {
		j.Name("allocations").Each(len(c.Allocations), c.Allocations == nil, func(i int) { c.Allocations[i].writeJSON(&j) })
	})
	return j.End()
}

func (a *ConsumerAllocations) writeJSON(j *demand.JSON) {
	j.Object(func() {
		j.Name("consumer").ID(a.Consumer)
		j.Name("project").Text(a.Project)
		j.Name("user").Text(a.User)
		if a.Type != nil {
			j.Name("type").Text(*a.Type)
		}
		j.Name("generation").UintOrNull(a.Generation)
		j.Flag("any_generation", a.AnyGeneration)
		j.Name("resources").Each(len(a.Resources), a.Resources == nil, func(i int) {
			j.Object(func() {
				j.Name("provider").ID(a.Resources[i].Provider)
				j.Name("class").Text(a.Resources[i].Class)
				j.Name("amount").Int(a.Resources[i].Amount)
			})
		})
	})
}
