package commands

import (
	"math"
	"strings"
	"unicode/utf8"

	"github.com/allot-project/allot/commands/demand"
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

func checkProviderName(name string) *demand.Rejection {
	if n := utf8.RuneCountInString(name); n > ledger.MaxNameRunes || !utf8.ValidString(name) {
		return demand.Invalid("name", "takes at most %d characters of valid UTF-8, not %d", ledger.MaxNameRunes, n)
	}
	return nil
}

func checkUUID(field string, id ledger.UUID) *demand.Rejection {
	if id.IsNil() {
		return demand.Invalid(field, "is required")
	}
	return nil
}

func checkOwner(field, value string) *demand.Rejection {
	if n := utf8.RuneCountInString(value); n < 1 || n > ledger.MaxOwnerRunes || !utf8.ValidString(value) {
		return demand.Invalid(field, "takes 1 to %d characters of valid UTF-8, not %d", ledger.MaxOwnerRunes, n)
	}
	return nil
}

func checkRange(field string, value, from int64) *demand.Rejection {
	if value < from || value > ledger.MaxAmount {
		return demand.Invalid(field, "%d is not within %d..%d", value, from, int64(ledger.MaxAmount))
	}
	return nil
}

func checkRatio(ratio float64) *demand.Rejection {
	if math.IsNaN(ratio) || math.Abs(ratio) > ledger.MaxAllocRatio {
		return demand.Invalid("allocation_ratio", "%v is not within +-%v", ratio, ledger.MaxAllocRatio)
	}
	return nil
}

// checkGiven wants a text to be there.
func checkGiven(field, value string) *demand.Rejection {
	if value == "" {
		return demand.Invalid(field, "is required")
	}
	return nil
}

// providerAt finds a provider that is at the generation that a client gave, if it gave one.
func providerAt(s *ledger.State, id ledger.UUID, given *int64) (*ledger.Provider, *demand.Rejection) {
	p, ok := s.Provider(id)
	if !ok {
		return nil, providerNotFound(id)
	}
	return p, checkProviderGeneration(p, given)
}

func providerNotFound(id ledger.UUID) *demand.Rejection {
	return demand.Refuse(demand.CodeProviderNotFound, demand.Facts{Provider: &id}, "no provider %s", id)
}

// checkProviderGeneration compares a provider's generation with the one that a
// client gave. It skips the check if that is nil, because some microversions and
// routes send none.
func checkProviderGeneration(p *ledger.Provider, given *int64) *demand.Rejection {
	if given == nil || *given == p.Generation {
		return nil
	}
	id, expected := p.UUID, p.Generation
	return demand.Refuse(demand.CodeProviderConflict, demand.Facts{Provider: &id, Expected: &expected, Got: given},
		"provider %s is at generation %d, not %d", id, expected, *given)
}
