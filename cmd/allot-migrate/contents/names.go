package contents

// IDs gives names ids, which count from 1 in each table, in the order in which names are first met.
type IDs struct{ tables map[Table]*idsOf }

type idsOf struct {
	ids   map[string]int64
	names []string
}

func (n *IDs) of(table Table) *idsOf {
	if n.tables == nil {
		n.tables = make(map[Table]*idsOf)
	}
	if n.tables[table] == nil {
		n.tables[table] = &idsOf{ids: make(map[string]int64)}
	}
	return n.tables[table]
}

// ID returns the id of a name, and whether the name is met for the first time.
func (n *IDs) ID(table Table, name string) (id int64, first bool) {
	t := n.of(table)
	id, known := t.ids[name]
	if !known {
		t.names = append(t.names, name)
		id = int64(len(t.names))
		t.ids[name] = id
	}
	return id, !known
}

// Named is ID for a table whose rows are names. A new one is added to them.
func (n *IDs) Named(table Table, rows *[]NameRow, name string) int64 {
	id, first := n.ID(table, name)
	if first {
		*rows = append(*rows, NameRow{ID: id, Name: name})
	}
	return id
}

// Name returns the name of an id.
func (n *IDs) Name(table Table, id int64) (string, bool) {
	names := n.of(table).names
	if id < 1 || id > int64(len(names)) {
		return "", false
	}
	return names[id-1], true
}
