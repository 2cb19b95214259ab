package demand

import (
	"encoding/json"
	"strconv"

	"github.com/allot-project/allot/ledger"
)

// JSON is a text that is written member by member, byte for byte as encoding/json would.
// What cannot be written shows at its end.
type JSON struct {
	text []byte
	err  error
}

// JSONAfter begins a text behind another one.
func JSONAfter(b []byte) JSON { return JSON{text: b} }

// End returns the text.
func (j *JSON) End() ([]byte, error) {
	if j.err != nil {
		return nil, j.err
	}
	return j.text, nil
}

// Object writes an object with the members that a function writes.
func (j *JSON) Object(members func()) {
	j.text = append(j.text, '{')
	members()
	j.text = append(j.text, '}')
}

// Name begins a member of an object. Its value is what is written next.
func (j *JSON) Name(name string) *JSON {
	if j.text[len(j.text)-1] != '{' {
		j.text = append(j.text, ',')
	}
	j.text = append(append(append(j.text, '"'), name...), `":`...)
	return j
}

// Each writes a list of n elements, or null for one that is absent.
func (j *JSON) Each(n int, absent bool, element func(i int)) {
	if absent {
		j.text = append(j.text, `null`...)
		return
	}
	j.text = append(j.text, '[')
	for i := range n {
		if i > 0 {
			j.text = append(j.text, ',')
		}
		element(i)
	}
	j.text = append(j.text, ']')
}

// Text writes a string. What is not plain ASCII is left to encoding/json.
func (j *JSON) Text(s string) {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			j.any(s)
			return
		}
	}
	j.text = append(append(append(j.text, '"'), s...), '"')
}

// ID writes a uuid.
func (j *JSON) ID(id ledger.UUID) { j.text = id.AppendQuoted(j.text) }

// Int writes a number.
func (j *JSON) Int(n int64) { j.text = strconv.AppendInt(j.text, n, 10) }

// UintOrNull writes a number, or null where there is none.
func (j *JSON) UintOrNull(n *uint64) {
	if n == nil {
		j.text = append(j.text, `null`...)
		return
	}
	j.text = strconv.AppendUint(j.text, *n, 10)
}

// Flag writes a member that is only there if it is true.
func (j *JSON) Flag(name string, yes bool) {
	if yes {
		j.Name(name)
		j.text = append(j.text, `true`...)
	}
}

// some leaves a member that has n elements to encoding/json. Without elements it is not there.
func (j *JSON) some(name string, n int, value any) {
	if n > 0 {
		j.Name(name).any(value)
	}
}

func (j *JSON) any(value any) {
	text, err := json.Marshal(value)
	if err != nil {
		j.err = err
	}
	j.text = append(j.text, text...)
}
