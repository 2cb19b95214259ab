package candidates_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/projector/candidates"
)

const everything = 1 << 20

// readAgain is a Position as a client sends it back.
func readAgain(rt *rapid.T, p candidates.Position) *candidates.Position {
	again, err := candidates.ReadPosition(p.Append(nil))
	if err != nil || again != p {
		rt.Fatalf("%+v is read as %+v: %v", p, again, err)
	}
	return &again
}

// TestPagesAgree reads random requests in pages of random sizes, and compares
// all pages together with a model that judges every candidate at once.
func TestPagesAgree(t *testing.T) {
	pages, ties := 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		all := drawWorld(rt)
		kind := rapid.IntRange(0, 4).Draw(rt, "kind")
		if kind > 0 {
			withoutSharing(all)
		}
		if kind > 2 {
			flatten(all)
		}
		world := candidates.NewWorld(all)
		for range 10 {
			req, pref := drawEasily(rt, all), drawPreference(rt)
			want := modelBest(rt, world, req, pref, everything)
			var got []string
			var after *candidates.Position
			for len(got) < len(want) {
				k := rapid.IntRange(1, 3).Draw(rt, "size")
				found, behind, err := candidates.Page(context.Background(), world, req, pref, k, after)
				if err != nil || len(found) == 0 {
					rt.Fatalf("after %d of %d: %v, %v", len(got), len(want), found, err)
				}
				if n := len(got); n > 0 && n < len(want) && scoreOf(got[n-1]) == scoreOf(want[n]) {
					ties++
				}
				got = append(got, textsOf(req, found)...)
				after = readAgain(rt, behind[len(found)-1])
				pages++
			}
			if !slices.Equal(got, want) {
				rt.Fatalf("in pages\n%q\nat once\n%q", got, want)
			}
			if after == nil {
				continue
			}
			if rest, _, err := candidates.Page(context.Background(), world, req, pref, 1, after); err != nil || len(rest) > 0 {
				rt.Fatalf("behind the last: %v, %v", rest, err)
			}
		}
	})
	if pages == 0 || ties == 0 {
		t.Errorf("%d pages, of which %d began among equals", pages, ties)
	}
}

// drawEasily draws requests of which most have several candidates.
func drawEasily(rt *rapid.T, all []*ledger.Provider) *candidates.Request {
	if rapid.IntRange(0, 3).Draw(rt, "hard") == 0 {
		return drawRequest(rt, all)
	}
	one := candidates.Resource{Class: ledger.ClassID(rapid.IntRange(0, 2).Draw(rt, "class")), Amount: 1}
	req := &candidates.Request{Nested: true, Groups: []candidates.Group{{Resources: []candidates.Resource{one}}}}
	if rapid.Bool().Draw(rt, "two groups") {
		req.Groups = append(req.Groups, candidates.Group{Suffix: "1", Resources: []candidates.Resource{one}})
	}
	return req
}

func scoreOf(text string) string {
	_, score, _ := strings.Cut(text, " scores ")
	return score
}
