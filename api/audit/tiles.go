package audit

import (
	"context"
	"errors"
	"strings"

	"github.com/allot-project/allot/api/rest"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/proof"
	"github.com/allot-project/allot/projector"
)

// tilesPrefix is what the tiles of the log are below, as c2sp.org/tlog-tiles has it.
const tilesPrefix = "/audit/tiles/"

// octets is an answer of bytes, which never changes.
type octets []byte

// forEver lets the client alone keep an answer: others may not see it.
const forEver = "private, max-age=31536000, immutable"

// tile is GET /audit/tiles/tile/LEVEL/NUMBER and GET /audit/tiles/tile/entries/NUMBER.
func (q *Questions) tile(ctx context.Context, p *parameters) (any, error) {
	path := p.path
	t, err := proof.ParseTilePath(strings.TrimPrefix(path, tilesPrefix))
	if err != nil {
		return nil, rest.NotFound("%s is not the path of a tile: see https://c2sp.org/tlog-tiles", path)
	}
	view := q.Views.View()
	var answer octets
	if t.L < 0 {
		answer, err = entries(ctx, view, q.Log, t.N*proof.Wide, int64(t.W))
	} else {
		answer, err = view.Tile(ctx, q.Log, t)
	}
	if errors.Is(err, projector.ErrNotYet) {
		return nil, rest.NotFound("the log is not long enough yet for %s", path)
	}
	return answer, err
}

// entries are the leaves of records, each after its length.
func entries(
	ctx context.Context, view projector.View, log ledger.Log, first, count int64,
) (bundle octets, err error) {
	err = view.EachLeaf(ctx, log, first, count, func(data []byte) error {
		if len(data) > proof.MaxEntryBytes {
			at, _, err := ledger.DecodeLeafData(data)
			if err != nil {
				return err
			}
			return rest.NotFound("record %s has %d bytes, and an entry of a bundle at most %d, so this bundle is not served: "+
				"ask /audit/records?from=N, or /audit/proof/record?record=%s for this one", at, len(data), proof.MaxEntryBytes, at)
		}
		bundle = proof.AppendEntry(bundle, data)
		return nil
	})
	return bundle, err
}
