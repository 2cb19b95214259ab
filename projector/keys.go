package projector

import (
	"encoding/binary"

	"github.com/allot-project/allot/ledger"
)

// Keys begin with a table's letter. "^seq" is the inverted sequence, so that
// newer versions of the same entity come first.
//
//	m                                  checkpoint; the tree's right edge
//	s seq                              commit: time, digest, records up to it, its records but for their events
//	T level number                     hashes of the tree of all records: of the levels 8, 16
//	                                   and so on, from this number on
//	x command                          command: address and fingerprint
//	p provider ^seq                    provider without what allocations move
//	g provider ^seq                    provider: generation, inventories with their usage, its sums; records
//	K provider ^seq                    capacity of the provider's inventories, with its sums
//	n name ^seq                        provider of that name
//	c consumer ^seq                    consumer with its allocations; record
//	a provider consumer                consumer holds something of provider now
//	e provider ^seq consumer           consumer held something of provider until seq
//	r until consumer                   reservation of now
//	u project user type ^seq           usage, with its integrals
//	M project class ^seq               whole nodes of the class, with their integral
//	k ^seq                             all resource classes
//	R moment ^seq                      root of consumption: index of its record
//	t trait ^seq                       trait
//	l project type class ^seq          limit
//	P project ^seq                     project that it is below
//	f name ^seq                        preference of that name
//	y name ^seq                        topology of that name
//	L aggregate class ^seq             limit of a class in the aggregate
//	U aggregate class ^seq             what is held of it, while it is limited
//	N number ^seq                      node
//	I uuid ^seq                        number of the node
//	O name ^seq                        number of the node of that name
//	Y number                           node exists now
//	Z ^seq number                      node existed until seq
//	A number ^seq                      node allocation
//	D uuid ^seq                        number of the node allocation
//	E name ^seq                        number of the node allocation of that name
//	V number                           node allocation exists now
//	W ^seq number                      node allocation existed until seq
//	C number ^seq                      chassis
//	F uuid ^seq                        number of the chassis
//	G number                           chassis exists now
//	H ^seq number                      chassis existed until seq
//	Q number                           node allocation waits for a node now
//	h kind id ^seq                     history: record indexes in the commit; of
//	                                   consumers none, of providers only their ends
//
// A version with an empty value means that the entity no longer exists; see gone. An integral is
// that of an amount over time, of each class that there ever was; see running, and sums.
const (
	tableCheckpoint      = 'm'
	tableCommit          = 's'
	tableTree            = 'T'
	tableCommand         = 'x'
	tableProvider        = 'p'
	tableProviderState   = 'g'
	tableName            = 'n'
	tableConsumer        = 'c'
	tableHolding         = 'a'
	tableHeld            = 'e'
	tableUsage           = 'u'
	tableCapacity        = 'K'
	tableWholeNodes      = 'M'
	tableClasses         = 'k'
	tableTrait           = 't'
	tableConsumptionRoot = 'R'
	tableHistory         = 'h'
	tableWaiting         = 'Q'
	tableReservation     = 'r'
	tableLimit           = 'l'
	tableParent          = 'P'
	tablePreference      = 'f'
	tableTopology        = 'y'
	tableAggregate       = 'L'
	tableAggregateUse    = 'U'
)

// entityTables are the tables of entities that are numbered and listed in the
// order of their creation.
type entityTables struct{ value, id, name, now, until byte }

var (
	nodeTables           = entityTables{value: 'N', id: 'I', name: 'O', now: 'Y', until: 'Z'}
	nodeAllocationTables = entityTables{value: 'A', id: 'D', name: 'E', now: 'V', until: 'W'}
	chassisTables        = entityTables{value: 'C', id: 'F', now: 'G', until: 'H'} // chassis have no names
)

// versionBytes is the length of the version at the end of a key.
const versionBytes = 8

func appendVersion(key []byte, sequence uint64) []byte {
	return binary.BigEndian.AppendUint64(key, ^sequence)
}

func versionOf(key []byte) uint64 { return ^binary.BigEndian.Uint64(key[len(key)-versionBytes:]) }

// appendText writes a string so that no text is a prefix of another one.
func appendText(key []byte, text string) []byte {
	key = binary.BigEndian.AppendUint16(key, uint16(len(text)))
	return append(key, text...)
}

func idKey(table byte, id ledger.UUID) []byte {
	key := make([]byte, 1, 1+len(id)+versionBytes)
	key[0] = table
	return append(key, id[:]...)
}

func textKey(table byte, text string) []byte {
	key := make([]byte, 1, 1+2+len(text)+versionBytes)
	key[0] = table
	return appendText(key, text)
}

func numberKey(table byte, number uint64) []byte {
	key := make([]byte, 1, 1+8+versionBytes)
	key[0] = table
	return binary.BigEndian.AppendUint64(key, number)
}

func commitKey(sequence uint64) []byte {
	return binary.BigEndian.AppendUint64([]byte{tableCommit}, sequence)
}

// after returns the first key after all keys with this prefix.
func after(prefix []byte) []byte {
	end := append([]byte(nil), prefix...)
	for i := len(end) - 1; i >= 0; i-- {
		end[i]++
		if end[i] != 0 {
			return end[:i+1]
		}
	}
	return nil
}
