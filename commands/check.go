package commands

import (
	"math"
	"strings"
	"unicode/utf8"

	"github.com/allot-project/allot/ledger"
)

// CustomPrefix is the prefix of the names of custom traits and resource classes.
const CustomPrefix = "CUSTOM_"

// isSymbol reports whether s consists of A-Z, 0-9 and _, which is Placement's
// character class for traits, resource classes and consumer types.
func isSymbol(s string) bool {
	for _, r := range s {
		if (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '_' {
			return false
		}
	}
	return s != "" && len(s) <= ledger.MaxSymbolBytes
}

// isCustom reports whether s may name a custom trait or resource class.
func isCustom(s string) bool {
	return isSymbol(s) && strings.HasPrefix(s, CustomPrefix) && len(s) > len(CustomPrefix)
}

func checkProviderName(name string) *Rejection {
	if n := utf8.RuneCountInString(name); n > ledger.MaxNameRunes || !utf8.ValidString(name) {
		return invalid("name", "takes at most %d characters of valid UTF-8, not %d", ledger.MaxNameRunes, n)
	}
	return nil
}

func checkUUID(field string, id ledger.UUID) *Rejection {
	if id.IsNil() {
		return invalid(field, "is required")
	}
	return nil
}

func checkOwner(field, value string) *Rejection {
	if n := utf8.RuneCountInString(value); n < 1 || n > ledger.MaxOwnerRunes || !utf8.ValidString(value) {
		return invalid(field, "takes 1 to %d characters of valid UTF-8, not %d", ledger.MaxOwnerRunes, n)
	}
	return nil
}

func checkRange(field string, value, from int64) *Rejection {
	if value < from || value > ledger.MaxAmount {
		return invalid(field, "%d is not within %d..%d", value, from, int64(ledger.MaxAmount))
	}
	return nil
}

func checkRatio(ratio float64) *Rejection {
	if math.IsNaN(ratio) || math.Abs(ratio) > ledger.MaxAllocRatio {
		return invalid("allocation_ratio", "%v is not within +-%v", ratio, ledger.MaxAllocRatio)
	}
	return nil
}

// first returns the first rejection that is not nil, or nil.
func first(rejections ...*Rejection) *Rejection {
	for _, r := range rejections {
		if r != nil {
			return r
		}
	}
	return nil
}
