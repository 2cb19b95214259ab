package ledger

// EncodeEvents encodes events without a record. Replicas send each other the
// events of dry runs in this form.
func EncodeEvents(events []Event) ([]byte, error) {
	e := newEncoder()
	e.form.events(&events)
	return e.buf.Bytes(), e.err
}

// DecodeEvents reads what EncodeEvents wrote.
func DecodeEvents(data []byte) (events []Event, err error) {
	d := newDecoder(data)
	d.form.events(&events)
	return events, d.end()
}
