package ledger

import (
	"math/big"
	"math/bits"
)

// Integral is an amount times a time in nanoseconds, or a sum of such products. It is exact:
// a product takes 128 bits, and the others are room for the sum of any number of them.
type Integral struct {
	high     int64
	mid, low uint64
}

// Product returns an amount times a time.
func Product(amount, nanoseconds int64) Integral {
	high, low := bits.Mul64(uint64(amount), uint64(nanoseconds))
	if amount < 0 {
		high -= uint64(nanoseconds)
	}
	if nanoseconds < 0 {
		high -= uint64(amount)
	}
	return Integral{int64(high) >> 63, high, low}
}

// Plus returns the sum of two integrals.
func (n Integral) Plus(other Integral) Integral {
	low, carry := bits.Add64(n.low, other.low, 0)
	mid, carry := bits.Add64(n.mid, other.mid, carry)
	return Integral{n.high + other.high + int64(carry), mid, low}
}

// Minus returns the difference of two integrals.
func (n Integral) Minus(other Integral) Integral {
	low, borrow := bits.Sub64(n.low, other.low, 0)
	mid, borrow := bits.Sub64(n.mid, other.mid, borrow)
	return Integral{n.high - other.high - int64(borrow), mid, low}
}

// Big returns the integral as a number of any size.
func (n Integral) Big() *big.Int {
	sum := big.NewInt(n.high)
	for _, word := range [...]uint64{n.mid, n.low} {
		sum.Lsh(sum, 64).Add(sum, new(big.Int).SetUint64(word))
	}
	return sum
}

// String returns the integral in decimal digits.
func (n Integral) String() string { return n.Big().String() }

// AppendTo writes the integral as a varint whose lowest bit is the sign.
func (n Integral) AppendTo(b []byte) []byte {
	sign := uint64(n.high >> 63)
	high := (uint64(n.high)<<1 | n.mid>>63) ^ sign
	mid := (n.mid<<1 | n.low>>63) ^ sign
	low := n.low<<1 ^ sign
	for high|mid > 0 || low > 127 {
		b = append(b, byte(low)|128)
		low, mid, high = low>>7|mid<<57, mid>>7|high<<57, high>>7
	}
	return append(b, byte(low))
}

// integralBytes is the length of the longest varint of an integral.
const integralBytes = (3*64 + 6) / 7

// ReadIntegral reads an integral that AppendTo wrote, and returns how many bytes it took;
// 0: there is none.
func ReadIntegral(b []byte) (n Integral, size int) {
	var high uint64
	for size < len(b) && size < integralBytes {
		digit, shift := uint64(b[size]&127), uint(7*size)
		n.low |= digit << shift
		switch { // a shift by 64 or more is 0
		case shift >= 128:
			high |= digit << (shift - 128)
		case shift >= 64:
			n.mid |= digit << (shift - 64)
			high |= digit >> (128 - shift)
		default:
			n.mid |= digit >> (64 - shift)
		}
		if size++; b[size-1] < 128 {
			sign := -(n.low & 1)
			n.low = (n.low>>1 | n.mid<<63) ^ sign
			n.mid = (n.mid>>1 | high<<63) ^ sign
			n.high = int64(high>>1 ^ sign)
			return n, size
		}
	}
	return Integral{}, 0
}
