package ledger

import "slices"

// Records are packed: each name and id is written in the shortest of its ways, and read
// back as it was.
//
//   - A well-known name is its number in wellKnown.
//   - A name that is a uuid in one of three spellings is an extension of msgpack: the
//     spelling is its type, and the 16 bytes of the uuid are its data.
//   - An id that was in the record before is the number of other ids that came after
//     it, if these are fewer than recentIDs; in a name it is an extension of one byte.
//   - Everything else is as in a State.

// recentIDs is how many ids a record can refer back to. Each number up to there takes
// one byte, and searching them takes less time than hashing one.
const recentIDs = 32

// recent are the last ids of a record, each once.
type recent struct {
	on   bool // within a record
	ids  [recentIDs]UUID
	seen int // ids that came in
}

// back returns how many other ids came in after an id, if it is still there.
func (r *recent) back(id UUID) (n int, found bool) {
	for n := range min(r.seen, recentIDs) {
		if r.ids[(r.seen-1-n)%recentIDs] == id {
			return n, true
		}
	}
	return 0, false
}

// at is the inverse of back.
func (r *recent) at(n int) (id UUID, found bool) {
	if n < 0 || n >= min(r.seen, recentIDs) {
		return id, false
	}
	return r.ids[(r.seen-1-n)%recentIDs], true
}

func (r *recent) add(id UUID) {
	if r.on {
		r.ids[r.seen%recentIDs] = id
		r.seen++
	}
}

// pack begins a record, or ends it.
func (c *coder) pack(packed bool) { c.recent.on, c.recent.seen = packed, 0 }

func (e *encoder) uuid(id UUID) {
	if n, found := e.form.recent.back(id); found {
		e.uint(uint64(n))
		return
	}
	e.bytes(id[:])
	e.form.recent.add(id)
}

func (d *decoder) uuid() (id UUID) {
	if d.form.recent.on && d.smallNumberNext() {
		return d.recentID(int(d.uint()))
	}
	d.fixed(id[:], "uuid")
	d.form.recent.add(id)
	return id
}

// recentID returns an id that was in the record before.
func (d *decoder) recentID(n int) UUID {
	id, found := d.form.recent.at(n)
	if !found {
		d.fail("id %d back, and there are %d", n, d.form.recent.seen)
	}
	return id
}

func (e *encoder) text(name string) {
	if !e.form.recent.on {
		e.string(name)
	} else if id, as, ok := ParseText(name); ok {
		e.spelled(as, id)
	} else if number, known := wellKnownNumbers[name]; known {
		e.uint(uint64(number))
	} else {
		e.string(name)
	}
}

func (e *encoder) spelled(as Spelling, id UUID) {
	if n, found := e.form.recent.back(id); found {
		e.extension(as, []byte{byte(n)})
		return
	}
	e.extension(as, id[:])
	e.form.recent.add(id)
}

func (d *decoder) text() string {
	switch {
	case !d.form.recent.on:
		return d.string()
	case d.smallNumberNext():
		n := d.uint()
		if n >= uint64(len(wellKnown)) {
			d.fail("name %d is unknown: it was written by a newer Allot", n)
			return ""
		}
		return wellKnown[n]
	case !d.extensionNext():
		return d.string()
	}
	as, data := d.extension()
	var id UUID
	switch {
	case d.err != nil:
		return ""
	case as < 0 || as >= Spellings:
		d.fail("spelling %d is unknown: it was written by a newer Allot", as)
		return ""
	case len(data) == 1:
		id = d.recentID(int(data[0]))
	case len(data) == len(id):
		copy(id[:], data)
		d.form.recent.add(id)
	default:
		d.fail("uuid of %d bytes", len(data))
	}
	return as.Text(id)
}

// wellKnown are the names that are numbers in packed records: those of commands, and of
// what OpenStack's services allocate. They are at most 128, of which each takes a
// byte. A number never stands for another name, and more of them are another version
// of records.
var wellKnown = [...]string{
	"AllocateForConsumers", "ReleaseConsumer", "Claim", "Reserve",
	"ConfirmReservation", "CancelReservation", "ExpireReservation", "Reshape", "Batch", "BeginTerm",
	"Import", "AddStandardNames", "CreateProvider", "UpdateProvider", "RenameProvider", "ReparentProvider",
	"DeleteProvider", "RemoveProvider", "CreateInventory", "UpdateInventory", "ReplaceInventories", "DeleteInventory",
	"DeleteInventories", "ReplaceProviderTraits", "ReplaceProviderAggregates", "CreateResourceClass",
	"RenameResourceClass", "DeleteResourceClass", "CreateTrait", "DeleteTrait", "SetLimit", "PlaceProject",
	"SetPreference", "CreateNode", "UpdateNode", "DeleteNode", "SetNodeProviders", "ReplaceNodeTraits", "AddNodeTrait",
	"RemoveNodeTrait", "SetNodeProvisionState", "SetNodePowerState", "SetNodeMaintenance", "RequestNodeAllocation",
	"ChooseNode", "BackfillNodeAllocation", "UpdateNodeAllocation", "ReleaseNodeAllocation", "CreateChassis",
	"UpdateChassis", "DeleteChassis",
	"VCPU", "MEMORY_MB", "DISK_GB", "PCI_DEVICE", "SRIOV_NET_VF", "NUMA_SOCKET", "NUMA_CORE", "NUMA_THREAD",
	"NUMA_MEMORY_MB", "IPV4_ADDRESS", "VGPU", "VGPU_DISPLAY_HEAD", "NET_BW_EGR_KILOBIT_PER_SEC",
	"NET_BW_IGR_KILOBIT_PER_SEC", "PCPU", "MEM_ENCRYPTION_CONTEXT", "FPGA", "PGPU", "NET_PACKET_RATE_KILOPACKET_PER_SEC",
	"NET_PACKET_RATE_EGR_KILOPACKET_PER_SEC", "NET_PACKET_RATE_IGR_KILOPACKET_PER_SEC",
	"INSTANCE", "MIGRATION", "admin", "ReplaceProviderCounters", "SetConsumptionRoot",
}

var wellKnownNumbers = func() map[string]int {
	numbers := make(map[string]int, len(wellKnown))
	for number, name := range wellKnown {
		numbers[name] = number
	}
	return numbers
}()

// WellKnownNames returns the names that are numbers in packed records, by number.
func WellKnownNames() []string { return slices.Clone(wellKnown[:]) }
