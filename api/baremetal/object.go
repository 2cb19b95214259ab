package baremetal

import (
	"slices"
	"time"

	"github.com/allot-project/allot/api/rest"
	"github.com/allot-project/allot/ledger"
)

// object is a JSON object whose members are in Ironic's order.
type object []member

type member struct {
	key   string
	value any
}

// AppendJSON implements rest.Appender.
func (o object) AppendJSON(b []byte) ([]byte, error) {
	return rest.AppendObject(b, len(o), func(i int) (string, any) { return o[i].key, o[i].value })
}

// MarshalJSON implements json.Marshaler.
func (o object) MarshalJSON() ([]byte, error) { return o.AppendJSON(nil) }

// only keeps the members that were asked for; nil keeps all. Links always stay.
func (o object) only(fields []string) object {
	if fields == nil {
		return o
	}
	return slices.DeleteFunc(o, func(m member) bool { return m.key != "links" && !slices.Contains(fields, m.key) })
}

func (o object) without(keys ...string) object {
	return slices.DeleteFunc(o, func(m member) bool { return slices.Contains(keys, m.key) })
}

const timeLayout = "2006-01-02T15:04:05.000000+00:00"

// timeText returns a time in Unix nanoseconds as text; null for 0.
func timeText(at int64) *string {
	if at == 0 {
		return nil
	}
	return new(time.Unix(0, at).UTC().Format(timeLayout))
}

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

func (r *request) links(path string) []link {
	return []link{{Href: r.base + "/v1" + path, Rel: "self"}, {Href: r.base + path, Rel: "bookmark"}}
}
