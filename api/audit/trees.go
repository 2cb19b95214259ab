package audit

import (
	"context"
	"slices"
	"strings"

	"github.com/allot-project/allot/api/rest"
	"github.com/allot-project/allot/ledger"
)

// Trees is a page of GET /audit/trees: trees of providers, with what all their
// providers have together.
type Trees struct {
	Sequence uint64 `json:"sequence"` // sequence of the commit that the answer holds for
	// Count is how many trees there are that the question is about; the page
	// begins with number Offset of them.
	Count  int         `json:"count"`
	Offset int         `json:"offset"`
	Trees  []ShortTree `json:"trees"`
}

// ShortTree is a tree of providers.
type ShortTree struct {
	Root        ledger.UUID      `json:"root"`
	Name        string           `json:"name"` // of the root
	Providers   int              `json:"providers"`
	Inventories []ShortInventory `json:"inventories"`
}

const (
	maxTrees     = 1000
	defaultTrees = 100
)

func (q sums) trees(ctx context.Context, p *parameters) (any, error) {
	order, offset := p.order(orderName), number[int64](p, "offset", 0, maxSkipped, 0)
	if order != orderName && p.given["class"] == "" {
		p.refuse("class: is needed for the order %s", order)
	}
	limit := number(p, "limit", 1, maxTrees, defaultTrees)
	world, view, err := q.world(ctx, p)
	if err != nil {
		return nil, err
	}
	classes, err := view.Classes()
	if err != nil {
		return nil, err
	}
	class, found := classes.ID(p.given["class"])
	if p.given["class"] != "" && !found {
		return nil, rest.BadRequest("class: there is no resource class %q", p.given["class"])
	}
	part := strings.ToLower(p.given["q"])
	list := slices.DeleteFunc(treesOf(world), func(t *tree) bool {
		_, has := t.of(class)
		return p.given["class"] != "" && !has || !strings.Contains(strings.ToLower(t.root.Name), part)
	})
	arrange(list, class, order)
	page := &Trees{Sequence: view.Sequence(), Count: len(list), Offset: int(offset), Trees: []ShortTree{}}
	for _, t := range list[min(int(offset), len(list)):min(int(offset)+limit, len(list))] {
		one := ShortTree{Root: t.root.UUID, Name: t.root.Name, Providers: t.providers, Inventories: []ShortInventory{}}
		for _, sum := range t.sums {
			class := classes.Name(sum.class)
			one.Inventories = append(one.Inventories, ShortInventory{class, sum.total, sum.capacity, sum.used})
		}
		page.Trees = append(page.Trees, one)
	}
	return page, nil
}

// maxSkipped is more trees than there are.
const maxSkipped = 1 << 40

// Tree is the answer of GET /audit/tree: the tree that a provider belongs to.
type Tree struct {
	Sequence  uint64          `json:"sequence"` // sequence of the commit that the answer holds for
	Root      ledger.UUID     `json:"root"`
	Providers []ShortProvider `json:"providers"` // by name
	// Incomplete means that there are more providers than one answer holds.
	Incomplete bool `json:"incomplete,omitempty"`
}

const maxTreeProviders = 2000

func (q sums) tree(ctx context.Context, p *parameters) (any, error) {
	id := p.uuid("provider")
	world, view, err := q.world(ctx, p)
	if err != nil {
		return nil, err
	}
	found, exists := world.Provider(id)
	if !exists {
		return nil, rest.NotFound("there is no provider %s", id)
	}
	classes, err := view.Classes()
	if err != nil {
		return nil, err
	}
	t := &Tree{Sequence: view.Sequence(), Root: found.Root, Providers: []ShortProvider{}}
	world.Tree(found.Root, func(p *ledger.Provider) {
		if t.Incomplete = len(t.Providers) == maxTreeProviders; !t.Incomplete {
			t.Providers = append(t.Providers, shortProvider(p, classes))
		}
	})
	slices.SortFunc(t.Providers, func(a, b ShortProvider) int { return strings.Compare(a.Name, b.Name) })
	return t, nil
}
