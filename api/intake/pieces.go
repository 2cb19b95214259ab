package intake

import "slices"

// Sizes of the pieces in which bodies arrive.
const (
	firstPiece = 8 << 10 // most bodies fit into it
	nextPiece  = 64 << 10
	// spareBytes is how much memory is kept for the next bodies, in bytes.
	spareBytes = 4 << 20
)

// spare holds pieces that no body uses. They can be used again, because only
// copies of their contents leave this package.
var spare = make(chan []byte, spareBytes/nextPiece)

// pieces are the parts of a body that have arrived.
type pieces struct{ list [][]byte }

// room returns the space for the next bytes. A small body of known length gets
// exactly its length, and one byte in which to find its end.
func (p *pieces) room(announced int64) []byte {
	last := len(p.list) - 1
	switch {
	case last >= 0 && len(p.list[last]) < cap(p.list[last]):
	case last < 0 && announced >= 0 && announced < nextPiece:
		p.list = append(p.list, make([]byte, 0, announced+1))
	case last < 0:
		p.list = append(p.list, make([]byte, 0, firstPiece))
	default:
		p.list = append(p.list, newPiece())
	}
	piece := p.list[len(p.list)-1]
	return piece[len(piece):cap(piece)]
}

func newPiece() []byte {
	select {
	case piece := <-spare:
		return piece[:0]
	default:
		return make([]byte, 0, nextPiece)
	}
}

// fill notes how many bytes were written into the room.
func (p *pieces) fill(n int) {
	last := len(p.list) - 1
	p.list[last] = p.list[last][:len(p.list[last])+n]
}

// joined returns everything that has arrived, in one slice.
func (p *pieces) joined() []byte {
	if len(p.list) == 1 {
		return p.list[0]
	}
	return slices.Concat(p.list...)
}

// free releases the pieces for other bodies. What joined returned stays valid.
func (p *pieces) free() {
	for _, piece := range p.list[min(1, len(p.list)):] {
		select {
		case spare <- piece:
		default:
		}
	}
}
