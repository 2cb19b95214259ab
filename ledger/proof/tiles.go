package proof

import (
	"encoding/binary"
	"fmt"
	"strings"

	"golang.org/x/mod/sumdb/tlog"
)

// entriesLevel is what tlog calls the level of a tile of records.
const entriesLevel = -1

// TilePath returns the path of a tile, as c2sp.org/tlog-tiles has it.
func TilePath(t tlog.Tile) string {
	path := strings.TrimPrefix(t.Path(), "tile/8/")
	if t.L == entriesLevel {
		path = "entries/" + strings.TrimPrefix(path, "data/")
	}
	return "tile/" + path
}

// ParseTilePath is the inverse of TilePath.
func ParseTilePath(path string) (tlog.Tile, error) {
	below := strings.TrimPrefix(path, "tile/")
	if rest, is := strings.CutPrefix(below, "entries/"); is {
		below = "data/" + rest
	}
	t, err := tlog.ParseTilePath("tile/8/" + below)
	if err == nil && TilePath(t) != path {
		err = fmt.Errorf("proof: %q is not the path of a tile", path)
	}
	return t, err
}

// MaxEntryBytes is what an entry of a tile of records takes at most.
const MaxEntryBytes = 1<<16 - 1

// AppendEntry adds the data of a leaf to a tile of records.
func AppendEntry(tile, data []byte) []byte {
	return append(binary.BigEndian.AppendUint16(tile, uint16(len(data))), data...)
}
