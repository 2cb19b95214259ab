package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Limits of msgpack bodies.
const maxMsgpackDepth = 32

var errCutOff = errors.New("the msgpack body is cut off")

// checkMsgpack walks over a body before it is decoded: every length must fit
// into what is left, so that no length prefix makes the decoder allocate more
// than the body could hold.
func checkMsgpack(data []byte) error {
	rest, err := skipValue(data, 0)
	if err == nil && len(rest) > 0 {
		err = errors.New("there is something after the command")
	}
	return err
}

// sizedFormats says, for the formats 0xc0..0xdf, how long the value or its
// length field is.
var sizedFormats = map[byte]struct {
	fixed  int  // bytes of the value
	length int  // bytes of the length field
	array  bool // the length counts values
	dict   bool // the length counts pairs of values
}{
	0xc0: {}, 0xc2: {}, 0xc3: {},
	0xc4: {length: 1}, 0xc5: {length: 2}, 0xc6: {length: 4},
	0xca: {fixed: 4}, 0xcb: {fixed: 8},
	0xcc: {fixed: 1}, 0xcd: {fixed: 2}, 0xce: {fixed: 4}, 0xcf: {fixed: 8},
	0xd0: {fixed: 1}, 0xd1: {fixed: 2}, 0xd2: {fixed: 4}, 0xd3: {fixed: 8},
	0xd9: {length: 1}, 0xda: {length: 2}, 0xdb: {length: 4},
	0xdc: {length: 2, array: true}, 0xdd: {length: 4, array: true},
	0xde: {length: 2, dict: true}, 0xdf: {length: 4, dict: true},
}

func skipValue(data []byte, depth int) ([]byte, error) {
	if depth > maxMsgpackDepth {
		return nil, fmt.Errorf("the msgpack body is nested deeper than %d", maxMsgpackDepth)
	}
	if len(data) == 0 {
		return nil, errCutOff
	}
	format, data := data[0], data[1:]
	switch {
	case format <= 0x7f || format >= 0xe0: // small integers
		return data, nil
	case format <= 0x8f:
		return skipValues(data, 2*uint64(format&0x0f), depth)
	case format <= 0x9f:
		return skipValues(data, uint64(format&0x0f), depth)
	case format <= 0xbf:
		return skipBytes(data, uint64(format&0x1f))
	}
	shape, known := sizedFormats[format]
	if !known {
		return nil, fmt.Errorf("the msgpack format 0x%x is not used here", format)
	}
	if shape.length == 0 {
		return skipBytes(data, uint64(shape.fixed))
	}
	if len(data) < shape.length {
		return nil, errCutOff
	}
	var field [8]byte
	copy(field[8-shape.length:], data[:shape.length])
	n, data := binary.BigEndian.Uint64(field[:]), data[shape.length:]
	switch {
	case shape.array:
		return skipValues(data, n, depth)
	case shape.dict:
		return skipValues(data, 2*n, depth)
	}
	return skipBytes(data, n)
}

func skipBytes(data []byte, n uint64) ([]byte, error) {
	if n > uint64(len(data)) {
		return nil, errCutOff
	}
	return data[n:], nil
}

func skipValues(data []byte, n uint64, depth int) ([]byte, error) {
	if n > uint64(len(data)) {
		return nil, errCutOff
	}
	var err error
	for ; n > 0 && err == nil; n-- {
		data, err = skipValue(data, depth+1)
	}
	return data, err
}
