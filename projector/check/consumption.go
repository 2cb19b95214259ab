package check

import (
	"context"
	"fmt"
	"math/big"
	"slices"
	"time"

	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/proof"
)

// consumption sums up what each project has consumed, from a log alone, and compares it with
// the roots in the log. It goes another way than the read models do: it adds amount times time
// at each change.
type consumption struct {
	report *Report
	names  map[int64]string // of classes, as of what is summed up; of deleted ones the last
	sums   map[holding]*sum
	behind int64 // when the last change was that is summed up, Unix nanoseconds
	steps  []step
	late   []placedRoot // those of moments before behind
}

// placedRoot is a root, and the sequence of its commit.
type placedRoot struct {
	ledger.ConsumptionRoot
	sequence uint64
}

// holding is a class of a project's.
type holding struct {
	project string
	id      int64  // of a resource class; -1: whole nodes
	nodes   string // of whole nodes: their class
}

type sum struct {
	amount int64
	since  int64 // of the amount
	before big.Int
}

// step is a change that may be later than the next root.
type step struct {
	at      int64
	classes *ledger.ClassTable // nil: they stay
	changes map[holding]int64
}

// keptSteps is how long changes are kept, in nanoseconds: a root of a moment longer ago takes another pass
// over the log. Roots are made within minutes, unless no server that could make them leads.
const keptSteps = int64(26 * time.Hour)

func newConsumption(report *Report) *consumption {
	return &consumption{report: report, names: make(map[int64]string), sums: make(map[holding]*sum)}
}

func (c *consumption) fold(commit *ledger.Commit, s *ledger.State) {
	for i := range commit.Records {
		for _, event := range commit.Records[i].Events {
			if set, is := event.(ledger.ConsumptionRootSet); is {
				c.see(placedRoot{set.ConsumptionRoot, commit.Sequence})
			}
		}
	}
	c.keep(commit, s)
	c.sumUp(timeOf(commit) - keptSteps)
}

// see compares a root, unless what came after its moment is summed up already.
func (c *consumption) see(root placedRoot) {
	if root.At < c.behind {
		c.late = append(c.late, root)
		return
	}
	c.compare(root)
}

// compareLate compares what came too late for the first pass over a log in another one, to which
// all moments are known from the beginning.
func (c *consumption) compareLate(ctx context.Context, log ledger.Log, progress Progress) error {
	late := c.late
	if len(late) == 0 {
		return nil
	}
	again := newConsumption(c.report)
	_, err := Replay(ctx, log, late[len(late)-1].sequence, "", progress, func(r *Replayed) error {
		for ; len(late) > 0 && late[0].At < timeOf(r.Commit); late = late[1:] {
			again.compare(late[0])
		}
		again.keep(r.Commit, r.State)
		if len(late) > 0 {
			again.sumUp(late[0].At)
		}
		return nil
	})
	for _, root := range late { // of a moment after the last commit
		again.compare(root)
	}
	return err
}

func timeOf(c *ledger.Commit) int64 { return c.Records[len(c.Records)-1].Time }

// keep keeps what a commit changes, to be summed up.
func (c *consumption) keep(commit *ledger.Commit, s *ledger.State) {
	changes := s.Changes()
	next := step{at: timeOf(commit), changes: make(map[holding]int64)}
	for _, u := range changes.Usages {
		next.usage(u.Before, -1)
		next.usage(u.After, 1)
	}
	for _, a := range changes.NodeAllocations {
		next.node(a.Before, -1)
		next.node(a.After, 1)
	}
	if len(changes.Classes) > 0 {
		next.classes = s.Classes()
	}
	if next.classes != nil || len(next.changes) > 0 {
		c.steps = append(c.steps, next)
	}
}

func (s *step) usage(u *ledger.Usage, sign int64) {
	if u == nil {
		return
	}
	for _, a := range u.Amounts {
		s.changes[holding{project: u.Owner.Project, id: int64(a.Class)}] += sign * a.Amount
	}
}

func (s *step) node(a *ledger.NodeAllocation, sign int64) {
	if a != nil && a.State == ledger.NodeAllocationActive && !a.Node.IsNil() {
		s.changes[holding{project: a.Owner, id: -1, nodes: a.ResourceClass}] += sign
	}
}

func (c *consumption) sumUp(at int64) {
	taken := 0
	for ; taken < len(c.steps) && c.steps[taken].at <= at; taken++ {
		next := c.steps[taken]
		if next.classes != nil {
			for _, class := range next.classes.All() {
				c.names[int64(class.ID)] = class.Name
			}
		}
		for of, change := range next.changes {
			if change == 0 {
				continue
			}
			if c.sums[of] == nil {
				c.sums[of] = &sum{since: next.at}
			}
			c.sums[of].change(change, next.at)
		}
	}
	if taken > 0 {
		c.steps, c.behind = c.steps[taken:], c.steps[taken-1].at
	}
}

func (s *sum) upTo(at int64) *big.Int {
	product := new(big.Int).Mul(big.NewInt(s.amount), big.NewInt(at-s.since))
	return product.Add(product, &s.before)
}

func (s *sum) change(by, at int64) { s.before, s.amount, s.since = *s.upTo(at), s.amount+by, at }

// compare compares a root with what was consumed by its moment.
func (c *consumption) compare(root placedRoot) {
	c.sumUp(root.At)
	var tree proof.ConsumptionTree
	for _, one := range c.projects(root.At) {
		if err := tree.Add(one); err != nil {
			c.report.add("root of consumption", root.sequence, err)
			return
		}
	}
	if digest, projects := tree.Root(); digest != root.Root || projects != root.Projects {
		c.report.add("root of consumption", root.sequence, fmt.Errorf(
			"it commits to %s of %d projects up to %s, but the log gives %s of %d",
			root.Root, root.Projects, time.Unix(0, root.At).UTC().Format(time.RFC3339), digest, projects,
		))
		return
	}
	c.report.Roots++
}

// projects lists what each project has consumed.
func (c *consumption) projects(at int64) map[string]*proof.Consumption {
	list := make(map[string]*proof.Consumption)
	for of, s := range c.sums {
		one := list[of.project]
		if one == nil {
			one = &proof.Consumption{Project: of.project}
			list[of.project] = one
		}
		class := of.nodes
		if of.id >= 0 {
			class = c.names[of.id]
		}
		one.Classes = append(one.Classes, proof.ClassConsumed{ID: of.id, Class: class, AmountNS: s.upTo(at).String()})
	}
	for _, one := range list {
		slices.SortFunc(one.Classes, proof.ClassConsumed.Compare)
	}
	return list
}
