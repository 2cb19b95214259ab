package projector

import (
	"encoding/binary"

	"github.com/allot-project/allot/ledger"
)

var allChassis = entity[ledger.Chassis]{
	chassisTables,
	func(c *ledger.Chassis) thing { return thing{number: c.Number, id: c.UUID} }, appendChassis, readChassis,
}

// chassis writes one change of a chassis.
func (w *writer) chassis(c ledger.Change[ledger.Chassis]) { step(w, allChassis, c.Before, c.After) }

func appendChassis(b []byte, c *ledger.Chassis) []byte {
	b = append(b, c.UUID[:]...)
	b = appendString(b, c.Description)
	b = appendString(b, string(c.Extra))
	b = binary.AppendVarint(b, c.CreatedAt)
	return binary.AppendVarint(b, c.UpdatedAt)
}

func readChassis(number uint64, data []byte) (*ledger.Chassis, error) {
	f := fields{data: data}
	c := &ledger.Chassis{
		UUID: f.uuid(), Number: number, ChassisDescription: ledger.ChassisDescription{
			Description: f.string(), Extra: ledger.Document(f.string()),
		},
		CreatedAt: f.int(), UpdatedAt: f.int(),
	}
	return c, f.end("chassis")
}

// Chassis finds a chassis by its uuid.
func (v View) Chassis(id ledger.UUID) (*ledger.Chassis, bool, error) { return allChassis.withID(v, id) }

// AllChassis calls yield for each chassis that was created after the one with a
// number (0: for all), in that order, as long as it returns true.
func (v View) AllChassis(after uint64, yield func(*ledger.Chassis) bool) error {
	return allChassis.list(v, after, yield)
}
