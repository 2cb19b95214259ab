package contents

import (
	"cmp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/ledger"
)

type metal struct {
	row   *NodeRow
	event ledger.NodeImported
	taken bool // an allocation has it
}

type metalReader struct {
	*builder
	chassis     map[int64]ledger.UUID // by the rows' ids
	nodes       map[int64]*metal
	ordered     []*metal // in the order of their rows
	known       map[ledger.UUID]bool
	names       map[string]bool
	instances   map[ledger.UUID]int64 // rows of nodes, by instance
	allocations map[int64]*NodeAllocationRow
}

func (b *builder) readMetal() {
	m := &metalReader{
		builder: b, chassis: make(map[int64]ledger.UUID), nodes: make(map[int64]*metal), known: make(map[ledger.UUID]bool),
		names: make(map[string]bool), instances: make(map[ledger.UUID]int64), allocations: make(map[int64]*NodeAllocationRow),
	}
	for i := range b.rows.NodeAllocations {
		m.allocations[b.rows.NodeAllocations[i].ID] = &b.rows.NodeAllocations[i]
	}
	for i := range b.rows.Chassis {
		m.readChassis(&b.rows.Chassis[i])
	}
	for i := range b.rows.Nodes {
		if n := m.readNode(&b.rows.Nodes[i]); n != nil {
			m.nodes[n.row.ID] = n
			m.ordered = append(m.ordered, n)
			m.take()
		}
	}
	m.findParents()
	for i := range b.rows.NodeTraits {
		m.readTrait(&b.rows.NodeTraits[i], int64(i+1))
	}
	for i := range b.rows.NodeAllocations {
		m.readAllocation(&b.rows.NodeAllocations[i])
	}
	m.noteLostAllocations()
	for _, n := range m.ordered {
		slices.Sort(n.event.Traits)
		b.plan.Nodes = append(b.plan.Nodes, n.event)
	}
	for _, other := range b.rows.Others {
		if other.Rows > 0 {
			b.report.leaveTable(notKept, other.Table, other.Rows)
		}
	}
}

// identify reads the uuid of a row; taken are those of the rows before.
func (m *metalReader) identify(text string, table Table, row int64) (id ledger.UUID, ok bool) {
	id, usual, isUUID := idOf(text)
	switch {
	case !isUUID:
		m.note(metalUUIDInvalid, table, row, "%q", text)
		return id, false
	case m.known[id]:
		m.note(metalUUIDTwice, table, row, "%q", text)
		return id, false
	case !usual:
		m.note(uuidSpelling, table, row, "%q", text)
	}
	m.known[id] = true
	return id, true
}

func (m *metalReader) document(text, field string, table Table, row int64) (ledger.Document, bool) {
	if text == "" || text == "null" {
		return "", true
	}
	doc, err := ledger.ParseDocument([]byte(text))
	if err != nil {
		m.note(documentInvalid, table, row, "%s: %v", field, err)
		return "", false
	}
	return doc, true
}

// changed brings a row's times in order; a row that never changed has no second one.
func (m *metalReader) changed(t Times, table Table, row int64) Times {
	never := t.Updated == 0
	t = m.times(t, table, row)
	if never {
		t.Updated = 0
	}
	return t
}

// name returns a row's name, if it can be its name.
func (m *metalReader) name(name string, usable func(string) bool, table Table, row int64) string {
	key := string(table) + " " + name
	switch {
	case name == "":
		return ""
	case !usable(name):
		m.note(metalNameUnusable, table, row, "%q", name)
		return ""
	case m.names[key]:
		m.note(metalNameUnusable, table, row, "%q is the name of another one", name)
		return ""
	}
	m.names[key] = true
	return name
}

func (m *metalReader) readChassis(row *ChassisRow) {
	if m.refusesText(row.UUID+row.Description, Chassis, row.ID) {
		return
	}
	extra, ok := m.document(row.Extra, "extra", Chassis, row.ID)
	if !ok {
		return
	}
	id, ok := m.identify(row.UUID, Chassis, row.ID)
	if !ok {
		return
	}
	t := m.changed(row.Times, Chassis, row.ID)
	m.chassis[row.ID] = id
	m.take()
	m.plan.Chassis = append(m.plan.Chassis, ledger.ChassisImported{
		ChassisCreated: ledger.ChassisCreated{
			Chassis: id, Description: ledger.ChassisDescription{Description: row.Description, Extra: extra},
		},
		CreatedAt: t.Created, UpdatedAt: t.Updated, Origin: m.rows.where(Chassis, row.ID),
	})
}

// readNode reads a row by itself; nil: it is not imported.
func (m *metalReader) readNode(row *NodeRow) *metal {
	texts := []string{
		row.UUID, row.Name, row.Instance, row.Parent, row.Driver, row.ResourceClass, row.Owner, row.Lessee,
		row.ProvisionState,
		row.PowerState, row.MaintenanceReason,
	}
	if m.refusesText(strings.Join(texts, " "), Nodes, row.ID) {
		return nil
	}
	description, ok := m.describe(row)
	if !ok {
		return nil
	}
	instance, ok := m.instance(row)
	if !ok {
		return nil
	}
	id, ok := m.identify(row.UUID, Nodes, row.ID)
	if !ok {
		return nil
	}
	if !instance.IsNil() {
		m.instances[instance] = row.ID
	}
	description.Name = m.name(row.Name, commands.IsNodeName, Nodes, row.ID)
	if row.Driver == "" {
		m.note(nodeDriverMissing, Nodes, row.ID, "%s", id)
	}
	t := m.changed(row.Times, Nodes, row.ID)
	n := &metal{row: row, event: ledger.NodeImported{
		Node: id, Description: description, ProvisionState: m.settle(row, id), PowerState: row.PowerState,
		Maintenance: row.Maintenance, MaintenanceReason: row.MaintenanceReason, Instance: instance,
		CreatedAt: t.Created, UpdatedAt: t.Updated, Origin: m.rows.where(Nodes, row.ID),
	}}
	if row.ProvisionUpdated != 0 {
		n.event.ProvisionUpdatedAt = min(max(row.ProvisionUpdated, t.Created), m.rows.ReadAt)
	}
	return n
}

func (m *metalReader) instance(row *NodeRow) (id ledger.UUID, ok bool) {
	if row.Instance == "" {
		return ledger.NilUUID, true
	}
	id, usual, isUUID := idOf(row.Instance)
	if other, taken := m.instances[id]; taken {
		m.note(instanceTwice, Nodes, row.ID, "instance %s is on %s, too", row.Instance, m.rows.where(Nodes, other))
		return id, false
	}
	switch {
	case !isUUID:
		m.note(instanceNotUUID, Nodes, row.ID, "%q becomes %s", row.Instance, id)
	case !usual:
		m.note(uuidSpelling, Nodes, row.ID, "%q", row.Instance)
	}
	return id, true
}

// describe reads the fields of a node that clients set, but for its name.
func (m *metalReader) describe(row *NodeRow) (d ledger.NodeDescription, ok bool) {
	d = ledger.NodeDescription{
		Driver: row.Driver, ResourceClass: row.ResourceClass, Owner: row.Owner, Lessee: row.Lessee, Protected: row.Protected,
	}
	for _, one := range []struct {
		field, text string
		into        *ledger.Document
	}{
		{"properties", row.Properties, &d.Properties}, {"extra", row.Extra, &d.Extra},
		{"driver_info", row.DriverInfo, &d.DriverInfo}, {"instance_info", row.InstanceInfo, &d.InstanceInfo},
	} {
		if *one.into, ok = m.document(one.text, one.field, Nodes, row.ID); !ok {
			return d, false
		}
	}
	for field, doc := range map[string]*ledger.Document{"driver_info": &d.DriverInfo, "instance_info": &d.InstanceInfo} {
		masked, err := commands.WithoutSecrets(*doc)
		if err != nil {
			m.note(documentInvalid, Nodes, row.ID, "%s: %v", field, err)
			return d, false
		}
		if masked != *doc {
			m.note(secretMasked, Nodes, row.ID, "%s", field)
		}
		*doc = masked
	}
	return d, m.detail(row, &d)
}

// detail puts the other fields of a node into its description, and its chassis.
func (m *metalReader) detail(row *NodeRow, d *ledger.NodeDescription) bool {
	details := make(map[string]any, len(row.Details)+1)
	for name, value := range row.Details {
		if text, isText := value.(string); isText && !utf8.ValidString(text) {
			return !m.refusesText(text, Nodes, row.ID)
		}
		if value != nil && value != "" {
			details[name] = value
		}
	}
	if row.Chassis.Set {
		if id, exists := m.chassis[row.Chassis.Value]; exists {
			details["chassis_uuid"] = id.String()
		} else {
			m.note(nodeReferenceMissing, Nodes, row.ID, "chassis %d", row.Chassis.Value)
		}
	}
	var err error
	if d.Details, err = ledger.NewDocument(details); err != nil {
		m.note(documentInvalid, Nodes, row.ID, "the other fields: %v", err)
		return false
	}
	return true
}

// settledStates are those that Allot has verbs for.
var settledStates = []string{"enroll", "manageable", ledger.NodeAvailable, "active"}

// settle returns the provision state that a node has from now on. What Ironic was doing
// with a node does not go on.
func (m *metalReader) settle(row *NodeRow, id ledger.UUID) string {
	if slices.Contains(settledStates, row.ProvisionState) {
		return row.ProvisionState
	}
	state := "manageable"
	switch {
	case row.Instance != "":
		state = "active"
	case row.ProvisionState == "verifying":
		state = "enroll"
	}
	m.note(nodeStateUnsettled, Nodes, row.ID, "%s is %s from now on, and was %q", id, state, row.ProvisionState)
	return state
}

// findParents lets nodes be below others that exist and are below none.
func (m *metalReader) findParents() {
	top := make(map[ledger.UUID]bool, len(m.ordered))
	for _, n := range m.ordered {
		top[n.event.Node] = n.row.Parent == ""
	}
	for _, n := range m.ordered {
		if n.row.Parent == "" {
			continue
		}
		parent, _, isUUID := idOf(n.row.Parent)
		if !isUUID || !top[parent] {
			m.note(nodeReferenceMissing, Nodes, n.row.ID, "parent %q", n.row.Parent)
			continue
		}
		details, err := n.event.Description.Details.Object()
		if err == nil {
			if details == nil {
				details = make(map[string]any)
			}
			details["parent_node"] = parent.String()
			n.event.Description.Details, err = ledger.NewDocument(details)
		}
		if err != nil {
			m.note(nodeReferenceMissing, Nodes, n.row.ID, "parent %q: %v", n.row.Parent, err)
		}
	}
}

func (m *metalReader) readTrait(row *NodeTraitRow, id int64) {
	n := m.nodes[row.Node]
	switch {
	case m.refusesText(row.Trait, NodeTraits, id):
		return
	case n == nil:
		m.note(withItsNode, NodeTraits, id, "node %d has %s", row.Node, row.Trait)
		return
	case !strings.HasPrefix(row.Trait, "CUSTOM_") && !slices.Contains(m.standard.Traits, row.Trait):
		m.note(nodeTraitNotStandard, NodeTraits, id, "node %s has %s", n.event.Node, row.Trait)
	}
	m.take()
	if slices.Contains(n.event.Traits, row.Trait) {
		m.note(memberTwice, NodeTraits, id, "node %s has %s", n.event.Node, row.Trait)
		return
	}
	n.event.Traits = append(n.event.Traits, row.Trait)
}

func (m *metalReader) readAllocation(row *NodeAllocationRow) {
	texts := append([]string{row.UUID, row.Name, row.State, row.Owner, row.LastError, row.ResourceClass}, row.Traits...)
	if m.refusesText(strings.Join(append(texts, row.Candidates...), " "), NodeAllocations, row.ID) {
		return
	}
	extra, ok := m.document(row.Extra, "extra", NodeAllocations, row.ID)
	if !ok {
		return
	}
	state := ledger.NodeAllocationState(row.State)
	if state != ledger.NodeAllocating && state != ledger.NodeAllocationActive && state != ledger.NodeAllocationError {
		m.note(allocationStateUnknown, NodeAllocations, row.ID, "%q", row.State)
		return
	}
	id, ok := m.identify(row.UUID, NodeAllocations, row.ID)
	if !ok {
		return
	}
	ev := ledger.NodeAllocationImported{
		AllocationRequested: ledger.AllocationRequested{
			Allocation: id, ResourceClass: row.ResourceClass, Owner: row.Owner, Traits: row.Traits, Extra: extra,
			CandidateNodes: m.candidates(row),
		},
		State: state, LastError: row.LastError, Origin: m.rows.where(NodeAllocations, row.ID),
	}
	if !m.takeNode(row, &ev) {
		return
	}
	t := m.changed(row.Times, NodeAllocations, row.ID)
	ev.CreatedAt, ev.UpdatedAt = t.Created, t.Updated
	ev.Name = m.name(row.Name, commands.IsIdent, NodeAllocations, row.ID)
	m.take()
	m.plan.NodeAllocations = append(m.plan.NodeAllocations, ev)
}

func (m *metalReader) candidates(row *NodeAllocationRow) (list []ledger.UUID) {
	for _, text := range row.Candidates {
		id, _, isUUID := idOf(text)
		if !isUUID {
			m.note(candidateNotUUID, NodeAllocations, row.ID, "%q", text)
			continue
		}
		list = append(list, id)
	}
	return list
}

// takeNode gives an allocation its node, and reports whether it can be imported.
func (m *metalReader) takeNode(row *NodeAllocationRow, ev *ledger.NodeAllocationImported) bool {
	if ev.State == ledger.NodeAllocating {
		m.note(allocationWaits, NodeAllocations, row.ID, "%s", ev.Allocation)
	}
	if ev.State != ledger.NodeAllocationActive {
		return true
	}
	n := m.nodes[row.Node.Value]
	runsOn, runs := m.instances[ev.Allocation]
	switch {
	case !row.Node.Set || n == nil && !m.existed(row.Node.Value):
		m.note(allocationWithoutNode, NodeAllocations, row.ID, "%s", ev.Allocation)
		ev.State, ev.LastError = ledger.NodeAllocationError, cmp.Or(row.LastError, "The node of this allocation does not exist.")
		return true
	case n == nil:
		m.note(withItsNode, NodeAllocations, row.ID, "node %d", row.Node.Value)
		return false
	case n.taken ||
		n.row.Allocation.Set && n.row.Allocation.Value != row.ID && m.allocations[n.row.Allocation.Value] != nil ||
		!n.event.Instance.IsNil() && n.event.Instance != ev.Allocation || runs && runsOn != n.row.ID:
		m.note(nodeTakenTwice, NodeAllocations, row.ID, "%s has node %s, which has the instance %q", ev.Allocation, n.event.Node, n.row.Instance)
		return false
	}
	n.taken, ev.Node = true, n.event.Node
	m.instances[ev.Allocation] = n.row.ID
	return true
}

// noteLostAllocations finds nodes whose allocation does not have them.
func (m *metalReader) noteLostAllocations() {
	for _, n := range m.ordered {
		if n.row.Allocation.Set && !n.taken {
			m.note(nodeReferenceMissing, Nodes, n.row.ID, "allocation %d", n.row.Allocation.Value)
		}
	}
}

func (m *metalReader) existed(id int64) bool {
	return slices.ContainsFunc(m.rows.Nodes, func(row NodeRow) bool { return row.ID == id })
}
