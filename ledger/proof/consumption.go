package proof

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"fmt"
	"math/big"
	"slices"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/allot-project/allot/ledger"
)

// Consumption is what a project has consumed of each class from the ledger's beginning up to a
// moment: amounts times time.
type Consumption struct {
	Project string          `json:"project"`
	Classes []ClassConsumed `json:"classes"` // of all that it ever held
}

// ClassConsumed is what was consumed of a class.
type ClassConsumed struct {
	// ID is the number of a resource class, which is the same when it is renamed; -1: whole
	// nodes of a class.
	ID    int64  `json:"id"`
	Class string `json:"class"`
	// AmountNS is the amount times nanoseconds, decimal.
	AmountNS string `json:"amount_ns"`
}

type classKey struct {
	id   int64
	node string // of whole nodes: the class
}

func (c *ClassConsumed) key() classKey {
	if c.ID < 0 {
		return classKey{-1, c.Class}
	}
	return classKey{id: c.ID}
}

// Compare orders classes by their numbers, those of whole nodes behind by their names.
func (c ClassConsumed) Compare(other ClassConsumed) int {
	return cmp.Or(cmp.Compare(uint64(c.ID), uint64(other.ID)), cmp.Compare(c.Class, other.Class)) // -1 becomes the largest
}

func (c *ClassConsumed) amount() (*big.Int, error) {
	amount, is := new(big.Int).SetString(c.AmountNS, 10)
	if !is || amount.Sign() < 0 || amount.String() != c.AmountNS {
		return nil, fmt.Errorf("%w: %q of %s is not an amount", ErrProof, c.AmountNS, c.Class)
	}
	return amount, nil
}

// ProjectDigest stands for a project in the tree of consumption: it tells nothing about the
// project to those who do not know its id.
type ProjectDigest struct {
	Project  ledger.Digest `json:"project"`  // SHA-256 of the project's id
	Consumed ledger.Digest `json:"consumed"` // SHA-256 of its Consumption as JSON
}

// digest returns what stands for the project in the tree.
func (c *Consumption) digest() (d ProjectDigest, err error) {
	text, err := ledger.PlainJSON(c)
	return ProjectDigest{Project: sha256.Sum256([]byte(c.Project)), Consumed: sha256.Sum256(text)}, err
}

func (d ProjectDigest) leaf() tlog.Hash {
	return tlog.RecordHash(slices.Concat(d.Project[:], d.Consumed[:]))
}

func (d ProjectDigest) compare(other ProjectDigest) int {
	return bytes.Compare(d.Project[:], other.Project[:])
}

// ConsumptionTree is the Merkle tree (RFC 6962) over what all projects have consumed up to a
// moment, in the order of the SHA-256 of their ids.
type ConsumptionTree struct {
	leaves []ProjectDigest
	hashes []ledger.Digest // as tlog numbers them; made with the root
	root   ledger.Digest
}

// Add adds a project, of which each is added once.
func (t *ConsumptionTree) Add(c *Consumption) error {
	d, err := c.digest()
	t.leaves = append(t.leaves, d)
	return err
}

// Root returns the root and the number of projects. No project may be added after that.
func (t *ConsumptionTree) Root() (ledger.Digest, uint64) {
	if t.hashes == nil {
		slices.SortFunc(t.leaves, ProjectDigest.compare)
		var tree Tree
		for _, d := range t.leaves {
			t.hashes = append(t.hashes, tree.Add([]ledger.Digest{ledger.Digest(d.leaf())})...)
		}
		t.root = tree.Root()
	}
	return t.root, uint64(len(t.leaves))
}

// PlacedDigest is what stands for a project in the tree, with its place and the path to the
// root.
type PlacedDigest struct {
	ProjectDigest
	Number int64           `json:"number"` // from 0
	Path   []ledger.Digest `json:"path"`
}

// Prove proves what a project has consumed: with its place in the tree or, if it has none,
// with those before and after where it would be, of which there may be one or none.
func (t *ConsumptionTree) Prove(project string) ([]PlacedDigest, error) {
	t.Root()
	sought := ProjectDigest{Project: sha256.Sum256([]byte(project))}
	place, found := slices.BinarySearchFunc(t.leaves, sought, ProjectDigest.compare)
	first, last := place, place
	if !found {
		first, last = max(place-1, 0), min(place, len(t.leaves)-1)
	}
	var proved []PlacedDigest
	for number := first; number <= last; number++ {
		path, err := Inclusion(int64(number), int64(len(t.leaves)), t.find)
		if err != nil {
			return nil, err
		}
		proved = append(proved, PlacedDigest{ProjectDigest: t.leaves[number], Number: int64(number), Path: path})
	}
	return proved, nil
}

func (t *ConsumptionTree) find(numbers []int64) ([]ledger.Digest, error) {
	found := make([]ledger.Digest, len(numbers))
	for i, n := range numbers {
		found[i] = t.hashes[n]
	}
	return found, nil
}

// CheckConsumption checks that a project has consumed this, and no more, by the moment of a
// root; nil: that it had never held anything by then.
func CheckConsumption(root ledger.ConsumptionRoot, project string, c *Consumption, proved []PlacedDigest) error {
	for _, p := range proved {
		if err := p.check(root); err != nil {
			return err
		}
	}
	sought := ProjectDigest{Project: sha256.Sum256([]byte(project))}
	if c == nil {
		return checkAbsent(root, sought, proved)
	}
	d, err := c.digest()
	switch {
	case err != nil:
		return err
	case c.Project != project || len(proved) != 1 || proved[0].ProjectDigest != d:
		return fmt.Errorf("%w: this is not what project %q has consumed", ErrProof, project)
	}
	return nil
}

// check checks that the place is in the tree of a root.
func (p *PlacedDigest) check(root ledger.ConsumptionRoot) error {
	size := int64(root.Projects)
	if p.Number < 0 || p.Number >= size {
		return fmt.Errorf("%w: place %d of %d projects", ErrProof, p.Number, size)
	}
	if err := tlog.CheckRecord(hashes(p.Path), size, tlog.Hash(root.Root), p.Number, p.leaf()); err != nil {
		return fmt.Errorf("%w: place %d is not in the tree of %d projects: %w", ErrProof, p.Number, size, err)
	}
	return nil
}

// checkAbsent checks that those before and after where a project would be stand side by side.
func checkAbsent(root ledger.ConsumptionRoot, sought ProjectDigest, around []PlacedDigest) error {
	before, after := int64(-1), int64(root.Projects)
	for _, p := range around {
		switch order := p.compare(sought); {
		case order < 0:
			before = max(before, p.Number)
		case order > 0:
			after = min(after, p.Number)
		default:
			return fmt.Errorf("%w: the project has consumed something by then", ErrProof)
		}
	}
	if before+1 != after {
		return fmt.Errorf("%w: the project may be between the places %d and %d", ErrProof, before, after)
	}
	return nil
}

// Since returns what was consumed since an earlier moment, in the order of c. It fails if
// anything was consumed by then that is not by now.
func (c *Consumption) Since(earlier *Consumption) ([]ClassConsumed, error) {
	then := make(map[classKey]*big.Int)
	for i := range earlier.Classes {
		amount, err := earlier.Classes[i].amount()
		if err != nil {
			return nil, err
		}
		then[earlier.Classes[i].key()] = amount
	}
	list := slices.Clone(c.Classes)
	for i := range list {
		amount, err := list[i].amount()
		if err != nil {
			return nil, err
		}
		key := list[i].key()
		if before := then[key]; before != nil {
			amount.Sub(amount, before)
		}
		if delete(then, key); amount.Sign() < 0 {
			return nil, fmt.Errorf("%w: more of %s was consumed before than afterwards", ErrProof, list[i].Class)
		}
		list[i].AmountNS = amount.String()
	}
	if len(then) > 0 {
		return nil, fmt.Errorf("%w: something was consumed before that is not afterwards", ErrProof)
	}
	return list, nil
}
