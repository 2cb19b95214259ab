package commands

import (
	"fmt"
	"slices"

	"github.com/allot-project/allot/commands/demand"
	"github.com/allot-project/allot/ledger"
)

// ReplaceNodeTraits sets all traits of a node.
type ReplaceNodeTraits struct {
	operatorsOnly `json:"-"`

	Node   ledger.UUID `json:"node"`
	Traits []string    `json:"traits"` // at most 50
}

func (c *ReplaceNodeTraits) check() *demand.Rejection { return checkUUID("node", c.Node) }

func (c *ReplaceNodeTraits) decide(s *ledger.State) ([]ledger.Event, *demand.Rejection) {
	n, ok := s.Node(c.Node)
	if !ok {
		return nil, nodeNotFound(c.Node)
	}
	return replaceNodeTraits(s, n, c.Traits)
}

func replaceNodeTraits(s *ledger.State, n *ledger.Node, traits []string) ([]ledger.Event, *demand.Rejection) {
	if rejection := checkTraits(s, "traits", traits); rejection != nil {
		return nil, rejection
	}
	traits = slices.Clone(traits)
	slices.Sort(traits)
	traits = slices.Compact(traits)
	if len(traits) > ledger.MaxNodeTraits {
		id := n.UUID
		return nil, demand.Refuse(
			demand.CodeInvalid, demand.Facts{Field: "traits", Node: &id},
			"traits: Node %s can have at most %d traits, not %d", id, ledger.MaxNodeTraits, len(traits),
		)
	}
	if slices.Equal(traits, n.Traits) {
		return nil, nil
	}
	return withNodeProvider(s, n.UUID, []ledger.Event{ledger.NodeTraitsReplaced{Node: n.UUID, Traits: traits}})
}

// AddNodeTrait adds a trait to a node.
type AddNodeTrait struct {
	operatorsOnly `json:"-"`

	Node  ledger.UUID `json:"node"`
	Trait string      `json:"trait"`
}

func (c *AddNodeTrait) check() *demand.Rejection { return checkUUID("node", c.Node) }

func (c *AddNodeTrait) decide(s *ledger.State) ([]ledger.Event, *demand.Rejection) {
	n, ok := s.Node(c.Node)
	if !ok {
		return nil, nodeNotFound(c.Node)
	}
	return replaceNodeTraits(s, n, append(slices.Clone(n.Traits), c.Trait))
}

// RemoveNodeTrait removes a trait from a node.
type RemoveNodeTrait struct {
	operatorsOnly `json:"-"`

	Node  ledger.UUID `json:"node"`
	Trait string      `json:"trait"`
}

func (c *RemoveNodeTrait) check() *demand.Rejection { return checkUUID("node", c.Node) }

func (c *RemoveNodeTrait) decide(s *ledger.State) ([]ledger.Event, *demand.Rejection) {
	n, ok := s.Node(c.Node)
	if !ok {
		return nil, nodeNotFound(c.Node)
	}
	i, has := slices.BinarySearch(n.Traits, c.Trait)
	if !has {
		return nil, &demand.Rejection{
			Code: demand.CodeNodeTraitNotFound, Message: fmt.Sprintf("Node %s doesn't have a trait '%s'", n.UUID, c.Trait),
			Facts: demand.Facts{Node: &c.Node, Name: c.Trait},
		}
	}
	return replaceNodeTraits(s, n, slices.Delete(slices.Clone(n.Traits), i, i+1))
}
