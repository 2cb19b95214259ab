package ordered_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/allot-project/allot/ledger/ordered"
)

// pair is before another by its key alone.
type pair struct{ Key, Value int }

func before(a, b pair) bool { return a.Key < b.Key }

// list is what a tree holds, the slow way.
type list []pair

func (l list) find(key int) (at int, found bool) {
	return slices.BinarySearchFunc(l, key, func(p pair, key int) int { return p.Key - key })
}

var steps = []string{"get", "get hint", "set", "set hint", "delete", "copy"}

// TestTree compares trees and their copies with lists.
func TestTree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		trees, lists := []ordered.Tree[pair]{ordered.New(before)}, []list{nil}
		var path ordered.Path
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			i := rapid.IntRange(0, len(trees)-1).Draw(t, "tree")
			p := pair{rapid.IntRange(0, 99).Draw(t, "key"), rapid.Int().Draw(t, "value")}
			at, found := lists[i].find(p.Key)
			var was pair
			if found {
				was = lists[i][at]
			}
			var got pair
			var ok bool
			switch step := rapid.SampledFrom(steps).Draw(t, "step"); step {
			case "get":
				got, ok = trees[i].Get(p)
			case "get hint":
				got, ok = trees[i].GetHint(p, &path)
			case "set", "set hint":
				if step == "set" {
					got, ok = trees[i].Set(p)
				} else {
					got, ok = trees[i].SetHint(p, &path)
				}
				lists[i] = slices.Clone(lists[i])
				if found {
					lists[i][at] = p
				} else {
					lists[i] = slices.Insert(lists[i], at, p)
				}
			case "delete":
				got, ok = trees[i].Delete(p)
				if found {
					lists[i] = slices.Delete(slices.Clone(lists[i]), at, at+1)
				}
			case "copy":
				trees, lists = append(trees, ordered.Copy(trees[i])), append(lists, lists[i])
				continue
			}
			if got != was || ok != found {
				t.Fatalf("got %v, %t; not %v, %t", got, ok, was, found)
			}
		}
		for i, tree := range trees {
			equal(t, tree, lists[i], rapid.IntRange(-1, 100).Draw(t, "first"))
		}
	})
}

// equal compares all of a tree, and what is not before first.
func equal(t *rapid.T, tree ordered.Tree[pair], want list, first int) {
	all, from := list{}, list{}
	tree.Scan(func(p pair) bool {
		all = append(all, p)
		return true
	})
	tree.Ascend(pair{Key: first}, func(p pair) bool {
		from = append(from, p)
		return true
	})
	begin, _ := want.find(first)
	if diff := cmp.Diff(append(list{}, want...), all); diff != "" {
		t.Fatalf("the tree (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(append(list{}, want[begin:]...), from); diff != "" {
		t.Fatalf("from %d (-want +got):\n%s", first, diff)
	}
	if tree.Len() != len(want) {
		t.Fatalf("%d values, not %d", tree.Len(), len(want))
	}
	for i, p := range want {
		if got, found := tree.GetAt(i); got != p || !found {
			t.Fatalf("at %d: %v, %t; not %v", i, got, found, p)
		}
	}
	if _, found := tree.GetAt(len(want)); found {
		t.Fatal("a value behind the last")
	}
}
