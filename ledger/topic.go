package ledger

// Of says what kind of thing an event is about.
type Of byte

// What events are about.
const (
	// OfNothing: the ledger as a whole, the names in it, or more than one thing.
	OfNothing Of = iota
	OfConsumer
	OfProvider
	OfNode
	OfNodeAllocation
	OfChassis

	// Ofs is how many of them there are.
	Ofs = iota
)

// Topic is the one thing that an event is about: the one that it changes, and
// in whose history it is.
type Topic struct {
	Of Of
	ID UUID
}

// ConsumersChanged are the consumers that events change, each as often as it
// is changed.
func ConsumersChanged(events []Event) (ids []UUID) {
	for _, event := range events {
		if topic := event.Topic(); topic.Of == OfConsumer {
			ids = append(ids, topic.ID)
		}
	}
	return ids
}
