package proof_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/ledgertest"
	"github.com/allot-project/allot/ledger/proof"
)

// drawConsumption draws what some projects have consumed.
func drawConsumption(t *rapid.T) []*proof.Consumption {
	list := make([]*proof.Consumption, rapid.IntRange(0, 40).Draw(t, "projects"))
	for i := range list {
		list[i] = &proof.Consumption{Project: fmt.Sprintf("project-%d", i), Classes: []proof.ClassConsumed{
			{ID: 0, Class: "VCPU", AmountNS: rapid.StringMatching("[1-9][0-9]{0,39}").Draw(t, "VCPU")},
			{ID: -1, Class: "baremetal", AmountNS: "0"},
		}}
	}
	return list
}

func consumptionTree(t *rapid.T, list []*proof.Consumption) (*proof.ConsumptionTree, ledger.ConsumptionRoot) {
	tree := &proof.ConsumptionTree{}
	for _, c := range list {
		ledgertest.OK(t, tree.Add(c))
	}
	var root ledger.ConsumptionRoot
	root.Root, root.Projects = tree.Root()
	return tree, root
}

// TestConsumptionIsProved: what a project has consumed, or that it has consumed nothing, is
// proved by the tree of all projects, whatever their order; and nothing else is.
func TestConsumptionIsProved(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		list := drawConsumption(rt)
		tree, root := consumptionTree(rt, list)
		if _, again := consumptionTree(rt, rapid.Permutation(list).Draw(rt, "order")); again != root {
			rt.Fatalf("in another order the root is %v, not %v", again, root)
		}
		project := fmt.Sprintf("project-%d", rapid.IntRange(0, 45).Draw(rt, "project"))
		var consumed *proof.Consumption
		if i := slices.IndexFunc(list, func(c *proof.Consumption) bool { return c.Project == project }); i >= 0 {
			consumed = list[i]
		}
		proved := ledgertest.Must(tree.Prove(project))
		if err := proof.CheckConsumption(root, project, consumed, proved); err != nil {
			rt.Fatalf("%s of %d projects: %v", project, len(list), err)
		}
		refuseOthers(rt, root, project, consumed, proved)
	})
}

// refuseOthers changes one thing of what is proved.
func refuseOthers(
	t *rapid.T, root ledger.ConsumptionRoot, project string, c *proof.Consumption, proved []proof.PlacedDigest,
) {
	refuse := func(
		what string, root ledger.ConsumptionRoot, project string, c *proof.Consumption, proved []proof.PlacedDigest,
	) {
		if err := proof.CheckConsumption(root, project, c, proved); !errors.Is(err, proof.ErrProof) {
			t.Errorf("%s: %v", what, err)
		}
	}
	larger, fewer := root, root
	larger.Projects, larger.Root = larger.Projects+1, ledger.Digest{1}
	refuse("another root", larger, project, c, proved)
	if c == nil {
		refuse("consumed after all", root, project, &proof.Consumption{Project: project}, proved)
		if len(proved) > 0 {
			refuse("a neighbour less", root, project, nil, proved[1:])
		}
		return
	}
	refuse("another project's", root, "another", c, proved)
	refuse("never held anything", root, project, nil, proved)
	refuse("no place", root, project, c, nil)
	less := *c
	less.Classes = slices.Clone(c.Classes)
	less.Classes[0].AmountNS += "0"
	refuse("another amount", root, project, &less, proved)
	less.Classes = c.Classes[:1]
	refuse("a class less", root, project, &less, proved)
	if fewer.Projects--; fewer.Projects > 0 {
		moved := slices.Clone(proved)
		moved[0].Number = (moved[0].Number + 1) % int64(root.Projects)
		refuse("another place", root, project, c, moved)
	}
}

// TestConsumedSince subtracts what was consumed earlier.
func TestConsumedSince(t *testing.T) {
	t.Parallel()
	ledgertest.Answers(t, "testdata/since.txt", func(line, _ string) string {
		var earlier, now proof.Consumption
		before, after, _ := strings.Cut(line, " then ")
		ledgertest.OK(t, json.Unmarshal([]byte(before), &earlier.Classes), json.Unmarshal([]byte(after), &now.Classes))
		list, err := now.Since(&earlier)
		if err != nil && !errors.Is(err, proof.ErrProof) {
			t.Errorf("%s: %v", line, err)
		}
		if err != nil {
			return err.Error()
		}
		return fmt.Sprint(list)
	})
}
