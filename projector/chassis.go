package projector

import (
	"encoding/binary"

	"github.com/allot-project/allot/ledger"
)

// chassis writes a chassis' step.
func (w *writer) chassis(c ledger.ChassisChange) {
	var before, after *thing
	if c.Before != nil {
		before = &thing{number: c.Before.Number, id: c.Before.UUID}
	}
	if c.After != nil {
		after = &thing{number: c.After.Number, id: c.After.UUID}
	}
	w.numbered(chassisTables, before, after, func(b []byte) []byte { return appendChassis(b, c.After) })
}

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

// Chassis finds a chassis.
func (v View) Chassis(id ledger.UUID) (*ledger.Chassis, bool, error) {
	return find(v, chassisTables, idKey(chassisTables.id, id), readChassis)
}

// AllChassis calls yield for every chassis that was created after the one
// with a number (0: all), in that order, as long as it returns true.
func (v View) AllChassis(after uint64, yield func(*ledger.Chassis) bool) error {
	return list(v, chassisTables, after, readChassis, yield)
}
