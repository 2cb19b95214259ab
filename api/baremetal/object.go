package baremetal

import (
	"bytes"
	"encoding/json"
	"slices"
	"time"

	"github.com/allot-project/allot/ledger"
)

// object is a JSON object whose members stand in Ironic's order.
type object []member

type member struct {
	key   string
	value any
}

// MarshalJSON implements json.Marshaler.
func (o object) MarshalJSON() ([]byte, error) {
	var out bytes.Buffer
	out.WriteByte('{')
	for i, m := range o {
		if i > 0 {
			out.WriteByte(',')
		}
		key, err := json.Marshal(m.key)
		if err != nil {
			return nil, err
		}
		value, err := json.Marshal(m.value)
		if err != nil {
			return nil, err
		}
		out.Write(key)
		out.WriteByte(':')
		out.Write(value)
	}
	out.WriteByte('}')
	return out.Bytes(), nil
}

// only keeps the members that were asked for; nil asks for all. Links are
// always there.
func (o object) only(fields []string) object {
	if fields == nil {
		return o
	}
	return slices.DeleteFunc(o, func(m member) bool { return m.key != "links" && !slices.Contains(fields, m.key) })
}

// without leaves members out.
func (o object) without(keys ...string) object {
	return slices.DeleteFunc(o, func(m member) bool { return slices.Contains(keys, m.key) })
}

// timeLayout is how Ironic writes times.
const timeLayout = "2006-01-02T15:04:05.000000+00:00"

// timeText is a time in Unix nanoseconds; 0: null.
func timeText(at int64) *string {
	if at == 0 {
		return nil
	}
	text := time.Unix(0, at).UTC().Format(timeLayout)
	return &text
}

// orNull is a text of which the empty one means that there is none.
func orNull(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

func uuidOrNull(id ledger.UUID) *ledger.UUID {
	if id.IsNil() {
		return nil
	}
	return &id
}

// orEmpty is a list that is never null.
func orEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

type link struct {
	Href string `json:"href"`
	Rel  string `json:"rel"`
	Type string `json:"type,omitempty"`
}

// links are those of a resource: with and without the version.
func (r *request) links(path string) []link {
	return []link{{Href: r.base + "/v1" + path, Rel: "self"}, {Href: r.base + path, Rel: "bookmark"}}
}
