package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// The default reserve, without --disk-reserve.
const (
	defaultReserve = 256 << 20
	reserveShare   = 50 // at most this fraction of the disk: one part in 50
)

// diskReserve is how much of the disk must stay free.
type diskReserve struct {
	bytes int64
	given bool
}

// UnmarshalText reads bytes, or a number with KiB, MiB, GiB or TiB.
func (r *diskReserve) UnmarshalText(text []byte) error {
	if string(text) == "auto" {
		*r = diskReserve{}
		return nil
	}
	number, unit := string(text), int64(1)
	for i, suffix := range []string{"KiB", "MiB", "GiB", "TiB"} {
		if rest, ok := strings.CutSuffix(number, suffix); ok {
			number, unit = rest, 1<<(10*(i+1))
			break
		}
	}
	n, err := strconv.ParseInt(strings.TrimSpace(number), 10, 64)
	if err != nil || n < 0 || n > math.MaxInt64/unit {
		return fmt.Errorf("%q is neither a number of bytes, such as 256MiB, nor auto", text)
	}
	*r = diskReserve{n * unit, true}
	return nil
}

// of returns the reserve on a disk of this size.
func (r diskReserve) of(size int64) int64 {
	if r.given {
		return r.bytes
	}
	return min(defaultReserve, size/reserveShare)
}
