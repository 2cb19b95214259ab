package contents

import (
	"cmp"
	"math"
	"slices"

	"github.com/allot-project/allot/ledger"
)

// IncompleteOwner is the project and user that Placement gives a consumer that it knows none of.
const IncompleteOwner = "00000000-0000-0000-0000-000000000000"

func (b *builder) readInventories() {
	for i := range b.rows.Inventories {
		row := &b.rows.Inventories[i]
		p := b.owner(row.Provider, Inventories, row.ID)
		if p == nil {
			continue
		}
		class, ok := b.classes[row.Class]
		_, twice := p.classes[class]
		switch {
		case !ok:
			b.note(classMissing, Inventories, row.ID, "provider %s, class %d", p.event.Provider, row.Class)
			continue
		case twice:
			b.note(inventoryTwice, Inventories, row.ID, "provider %s, %s", p.event.Provider, class)
			continue
		case outOfRange(row.Total, row.Reserved, row.MinUnit, row.MaxUnit, row.StepSize):
			b.note(amountOutOfRange, Inventories, row.ID, "provider %s, %s: total %d, reserved %d, units %d to %d by %d",
				p.event.Provider, class, row.Total, row.Reserved, row.MinUnit, row.MaxUnit, row.StepSize)
			continue
		case math.IsNaN(row.Ratio) || math.IsInf(row.Ratio, 0) || row.Ratio < 0:
			b.note(ratioInvalid, Inventories, row.ID, "provider %s, %s: %v", p.event.Provider, class, row.Ratio)
			continue
		case row.Total < 1 || row.Reserved > row.Total || row.MinUnit < 1 || row.MaxUnit < 1:
			b.note(inventoryUnusual, Inventories, row.ID, "provider %s, %s: total %d, reserved %d, units %d to %d by %d",
				p.event.Provider, class, row.Total, row.Reserved, row.MinUnit, row.MaxUnit, row.StepSize)
		}
		if row.StepSize == 0 {
			b.note(stepMissing, Inventories, row.ID, "provider %s, %s", p.event.Provider, class)
		}
		b.take()
		p.addInventory(class, row.ID, ledger.ImportedInventory{
			UpdatedAt: b.times(row.Times, Inventories, row.ID).Updated,
			InventoryRecord: ledger.InventoryRecord{
				Class: class, Total: row.Total, Reserved: row.Reserved, MinUnit: row.MinUnit, MaxUnit: row.MaxUnit,
				StepSize: max(1, row.StepSize), Ratio: row.Ratio,
			},
		})
	}
}

func (p *provider) addInventory(class string, row int64, inv ledger.ImportedInventory) {
	p.classes[class] = len(p.event.Inventories)
	p.event.Inventories = append(p.event.Inventories, inv)
	p.inventoryRows = append(p.inventoryRows, row)
}

func outOfRange(amounts ...int64) bool {
	return slices.ContainsFunc(amounts, func(n int64) bool { return n < 0 || n > ledger.MaxAmount })
}

type holder struct {
	event ledger.ConsumerImported
	row   *ConsumerRow
	first int64 // the id of its first allocation
	rows  []int64
}

func (b *builder) readAllocations() {
	b.byUUID = make(map[ledger.UUID]*holder, len(b.rows.Allocations)/2)
	rows := b.rows.Allocations
	if !slices.IsSortedFunc(rows, byAllocationID) {
		slices.SortFunc(rows, byAllocationID)
	}
	for i := range rows {
		row := &rows[i]
		p, class, ok := b.readAllocation(row)
		if !ok {
			continue
		}
		id, usual, isUUID := idOf(row.Consumer)
		switch {
		case !isUUID:
			b.note(consumerNotUUID, Allocations, row.ID, "%q becomes %s", row.Consumer, id)
		case !usual:
			b.note(uuidSpelling, Allocations, row.ID, "%q", row.Consumer)
		}
		h := b.holder(id, row)
		if b.hold(h, p, class, row) {
			b.take()
		}
	}
}

func byAllocationID(x, y AllocationRow) int { return cmp.Compare(x.ID, y.ID) }

func (b *builder) readAllocation(row *AllocationRow) (p *provider, class string, ok bool) {
	if b.refusesText(row.Consumer, Allocations, row.ID) {
		return nil, "", false
	}
	if p = b.owner(row.Provider, Allocations, row.ID); p == nil {
		return nil, "", false
	}
	if class, ok = b.classes[row.Class]; !ok {
		b.note(classMissing, Allocations, row.ID, "consumer %s, class %d", row.Consumer, row.Class)
		return nil, "", false
	}
	if outOfRange(row.Used) {
		b.note(amountOutOfRange, Allocations, row.ID, "consumer %s holds %d of %s", row.Consumer, row.Used, class)
		return nil, "", false
	}
	if row.Used == 0 {
		b.note(allocationOfNothing, Allocations, row.ID, "consumer %s, %s", row.Consumer, class)
		return nil, "", false
	}
	return p, class, true
}

func (b *builder) holder(id ledger.UUID, row *AllocationRow) *holder {
	if h := b.byUUID[id]; h != nil {
		return h
	}
	h := &holder{first: row.ID}
	h.event.Consumer = id
	b.byUUID[id] = h
	b.holders = append(b.holders, h)
	return h
}

// hold adds an allocation to a consumer, and reports whether it did.
func (b *builder) hold(h *holder, p *provider, class string, row *AllocationRow) bool {
	amounts := h.event.Allocations
	i := slices.IndexFunc(amounts, func(a ledger.AllocationRecord) bool {
		return a.Provider == p.event.Provider && a.Class == class
	})
	if i >= 0 && outOfRange(amounts[i].Amount+row.Used) {
		b.note(amountOutOfRange, Allocations, row.ID, "consumer %s holds %d of %s together",
			row.Consumer, amounts[i].Amount+row.Used, class)
		return false
	}
	if i >= 0 {
		b.note(allocationTwice, Allocations, row.ID, "consumer %s holds %d and %d of %s",
			row.Consumer, amounts[i].Amount, row.Used, class)
		amounts[i].Amount += row.Used
	} else {
		h.event.Allocations = append(amounts, ledger.AllocationRecord{
			Provider: p.event.Provider, Class: class, Amount: row.Used,
		})
	}
	h.rows = append(h.rows, row.ID)
	p.used[class] += row.Used
	h.event.CreatedAt = earliest(h.event.CreatedAt, row.Created)
	h.event.UpdatedAt = max(h.event.UpdatedAt, row.Created, row.Updated)
	b.fits(p, class, row)
	return true
}

// earliest returns the earlier of two times, of which 0 is none.
func earliest(a, b int64) int64 {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

func (b *builder) fits(p *provider, class string, row *AllocationRow) {
	i, exists := p.classes[class]
	if !exists {
		b.note(withoutInventory, Allocations, row.ID, "provider %s, %s", p.event.Provider, class)
		p.addInventory(class, 0, ledger.ImportedInventory{
			UpdatedAt: p.event.UpdatedAt,
			InventoryRecord: ledger.InventoryRecord{
				Class: class, Total: 1, Reserved: 1, MinUnit: 1, MaxUnit: 1, StepSize: 1, Ratio: 1,
			},
		})
		return
	}
	if inv := p.event.Inventories[i]; p.inventoryRows[i] != 0 &&
		(row.Used < inv.MinUnit || row.Used > inv.MaxUnit || inv.StepSize > 0 && row.Used%inv.StepSize != 0) {
		b.note(unitsBroken, Allocations, row.ID, "%d of %s, where units go from %d to %d by %d",
			row.Used, class, inv.MinUnit, inv.MaxUnit, inv.StepSize)
	}
}

// readUnseen notes what is used by allocations that the source does not show: without them
// a ledger would give away what is taken.
func (b *builder) readUnseen() {
	for _, row := range b.rows.Unseen {
		p := b.owner(row.Provider, Unseen, row.ID)
		if p == nil {
			continue
		}
		usage := UnseenUsage{p.event.Provider, b.classes[row.Class], row.Used, row.Seen}
		b.note(usageUnseen, Unseen, row.ID, "%s", usage)
		b.plan.Unseen = append(b.plan.Unseen, usage)
	}
}

func (b *builder) readConsumers() {
	for i := range b.rows.Consumers {
		row := &b.rows.Consumers[i]
		if b.refusesText(row.UUID, Consumers, row.ID) {
			continue
		}
		id, usual, isUUID := idOf(row.UUID)
		h := b.byUUID[id]
		if h == nil {
			b.note(consumerEmpty, Consumers, row.ID, "%s", row.UUID)
			continue
		}
		b.take()
		switch {
		case h.row != nil:
			b.note(consumerTwice, Consumers, row.ID, "%s is also %s", row.UUID, b.rows.where(Consumers, h.row.ID))
			continue
		case !isUUID:
			b.note(consumerNotUUID, Consumers, row.ID, "%q becomes %s", row.UUID, id)
		case !usual:
			b.note(uuidSpelling, Consumers, row.ID, "%q", row.UUID)
		}
		h.row = row
	}
	projects, users := b.names(Projects, b.rows.Projects), b.names(Users, b.rows.Users)
	types := b.names(Types, b.rows.Types)
	for _, h := range b.holders {
		b.identify(h, projects, users, types)
	}
	b.countNames(Projects, b.rows.Projects, projects)
	b.countNames(Users, b.rows.Users, users)
	b.countNames(Types, b.rows.Types, types)
}

type named struct {
	text map[int64]string
	used map[int64]bool
}

func (b *builder) names(table Table, rows []NameRow) named {
	n := named{text: make(map[int64]string, len(rows)), used: make(map[int64]bool)}
	for _, row := range rows {
		if !b.refusesText(row.Name, table, row.ID) {
			n.text[row.ID] = row.Name
		}
	}
	return n
}

func (n named) find(id Optional) (string, bool) {
	text, ok := n.text[id.Value]
	if !id.Set || !ok {
		return "", false
	}
	n.used[id.Value] = true
	return text, true
}

func (b *builder) countNames(table Table, rows []NameRow, n named) {
	for _, row := range rows {
		if _, readable := n.text[row.ID]; !readable {
			continue
		}
		if n.used[row.ID] {
			b.take()
		} else {
			b.note(nameUnused, table, row.ID, "%s", row.Name)
		}
	}
}

func (b *builder) identify(h *holder, projects, users, types named) {
	ev := &h.event
	if h.row == nil {
		for _, row := range h.rows {
			b.note(consumerMissing, Allocations, row, "consumer %s", ev.Consumer)
		}
		ev.Project, ev.User = IncompleteOwner, IncompleteOwner
		ev.Origin = b.rows.where(Allocations, h.first)
		t := b.times(Times{ev.CreatedAt, ev.UpdatedAt}, Allocations, h.first)
		ev.CreatedAt, ev.UpdatedAt = t.Created, t.Updated
		return
	}
	var known [2]bool
	ev.Project, known[0] = projects.find(h.row.Project)
	ev.User, known[1] = users.find(h.row.User)
	for i, text := range []*string{&ev.Project, &ev.User} {
		if !known[i] {
			b.note(ownerMissing, Consumers, h.row.ID, "consumer %s has no %s", ev.Consumer, [2]string{"project", "user"}[i])
			*text = IncompleteOwner
		}
	}
	var typed bool
	if ev.Type, typed = types.find(h.row.Type); h.row.Type.Set && !typed {
		b.note(typeMissing, Consumers, h.row.ID, "consumer %s has the type %d", ev.Consumer, h.row.Type.Value)
	}
	ev.Origin, ev.Counted = b.rows.where(Consumers, h.row.ID), h.row.Generation.Value
	t := h.row.Times
	t.Created, t.Updated = cmp.Or(t.Created, ev.CreatedAt), max(t.Updated, ev.UpdatedAt)
	t = b.times(t, Consumers, h.row.ID)
	ev.CreatedAt, ev.UpdatedAt = t.Created, t.Updated
}
