package ledger

import (
	"cmp"
	"strings"
)

// coder visits the fields of a stored form in order, and either writes them or
// fills them in. So one list of fields is both encoder and decoder, and the two
// cannot differ. Each value has a method that returns the coder, for the next
// value.
type coder struct {
	e     *encoder // nil: reading
	d     *decoder // nil: writing
	event string   // the event's name, for errors

	recent recent
}

// fields begins a form of n values.
func (c *coder) fields(what string, n int) *coder {
	if c.e != nil {
		c.e.array(n)
	} else {
		c.d.exactly(n, what)
	}
	return c
}

func (c *coder) eventFields(n int) *coder { return c.fields(c.event, n) }

// visit writes a value, or fills it in.
func visit[T any](c *coder, v *T, write func(*encoder, T), read func(*decoder) T) *coder {
	if c.e != nil {
		write(c.e, *v)
	} else {
		*v = read(c.d)
	}
	return c
}

func (c *coder) uuid(v *UUID) *coder     { return visit(c, v, (*encoder).uuid, (*decoder).uuid) }
func (c *coder) digest(v *Digest) *coder { return visit(c, v, (*encoder).digest, (*decoder).digest) }
func (c *coder) text(v *string) *coder   { return visit(c, v, (*encoder).text, (*decoder).text) }
func (c *coder) int(v *int64) *coder     { return visit(c, v, (*encoder).int, (*decoder).int) }
func (c *coder) uint(v *uint64) *coder   { return visit(c, v, (*encoder).uint, (*decoder).uint) }
func (c *coder) class(v *ClassID) *coder { return visit(c, v, (*encoder).class, (*decoder).class) }
func (c *coder) float(v *float64) *coder { return visit(c, v, (*encoder).float, (*decoder).float) }
func (c *coder) bool(v *bool) *coder     { return visit(c, v, (*encoder).bool, (*decoder).bool) }
func (c *coder) index(v *int) *coder     { return visit(c, v, (*encoder).index, (*decoder).index) }

func (c *coder) document(v *Document) *coder {
	return visit(c, v, (*encoder).document, (*decoder).document)
}

func (c *coder) strings(v *[]string) *coder {
	list(c, v, func(v *string, c *coder) { c.text(v) })
	return c
}

// names visits a list that mostly is empty, and is nil then.
func (c *coder) names(v *[]string) *coder {
	if c.strings(v); len(*v) == 0 {
		*v = nil
	}
	return c
}

func (c *coder) uuids(v *[]UUID) *coder {
	list(c, v, func(v *UUID, c *coder) { c.uuid(v) })
	return c
}

// speltUUIDs visits ids, of which those that are spelt in a way of their own are stored as
// texts.
func (c *coder) speltUUIDs(ids *[]UUID, spelt *[]string) *coder {
	i, own := 0, map[int]string(nil)
	list(c, ids, func(id *UUID, c *coder) {
		switch {
		case c.e != nil && *spelt != nil && (*spelt)[i] != id.String():
			c.text(&(*spelt)[i])
		case c.e != nil || c.d.uuidNext():
			c.uuid(id)
		case own == nil:
			own = map[int]string{i: c.speltUUID(id)}
		default:
			own[i] = c.speltUUID(id)
		}
		i++
	})
	if own != nil {
		*spelt = make([]string, len(*ids))
		for i, id := range *ids {
			(*spelt)[i] = cmp.Or(own[i], id.String())
		}
	}
	return c
}

// speltUUID reads an id that is spelt in a way of its own.
func (c *coder) speltUUID(id *UUID) (text string) {
	c.text(&text)
	*id, _ = ParseUUID(strings.ReplaceAll(text, "-", ""))
	if !Spells(text, *id) || text == id.String() {
		c.d.fail("%q does not spell a uuid in a way of its own", text)
	}
	return text
}

func (c *coder) fixed(v []byte, what string) *coder {
	if c.e != nil {
		c.e.bytes(v)
	} else {
		c.d.fixed(v, what)
	}
	return c
}

// version visits the version number of a form that has one version only.
func (c *coder) version(what string, is uint64) *coder {
	version := is
	if c.uint(&version); version != is {
		c.unknownVersion(what, version)
	}
	return c
}

func (c *coder) unknownVersion(what string, version uint64) {
	c.d.fail("%s version %d is unknown: it was written by a newer Allot", what, version)
}

// events visits a record's events, of which there is at least one.
func (c *coder) events(v *[]Event) *coder {
	if c.e != nil {
		c.e.array(len(*v))
		for _, event := range *v {
			encodeEvent(c.e, event)
		}
		return c
	}
	n := c.d.array()
	if n == 0 {
		c.d.fail("record without events")
	}
	for i := 0; i < n && c.d.err == nil; i++ {
		*v = append(*v, decodeEvent(c.d))
	}
	return c
}

// optional visits a value that may be absent.
func optional[T any](c *coder, v **T, form func(*T, *coder)) {
	switch {
	case c.e == nil && c.d.null():
		*v = nil
	case c.e == nil:
		*v = new(T)
		form(*v, c)
	case *v == nil:
		c.e.null()
	default:
		form(*v, c)
	}
}

// maxPrepared is the largest number of elements for which memory is reserved
// before any is read.
const maxPrepared = 1024

// list visits a list whose elements have a form of their own.
func list[T any](c *coder, items *[]T, form func(*T, *coder)) { flat(c, "list", 1, items, form) }

// flat visits a list that is stored as the fields of its elements in a row.
func flat[T any](c *coder, what string, fields int, items *[]T, form func(*T, *coder)) {
	if c.e != nil {
		c.e.array(fields * len(*items))
		for i := range *items {
			form(&(*items)[i], c)
		}
		return
	}
	n := c.d.array()
	if n%fields != 0 {
		c.d.fail("%s of %d fields each has %d fields", what, fields, n)
	}
	read := make([]T, 0, min(n/fields, maxPrepared))
	for i := 0; i < n/fields && c.d.err == nil; i++ {
		var item T
		read = append(read, item)
		form(&read[i], c)
	}
	*items = read
}
