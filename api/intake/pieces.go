package intake

import "slices"

// Sizes of the pieces in which bodies arrive.
const (
	firstPiece = 8 << 10 // most bodies have room in it
	nextPiece  = 64 << 10
	// spareBytes is how much room is kept for the next bodies.
	spareBytes = 4 << 20
)

// spare is room for pieces that no body uses. Nothing but a copy of what is in
// them leaves this package, so that they can be used again.
var spare = make(chan []byte, spareBytes/nextPiece)

// pieces are what has arrived of a body.
type pieces struct{ list [][]byte }

// room is where the next bytes go. A small body of known length gets exactly
// what it takes, and a byte in which to find its end.
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

// fill says that so many bytes have been written where there was room.
func (p *pieces) fill(n int) {
	last := len(p.list) - 1
	p.list[last] = p.list[last][:len(p.list[last])+n]
}

// joined is all that has arrived.
func (p *pieces) joined() []byte {
	if len(p.list) == 1 {
		return p.list[0]
	}
	return slices.Concat(p.list...)
}

// free lets others use the room. What was joined stays.
func (p *pieces) free() {
	for _, piece := range p.list[min(1, len(p.list)):] {
		select {
		case spare <- piece:
		default:
		}
	}
}
