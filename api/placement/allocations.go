package placement

import (
	"fmt"
	"strconv"

	"github.com/allot-project/allot/api/rest"
	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/demand"
	"github.com/allot-project/allot/ledger"
)

// Microversions that changed how allocations are written and shown.
const (
	allocationsNamedSince     version = 8 // project_id and user_id are required
	consumerGenerationsSince  version = 28
	allocationOwnerShownSince version = 12
)

func showAllocations(r *request) (*response, error) {
	body := m{"allocations": m{}}
	id, valid := parseUUID(r.params[0])
	if !valid {
		return ok(body, 0), nil
	}
	c, found, err := r.View.Consumer(id)
	if err != nil || !found {
		return ok(body, 0), err
	}
	byProvider, err := allocationsOf(r, c)
	if err != nil {
		return nil, err
	}
	body["allocations"] = byProvider
	if r.version >= allocationOwnerShownSince {
		body["project_id"], body["user_id"] = c.Owner.Project, c.Owner.User
	}
	if r.version >= consumerGenerationsSince {
		body["consumer_generation"] = c.Generation
	}
	if r.version >= consumerTypesSince {
		body["consumer_type"] = c.Owner.Type
		if c.Owner.Type == "" {
			body["consumer_type"] = ledger.UnknownType
		}
	}
	return ok(body, c.UpdatedAt), nil
}

type providerAllocation struct {
	resources  ordered[int64]
	generation int64
}

// AppendJSON implements rest.Appender.
func (p *providerAllocation) AppendJSON(b []byte) ([]byte, error) {
	b, err := p.resources.AppendJSON(append(b, `{"resources":`...))
	if err != nil {
		return nil, err
	}
	b = strconv.AppendInt(append(b, `,"generation":`...), p.generation, 10)
	return append(b, '}'), nil
}

// allocationsOf lists what a consumer holds in the order of the request that
// wrote it. A provider stands where it was named first.
func allocationsOf(r *request, c *ledger.Consumer) (ordered[*providerAllocation], error) {
	classes, err := r.View.Classes()
	if err != nil {
		return nil, err
	}
	byProvider := ordered[*providerAllocation]{}
	known := make(map[ledger.UUID]*providerAllocation)
	for _, a := range c.Allocations {
		held := known[a.Provider]
		if held == nil {
			p, found, err := r.View.Provider(a.Provider)
			if err != nil {
				return nil, err
			}
			if !found {
				return nil, fmt.Errorf(
					"placement: consumer %s holds something of provider %s, which does not exist", c.UUID, a.Provider,
				)
			}
			held = &providerAllocation{generation: p.Generation}
			known[a.Provider] = held
			byProvider = append(byProvider, pair[*providerAllocation]{a.Provider.String(), held})
		}
		held.resources = append(held.resources, pair[int64]{classes.Name(a.Class), a.Amount})
	}
	return byProvider, nil
}

func showProviderAllocations(r *request) (*response, error) {
	p, err := r.providerNamed(r.params[0])
	if err != nil {
		return nil, err
	}
	if p == nil {
		return nil, rest.NotFound(
			"Resource provider '%s' not found: No resource provider with uuid %s found", r.params[0], r.params[0],
		)
	}
	classes, err := r.View.Classes()
	if err != nil {
		return nil, err
	}
	var consumers []*ledger.Consumer
	err = r.View.ProviderConsumers(p.UUID, func(c *ledger.Consumer) bool { consumers = append(consumers, c); return true })
	if err != nil {
		return nil, err
	}
	asMade(
		consumers, func(c *ledger.Consumer) int64 { return c.UpdatedAt },
		func(a, b *ledger.Consumer) int { return a.UUID.Compare(b.UUID) },
	)
	byConsumer := make(ordered[m], len(consumers))
	newest := int64(0)
	for i, c := range consumers {
		resources := ordered[int64]{}
		for _, a := range c.HeldOf(p.UUID) {
			resources = append(resources, pair[int64]{classes.Name(a.Class), a.Amount})
		}
		entry := m{"resources": resources}
		if r.version >= consumerGenerationsSince {
			entry["consumer_generation"] = c.Generation
		}
		byConsumer[i] = pair[m]{c.UUID.String(), entry}
		newest = max(newest, c.UpdatedAt)
	}
	return ok(m{"allocations": byConsumer, "resource_provider_generation": p.Generation}, newest), nil
}

type allocationReader struct{ version version }

// consumer reads the new allocations of one consumer.
func (a allocationReader) consumer(id ledger.UUID, body *object) (commands.ConsumerAllocations, *rest.Failure) {
	want := commands.ConsumerAllocations{
		Consumer: id, Project: incompleteID, User: incompleteID, AnyGeneration: true,
	}
	if a.version >= allocationsNamedSince {
		want.Project, want.User = textOf(body.get("project_id")), textOf(body.get("user_id"))
	}
	if a.version >= consumerGenerationsSince {
		want.AnyGeneration = false
		if generation := integerPointer(body, "consumer_generation"); body.get("consumer_generation") != nil {
			if *generation <= 0 {
				return want, consumerConflict(id, "another one", *generation)
			}
			want.Generation = new(uint64(*generation))
		}
	}
	if a.version >= consumerTypesSince {
		want.Type = new(textOf(body.get("consumer_type")))
	}
	want.Resources = a.resources(body.get("allocations"))
	return want, nil
}

// consumerConflict refuses a generation that no consumer can have.
func consumerConflict(id ledger.UUID, expected string, got int64) *rest.Failure {
	return conflict(
		codeConcurrentUpdate, "consumer generation conflict - expected %s but got %d for consumer %s", expected, got, id,
	)
}

// resources reads either form of allocations, in the order of the request. The
// list form can name a provider twice: it then stands at its first place, with
// its last value, as a key in Python does.
func (a allocationReader) resources(value any) []commands.ProviderAllocation {
	var providers []ledger.UUID
	said := make(map[ledger.UUID]*object)
	add := func(provider ledger.UUID, resources *object) {
		if said[provider] == nil {
			providers = append(providers, provider)
		}
		said[provider] = resources
	}
	if byProvider, isObject := value.(*object); isObject {
		for _, key := range byProvider.keys {
			id, _ := parseUUID(key)
			add(id, objectOf(objectOf(byProvider.get(key)).get("resources")))
		}
	}
	for _, item := range listOf(value) {
		entry := objectOf(item)
		add(uuidOf(objectOf(entry.get("resource_provider")).get("uuid")), objectOf(entry.get("resources")))
	}
	var all []commands.ProviderAllocation
	for _, id := range providers {
		for _, class := range said[id].keys {
			all = append(
				all, commands.ProviderAllocation{Provider: id, Class: class, Amount: integerOf(said[id].get(class))},
			)
		}
	}
	return all
}

// badProviderKey finds a provider key that is no uuid, and so names no provider,
// although it has the 36 characters that the schema wants.
func badProviderKey(value any) *rest.Failure {
	byProvider, _ := value.(*object)
	if byProvider == nil {
		return nil
	}
	for _, key := range byProvider.keys {
		if id, valid := parseUUID(key); !valid || id.IsNil() {
			return unknownProvider(key)
		}
	}
	return nil
}

func unknownProvider(id any) *rest.Failure {
	return rest.BadRequest("Allocation for resource provider '%s' that does not exist.", id)
}

func allocateOne(r *request) (*response, error) {
	id, valid := parseUUID(r.params[0])
	if !valid || id.IsNil() {
		return nil, rest.BadRequest("Malformed consumer_uuid: %s", r.params[0])
	}
	want, err := newAllocations(r, id)
	if err != nil {
		return nil, err
	}
	c := &commands.AllocateForConsumers{Allocations: []commands.ConsumerAllocations{want}}
	_, err = r.Submit(c, func(rejection *demand.Rejection) error {
		return allocationRejected(rejection, fmt.Sprintf(" for consumer %s:", id))
	})
	return noContent(), err
}

func newAllocations(r *request, id ledger.UUID) (want commands.ConsumerAllocations, err error) {
	body, err := readBody(r)
	if err != nil {
		return want, err
	}
	reader := allocationReader{r.version}
	if want, plain := reader.plainAllocation(id, body); plain {
		return want, nil
	}
	doc, err := decodeValid(r, body)
	if err != nil {
		return want, err
	}
	if failure := badProviderKey(objectOf(doc).get("allocations")); failure != nil {
		return want, failure
	}
	want, failure := reader.consumer(id, objectOf(doc))
	if failure != nil {
		return want, failure
	}
	return want, nil
}

func allocateMany(r *request) (*response, error) {
	consumers, err := newAllocationsOfMany(r)
	if err != nil {
		return nil, err
	}
	_, err = r.Submit(&commands.AllocateForConsumers{Allocations: consumers}, func(rejection *demand.Rejection) error {
		return allocationRejected(rejection, "")
	})
	return noContent(), err
}

func newAllocationsOfMany(r *request) ([]commands.ConsumerAllocations, error) {
	body, err := readBody(r)
	if err != nil {
		return nil, err
	}
	reader := allocationReader{r.version}
	if all, plain := reader.plainAllocations(body); plain {
		return all, nil
	}
	doc, err := decodeValid(r, body)
	if err != nil {
		return nil, err
	}
	all, failure := reader.consumers(objectOf(doc))
	if failure != nil {
		return nil, failure
	}
	return all, nil
}

func (a allocationReader) consumers(o *object) ([]commands.ConsumerAllocations, *rest.Failure) {
	all := make([]commands.ConsumerAllocations, 0, len(o.keys))
	for _, key := range o.keys {
		id, valid := parseUUID(key)
		if !valid || id.IsNil() {
			return nil, rest.BadRequest("Malformed consumer_uuid: %s", key)
		}
		body := objectOf(o.get(key))
		if failure := badProviderKey(body.get("allocations")); failure != nil {
			return nil, failure
		}
		want, failure := a.consumer(id, body)
		if failure != nil {
			return nil, failure
		}
		all = append(all, want)
	}
	return all, nil
}

// allocationRejected has the texts for allocations. PUT names the consumer only
// for an unknown class.
func allocationRejected(r *demand.Rejection, who string) error {
	f := r.Facts
	switch r.Code {
	case demand.CodeConsumerConflict:
		return conflict(codeConcurrentUpdate, "consumer generation conflict - expected %s but got %s",
			generationText(f.Expected, "null"), generationText(f.Got, "None"))
	case demand.CodeProviderUnknown:
		return unknownProvider(f.Provider)
	case demand.CodeClassUnknown:
		return rest.BadRequest("Unable to allocate inventory%s No such resource class %s.", who, f.Class)
	case demand.CodeNoInventory:
		return conflict(
			"", "Unable to allocate inventory: Inventory for '%s' on resource provider '%s' invalid.", f.Class, f.Provider,
		)
	case demand.CodeUnitConstraint:
		return conflict("", "Unable to allocate inventory: Unable to create allocation for '%s' on resource provider '%s'. "+
			"The requested amount would violate inventory constraints.", f.Class, f.Provider)
	case demand.CodeCapacityExceeded:
		return conflict("", "Unable to allocate inventory: Unable to create allocation for '%s' on resource provider '%s'. "+
			"The requested amount would exceed the capacity.", f.Class, f.Provider)
	}
	return general(r)
}

func generationText(generation *int64, none string) string {
	if generation == nil {
		return none
	}
	return fmt.Sprint(*generation)
}

func releaseConsumer(r *request) (*response, error) {
	missing := rest.NotFound("No allocations for consumer '%s'", r.params[0])
	id, valid := parseUUID(r.params[0])
	if !valid || id.IsNil() {
		return nil, missing
	}
	return r.noContentAfter(&commands.ReleaseConsumer{Consumer: id}, func(rejection *demand.Rejection) error {
		if rejection.Code == demand.CodeConsumerNotFound {
			return missing
		}
		return general(rejection)
	})
}
