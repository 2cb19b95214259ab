package placement

import (
	"bytes"
	"net/http"
	"strings"

	"github.com/allot-project/allot/api/rest"
	"github.com/allot-project/allot/api/wire"
	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/demand"
	"github.com/allot-project/allot/ledger"
)

// fullyReservedSince is the microversion from which reserved may equal total.
const fullyReservedSince version = 26

type inventoryBody struct {
	Generation *int64 `json:"resource_provider_generation,omitempty"`
	wire.InventoryAmounts
	Ratio pythonFloat `json:"allocation_ratio"`
}

func inventoryBodyOf(inv *ledger.Inventory) inventoryBody {
	return inventoryBody{InventoryAmounts: wire.AmountsOf(inv), Ratio: pythonFloat(inv.Ratio)}
}

// pythonFloat is written as Python writes it, 1.0 and not 1: clients there would have an integer, and print that.
type pythonFloat float64

// MarshalJSON implements json.Marshaler.
func (f pythonFloat) MarshalJSON() ([]byte, error) {
	text, err := ledger.PlainJSON(float64(f))
	if !bytes.ContainsAny(text, ".e") {
		text = append(text, ".0"...)
	}
	return text, err
}

func inventoryOf(class string, o *object) commands.Inventory {
	return commands.Inventory{
		Class: class, Total: integerOf(o.get("total")), Reserved: integerOf(o.get("reserved")),
		MinUnit: integerPointer(o, "min_unit"), MaxUnit: integerPointer(o, "max_unit"),
		StepSize: integerPointer(o, "step_size"), Ratio: floatPointer(o, "allocation_ratio"),
	}
}

// inventoriesOf reads a set of inventories. Names that cannot be classes pass the
// schema upstream, and count as unknown classes.
func inventoriesOf(provider string, o *object) ([]commands.Inventory, *rest.Failure) {
	inventories := make([]commands.Inventory, 0, len(o.keys))
	for _, class := range o.keys {
		if !isClassName(class) {
			return nil, unknownClassInInventory(provider, class)
		}
		inventories = append(inventories, inventoryOf(class, objectOf(o.get(class))))
	}
	return inventories, nil
}

func unknownClassInInventory(provider, class string) *rest.Failure {
	return rest.BadRequest(
		"Unknown resource class in inventory for resource provider %s: No such resource class %s.", provider, class,
	)
}

func listInventories(r *request, p *ledger.Provider) (*response, error) {
	return inventoriesAnswer(r, p, nil)
}

// inventoriesAnswer shows inventories in the order of their classes, or of the
// request's keys.
func inventoriesAnswer(r *request, p *ledger.Provider, keys []string) (*response, error) {
	classes, err := r.View.Classes()
	if err != nil {
		return nil, err
	}
	inventories := make(ordered[inventoryBody], len(p.Inventories))
	newest := int64(0)
	for i, inv := range p.Inventories {
		inventories[i] = pair[inventoryBody]{classes.Name(inv.Class), inventoryBodyOf(&inv)}
		newest = max(newest, inv.UpdatedAt)
	}
	answer := ok(m{"resource_provider_generation": p.Generation, "inventories": inventories.inOrderOf(keys)}, newest)
	answer.noModified = len(inventories) == 0
	return answer, nil
}

func showInventory(r *request, p *ledger.Provider) (*response, error) {
	return inventoryAnswer(r, p, r.params[1])
}

func inventoryAnswer(r *request, p *ledger.Provider, class string) (*response, error) {
	classes, err := r.View.Classes()
	if err != nil {
		return nil, err
	}
	id, known := classes.ID(class)
	inv, found := p.Inventory(id)
	if !known || !found {
		return nil, rest.NotFound("No inventory of class %s for %s", class, p.UUID)
	}
	body := inventoryBodyOf(&inv)
	body.Generation = &p.Generation
	return ok(body, inv.UpdatedAt), nil
}

func createInventory(r *request, p *ledger.Provider, doc any) (*response, error) {
	class := textOf(objectOf(doc).get("resource_class"))
	_, err := r.Submit(&commands.CreateInventory{
		Provider: p.UUID, Inventory: inventoryOf(class, objectOf(doc)), RefuseFullyReserved: r.version < fullyReservedSince,
	}, func(rejection *demand.Rejection) error {
		switch rejection.Code {
		case demand.CodeClassUnknown:
			return rest.BadRequest(
				"Unable to create inventory for resource provider %s: No such resource class %s.", p.UUID, class,
			)
		case demand.CodeInventoryExists:
			return conflict(
				codeConcurrentUpdate, "Update conflict: inventory of class %s exists on resource provider %s", class, p.UUID,
			)
		}
		return inventoryRejected("create", r, rejection)
	})
	if err != nil {
		return nil, err
	}
	answer, err := showAfterWrite(r, class)
	if err != nil {
		return nil, err
	}
	answer.status = http.StatusCreated
	answer.location = providerPath(p.UUID) + "/inventories/" + class
	return answer, nil
}

func showAfterWrite(r *request, class string) (*response, error) {
	return withProvider(func(r *request, p *ledger.Provider) (*response, error) { return inventoryAnswer(r, p, class) })(r)
}

// inventoryRejected has the texts that creating and updating share.
func inventoryRejected(verb string, r *request, rejection *demand.Rejection) error {
	if rejection.Code == demand.CodeInventoryCapacity {
		reason := "The reserved value is greater than total."
		if r.version < fullyReservedSince {
			reason = "The reserved value is greater than or equal to total."
		}
		return rest.BadRequest(
			"Unable to %s inventory for resource provider %s: Invalid inventory for '%s' on resource provider '%s'. %s", verb,
			rejection.Facts.Provider, rejection.Facts.Class, rejection.Facts.Provider, reason,
		)
	}
	return general(rejection)
}

func updateInventory(r *request, p *ledger.Provider, doc any) (*response, error) {
	body, class := objectOf(doc), r.params[1]
	if !isClassName(class) {
		if integerOf(body.get("resource_provider_generation")) != p.Generation {
			return nil, conflict(codeConcurrentUpdate, "resource provider generation conflict")
		}
		return nil, rest.NotFound("No such resource class %s.", class)
	}
	_, err := r.Submit(&commands.UpdateInventory{
		Provider: p.UUID, Generation: integerPointer(body, "resource_provider_generation"),
		Inventory: inventoryOf(class, body), RefuseFullyReserved: r.version < fullyReservedSince,
	}, func(rejection *demand.Rejection) error {
		switch rejection.Code {
		case demand.CodeClassUnknown:
			return rest.NotFound("No such resource class %s.", class)
		case demand.CodeInventoryNotFound:
			return rest.BadRequest(
				"No inventory record with resource class for resource provider %s: No inventory of class %s found", p.UUID, class,
			)
		}
		return inventoryRejected("update", r, rejection)
	})
	if err != nil {
		return nil, err
	}
	return showAfterWrite(r, class)
}

func replaceInventories(r *request, p *ledger.Provider, doc any) (*response, error) {
	body := objectOf(doc)
	generation := integerOf(body.get("resource_provider_generation"))
	inventories, failure := inventoriesOf(r.params[0], objectOf(body.get("inventories")))
	if failure != nil {
		if generation != p.Generation {
			return nil, conflict(codeConcurrentUpdate, "resource provider generation conflict")
		}
		return nil, failure
	}
	_, err := r.Submit(&commands.ReplaceInventories{
		Provider: p.UUID, Generation: &generation, Inventories: inventories,
		RefuseFullyReserved: r.version < fullyReservedSince,
	}, func(rejection *demand.Rejection) error {
		switch rejection.Code {
		case demand.CodeClassUnknown:
			return unknownClassInInventory(r.params[0], rejection.Facts.Class)
		case demand.CodeInventoryInUse:
			return conflict(codeInventoryInUse, "update conflict: %s", inUseText(rejection))
		}
		return inventoryRejected("update", r, rejection)
	})
	if err != nil {
		return nil, err
	}
	return withProvider(func(r *request, p *ledger.Provider) (*response, error) {
		answer, err := inventoriesAnswer(r, p, objectOf(body.get("inventories")).keys)
		if err == nil {
			answer.modified, answer.noModified = 0, false
		}
		return answer, err
	})(r)
}

func inUseText(rejection *demand.Rejection) string {
	return "Inventory for '" + strings.Join(rejection.Facts.Classes, ", ") + "' on resource provider '" +
		rejection.Facts.Provider.String() + "' in use."
}

func deleteInventories(r *request, p *ledger.Provider) (*response, error) {
	return r.noContentAfter(&commands.DeleteInventories{Provider: p.UUID}, func(rejection *demand.Rejection) error {
		if rejection.Code == demand.CodeInventoryInUse {
			return conflict(codeInventoryInUse, "%s", inUseText(rejection))
		}
		return general(rejection)
	})
}

func noInventoryToDelete(r *request, class string) error {
	classes, err := r.View.Classes()
	if err != nil {
		return err
	}
	if _, known := classes.ID(class); !known {
		return rest.NotFound("No inventory of class %s found for delete: No such resource class %s.", class, class)
	}
	return rest.NotFound("No inventory of class %s found for delete: No inventory of class %s found", class, class)
}

func deleteInventory(r *request, p *ledger.Provider) (*response, error) {
	class := r.params[1]
	c := &commands.DeleteInventory{Provider: p.UUID, Class: class}
	return r.noContentAfter(c, func(rejection *demand.Rejection) error {
		switch rejection.Code {
		case demand.CodeInventoryNotFound:
			return noInventoryToDelete(r, class)
		case demand.CodeInventoryInUse:
			// not the code that one would expect, but the one that clients see
			return conflict(codeConcurrentUpdate, "Unable to delete inventory of class %s: %s", class, inUseText(rejection))
		}
		return general(rejection)
	})
}
