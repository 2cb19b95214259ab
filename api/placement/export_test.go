package placement

import (
	"github.com/allot-project/allot/api/rest"
	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/ledger"
)

// PlainAllocations reads a body as plainReader does, of one consumer or of many.
func PlainAllocations(body []byte, minor int, many bool) ([]commands.ConsumerAllocations, bool) {
	reader := allocationReader{version(minor)}
	if many {
		return reader.plainAllocations(body)
	}
	one, plain := reader.plainAllocation(ledger.UUID{1}, body)
	return []commands.ConsumerAllocations{one}, plain
}

// ValidAllocations reads a body by its schema.
func ValidAllocations(body []byte, minor int, many bool) ([]commands.ConsumerAllocations, error) {
	name := "allocate"
	if many {
		name = "allocate many"
	}
	doc, err := decodeValid(&request{op: &operation{body: name}, version: version(minor)}, body)
	if err != nil {
		return nil, err
	}
	reader := allocationReader{version(minor)}
	if many {
		return result(reader.consumers(objectOf(doc)))
	}
	if failure := badProviderKey(objectOf(doc).get("allocations")); failure != nil {
		return nil, failure
	}
	one, failure := reader.consumer(ledger.UUID{1}, objectOf(doc))
	return result([]commands.ConsumerAllocations{one}, failure)
}

func result(all []commands.ConsumerAllocations, failure *rest.Failure) ([]commands.ConsumerAllocations, error) {
	if failure != nil {
		return nil, failure
	}
	return all, nil
}
