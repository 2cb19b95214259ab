package projector

import "github.com/allot-project/allot/ledger"

// command finds the record of a command id.
func (m *models) command(id ledger.UUID) (result ledger.CommandResult, found bool, err error) {
	if m.commands.excludes(id) {
		return result, false, nil
	}
	found, err = m.Get(idKey(tableCommand, id), func(value []byte) (err error) {
		result, err = readCommand(value)
		return err
	})
	return result, found, err
}

// readCommand reads what is stored of a command.
func readCommand(value []byte) (result ledger.CommandResult, err error) {
	f := fields{data: value}
	result.Address = ledger.Address{Sequence: f.uint(), Index: int(f.uint())}
	copy(result.Fingerprint[:], f.take(uint64(len(result.Fingerprint))))
	return result, f.end("command")
}

// Command finds the record of a command id.
func (p *Projector) Command(id ledger.UUID) (ledger.CommandResult, bool, error) {
	return p.models.Load().command(id)
}

// Record finds the record at an address.
func (p *Projector) Record(at ledger.Address) (*ledger.Record, bool, error) {
	return p.View().Record(at)
}
