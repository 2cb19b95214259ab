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

// Every kind of event says here what it is about, or does not compile.

// Topic implements Event.
func (LedgerCreated) Topic() Topic { return Topic{} }

// Topic implements Event.
func (StandardNamesAdded) Topic() Topic { return Topic{} }

// Topic implements Event.
func (ev ProviderCreated) Topic() Topic { return Topic{OfProvider, ev.Provider} }

// Topic implements Event.
func (ev ProviderRenamed) Topic() Topic { return Topic{OfProvider, ev.Provider} }

// Topic implements Event.
func (ev ProviderReparented) Topic() Topic { return Topic{OfProvider, ev.Provider} }

// Topic implements Event.
func (ev ProviderDeleted) Topic() Topic { return Topic{OfProvider, ev.Provider} }

// Topic implements Event. The event follows from others, whose topics they are.
func (ProviderGenerationsAdvanced) Topic() Topic { return Topic{} }

// Topic implements Event.
func (ev InventoriesReplaced) Topic() Topic { return Topic{OfProvider, ev.Provider} }

// Topic implements Event.
func (ev InventorySet) Topic() Topic { return Topic{OfProvider, ev.Provider} }

// Topic implements Event.
func (ev InventoryDeleted) Topic() Topic { return Topic{OfProvider, ev.Provider} }

// Topic implements Event.
func (TraitCreated) Topic() Topic { return Topic{} }

// Topic implements Event.
func (TraitDeleted) Topic() Topic { return Topic{} }

// Topic implements Event.
func (ev ProviderTraitsReplaced) Topic() Topic { return Topic{OfProvider, ev.Provider} }

// Topic implements Event.
func (ev ProviderAggregatesReplaced) Topic() Topic { return Topic{OfProvider, ev.Provider} }

// Topic implements Event.
func (ClassCreated) Topic() Topic { return Topic{} }

// Topic implements Event.
func (ClassRenamed) Topic() Topic { return Topic{} }

// Topic implements Event.
func (ClassDeleted) Topic() Topic { return Topic{} }

// Topic implements Event.
func (ev AllocationsReplaced) Topic() Topic { return Topic{OfConsumer, ev.Consumer} }

// Topic implements Event.
func (ev AllocationsReserved) Topic() Topic { return Topic{OfConsumer, ev.Consumer} }

// Topic implements Event.
func (ev ConsumerRemoved) Topic() Topic { return Topic{OfConsumer, ev.Consumer} }

// Topic implements Event.
func (ev NodeCreated) Topic() Topic { return Topic{OfNode, ev.Node} }

// Topic implements Event.
func (ev NodeDescribed) Topic() Topic { return Topic{OfNode, ev.Node} }

// Topic implements Event.
func (ev NodeStateSet) Topic() Topic { return Topic{OfNode, ev.Node} }

// Topic implements Event.
func (ev NodeTraitsReplaced) Topic() Topic { return Topic{OfNode, ev.Node} }

// Topic implements Event.
func (ev NodeInstanceSet) Topic() Topic { return Topic{OfNode, ev.Node} }

// Topic implements Event.
func (ev NodeDeleted) Topic() Topic { return Topic{OfNode, ev.Node} }

// Topic implements Event.
func (NodeProvidersSet) Topic() Topic { return Topic{} }

// Topic implements Event.
func (ev AllocationRequested) Topic() Topic { return Topic{OfNodeAllocation, ev.Allocation} }

// Topic implements Event.
func (ev NodeAllocated) Topic() Topic { return Topic{OfNodeAllocation, ev.Allocation} }

// Topic implements Event.
func (ev AllocationFailed) Topic() Topic { return Topic{OfNodeAllocation, ev.Allocation} }

// Topic implements Event.
func (ev NodeAllocationUpdated) Topic() Topic { return Topic{OfNodeAllocation, ev.Allocation} }

// Topic implements Event.
func (ev NodeAllocationReleased) Topic() Topic { return Topic{OfNodeAllocation, ev.Allocation} }

// Topic implements Event.
func (ev ChassisCreated) Topic() Topic { return Topic{OfChassis, ev.Chassis} }

// Topic implements Event.
func (ev ChassisDescribed) Topic() Topic { return Topic{OfChassis, ev.Chassis} }

// Topic implements Event.
func (ev ChassisDeleted) Topic() Topic { return Topic{OfChassis, ev.Chassis} }
