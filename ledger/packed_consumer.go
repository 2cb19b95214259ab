package ledger

import "encoding/binary"

// consumerEntry is a consumer as State keeps it: a million of them are a million
// short strings, which take a quarter of the memory of Consumers and have no
// pointers. The collection of garbage follows each pointer of State again and
// again, and commands wait for it.
type consumerEntry struct {
	id     UUID
	owner  *Owner
	packed string
}

// usualPacked is what packing and unpacking have at hand; more is allocated.
const usualPacked = 256

// packed returns the consumer as State keeps it. An allocation names its provider
// only where it is another one than that of the allocation before.
func (c *Consumer) packed() consumerEntry {
	b := make([]byte, 0, usualPacked)
	b = binary.AppendUvarint(b, c.Generation)
	b = binary.AppendVarint(b, c.CreatedAt)
	b = binary.AppendVarint(b, c.UpdatedAt-c.CreatedAt)
	b = binary.AppendVarint(b, c.ReservedUntil)
	if c.ReservedUntil != 0 {
		b = binary.AppendUvarint(b, uint64(len(c.Projects)))
		for _, project := range c.Projects {
			b = append(binary.AppendUvarint(b, uint64(len(project))), project...)
		}
	}
	b = binary.AppendUvarint(b, uint64(len(c.Allocations)))
	for i, a := range c.Allocations {
		class := uint64(uint32(a.Class)) << 1
		if i == 0 || a.Provider != c.Allocations[i-1].Provider {
			b = append(binary.AppendUvarint(b, class|1), a.Provider[:]...)
		} else {
			b = binary.AppendUvarint(b, class)
		}
		b = binary.AppendVarint(b, a.Amount)
	}
	return consumerEntry{id: c.UUID, owner: c.Owner, packed: string(b)}
}

// consumer returns a Consumer of its own.
func (e consumerEntry) consumer() *Consumer {
	p := packedReader(append(make([]byte, 0, usualPacked), e.packed...))
	c := &Consumer{UUID: e.id, Owner: e.owner, Generation: p.uint(), CreatedAt: p.int()}
	c.UpdatedAt, c.ReservedUntil = c.CreatedAt+p.int(), p.int()
	if c.ReservedUntil != 0 {
		for range p.uint() {
			c.Projects = append(c.Projects, p.text())
		}
	}
	c.Allocations = make([]Allocation, p.uint())
	var provider UUID
	for i := range c.Allocations {
		class := p.uint()
		if class&1 != 0 {
			provider = UUID(p[:len(provider)])
			p = p[len(provider):]
		}
		c.Allocations[i] = Allocation{Provider: provider, Class: ClassID(uint32(class >> 1)), Amount: p.int()}
	}
	return c
}

// packedReader is what is left to be read of what packed has written.
type packedReader []byte

func (p *packedReader) uint() uint64 {
	v, n := binary.Uvarint(*p)
	*p = (*p)[n:]
	return v
}

func (p *packedReader) text() string {
	n := p.uint()
	text := string((*p)[:n])
	*p = (*p)[n:]
	return text
}

func (p *packedReader) int() int64 {
	v, n := binary.Varint(*p)
	*p = (*p)[n:]
	return v
}
