package judge

import (
	"strings"
	"testing"
)

// history is what clients saw, in which each request is over before the next begins.
func history(deeds ...Deed) []Deed {
	for i := range deeds {
		deeds[i].Call, deeds[i].End, deeds[i].Known = int64(10*i), int64(10*i+5), true
	}
	return deeds
}

func TestHistory(t *testing.T) {
	took := Deed{Kind: "take", ID: "a", Holder: 1, Output: 1}
	gave := Deed{Kind: "give", ID: "b", Holder: 1, Output: 1}
	saw := func(n int) Deed { return Deed{Kind: "used", Output: n} }
	for name, c := range map[string]struct {
		deeds  []Deed
		logged map[string]int
		wrong  string
	}{
		"as it should be":    {history(saw(0), took, saw(1), gave, saw(0)), map[string]int{"a": 1, "b": 1}, ""},
		"lost":               {history(took), nil, "acknowledged and lost"},
		"twice":              {history(took), map[string]int{"a": 2}, "done 2 times"},
		"refused and done":   {history(Deed{Kind: "give", ID: "b", Output: 0}), map[string]int{"b": 1}, "refused and done"},
		"a read of the past": {history(took, saw(0)), map[string]int{"a": 1}, "not linearizable"},
		"over capacity": {history(took,
			Deed{Kind: "take", ID: "b", Holder: 2, Output: 1}, Deed{Kind: "take", ID: "c", Holder: 3, Output: 1},
			Deed{Kind: "take", ID: "d", Holder: 4, Output: 1}), map[string]int{"a": 1, "b": 1, "c": 1, "d": 1}, "not linearizable"},
	} {
		wrong := strings.Join(History(c.deeds, c.logged, 3), "\n")
		if c.wrong == "" && wrong != "" || !strings.Contains(wrong, c.wrong) {
			t.Errorf("%s: judged %q, want %q", name, wrong, c.wrong)
		}
	}
}
