package present

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"maps"
	"math/rand/v2"
	"slices"

	"github.com/allot-project/allot/commands/demand"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/projector/candidates"
)

// MaxRanked is how many candidates a page in the order of a preference has at
// most, and has if no limit is given.
const MaxRanked = 1000

// RankedPage is a page of candidates in the order of a preference.
type RankedPage struct {
	Candidates []candidates.Ranked
	// Markers say where the page behind each candidate begins; the last is empty
	// if nothing comes after it.
	Markers []string
}

// Ranked finds a page of candidates, the best first: those behind a marker, or
// the first ones. The request's limit is the size of the page. The error wraps
// ErrQuery if the preference or the marker is at fault.
func Ranked(
	ctx context.Context, v Reader, world *candidates.World, req *candidates.Request, prefer *demand.ClaimPreference,
	marker string,
) (*RankedPage, error) {
	if req.Limit > MaxRanked {
		return nil, bad("limit: a page in the order of a preference has at most %d candidates, not %d", MaxRanked, req.Limit)
	}
	classes, err := v.Classes()
	if err != nil {
		return nil, err
	}
	if prefer, err = checkedPreference(v, prefer); err != nil {
		return nil, err
	}
	asked, err := digestOf(req, prefer, classes)
	if err != nil {
		return nil, err
	}
	seed, after := rand.Uint64(), (*candidates.Position)(nil)
	if marker != "" {
		if seed, after, err = readMarker(marker, asked); err != nil {
			return nil, err
		}
	}
	pref, rejection := prefer.Resolve(classes, req, seed)
	if rejection != nil {
		return nil, bad("%s", rejection.Message)
	}
	if pref.Near, err = prefer.Nearness(heldBy(v)); err != nil {
		return nil, err
	}
	size := req.Limit
	if size == 0 {
		size = MaxRanked
	}
	found, behind, err := candidates.Page(ctx, world, req, pref, size+1, after)
	if err != nil {
		return nil, err
	}
	page := &RankedPage{Candidates: found[:min(size, len(found))]}
	for i := range page.Candidates {
		text := ""
		if i+1 < len(found) {
			text = writeMarker(asked, pref.Seed, behind[i])
		}
		page.Markers = append(page.Markers, text)
	}
	return page, nil
}

func heldBy(v Reader) func(ledger.UUID) ([]ledger.Allocation, error) {
	return func(id ledger.UUID) ([]ledger.Allocation, error) {
		c, exists, err := v.Consumer(id)
		if err != nil || !exists {
			return nil, err
		}
		return c.Allocations, nil
	}
}

// checkedPreference returns a preference with what a name stands for, and
// refuses what is wrong with it.
func checkedPreference(v Reader, prefer *demand.ClaimPreference) (*demand.ClaimPreference, error) {
	rejection := prefer.Check()
	var err error
	if rejection == nil {
		prefer, rejection, err = prefer.Expand(v.Preference)
	}
	if rejection != nil {
		return nil, bad("%s", rejection.Message)
	}
	if err != nil {
		return nil, err
	}
	return prefer, checkTraits(v, "prefer: ", slices.Sorted(maps.Keys(prefer.Traits)))
}

// A marker is a form, the digest of what was asked, the seed and a position.
const markerForm = 1

type digest [8]byte

// digestOf tells requests apart: a marker holds for one alone.
func digestOf(
	req *candidates.Request, prefer *demand.ClaimPreference, classes *ledger.ClassTable,
) (sum digest, err error) {
	text, err := ledger.PlainJSON(struct {
		Prefer  *demand.ClaimPreference
		Request demand.CandidateRequest
	}{prefer, demand.Of(req, classes)})
	whole := sha256.Sum256(text)
	copy(sum[:], whole[:])
	return sum, err
}

func writeMarker(asked digest, seed uint64, at candidates.Position) string {
	data := append([]byte{markerForm}, asked[:]...)
	return base64.RawURLEncoding.EncodeToString(at.Append(binary.BigEndian.AppendUint64(data, seed)))
}

func readMarker(text string, asked digest) (seed uint64, at *candidates.Position, err error) {
	const fixed = 1 + len(asked) + 8
	data, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(data) < fixed || data[0] != markerForm {
		return 0, nil, bad("marker: %q is none: send the one of the last candidate of the page before", text)
	}
	if digest(data[1:1+len(asked)]) != asked {
		return 0, nil, bad("marker: it is of another request: send it with what the page before was asked with")
	}
	position, err := candidates.ReadPosition(data[fixed:])
	if err != nil {
		return 0, nil, bad("marker: %v", err)
	}
	return binary.BigEndian.Uint64(data[1+len(asked):]), &position, nil
}
