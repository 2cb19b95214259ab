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

// TopicOf returns the entity that an event is about. It decides whose history has the
// event, and what may change together.
func TopicOf(event Event) (about Topic) {
	if one, is := event.(interface{ topic() Topic }); is {
		about = one.topic()
	}
	return about
}

// ConsumersChanged returns the consumers that events change, each as often as it
// is changed.
func ConsumersChanged(events []Event) (ids []UUID) {
	for _, event := range events {
		if topic := TopicOf(event); topic.Of == OfConsumer {
			ids = append(ids, topic.ID)
		}
	}
	return ids
}
