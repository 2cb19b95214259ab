package ledger

// Of is the kind of entity that an event is about.
type Of byte

// The kinds of entities that events are about.
const (
	// OfNothing stands for the ledger as a whole, its names, or several entities.
	OfNothing Of = iota
	OfConsumer
	OfProvider
	OfNode
	OfNodeAllocation
	OfChassis

	// Ofs is the number of kinds.
	Ofs = iota
)

// Topic is the one entity that an event is about: the one that it changes, and
// whose history has it.
type Topic struct {
	Of Of
	ID UUID
}

// ConsumersChanged returns the consumers that events change, each as often as it
// is changed.
func ConsumersChanged(events []Event) (ids []UUID) {
	for _, event := range events {
		if topic := event.Topic(); topic.Of == OfConsumer {
			ids = append(ids, topic.ID)
		}
	}
	return ids
}
