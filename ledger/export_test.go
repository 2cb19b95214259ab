package ledger

import (
	"fmt"
	"maps"
	"slices"
)

// StateVersion is the version of the State's stored form.
const StateVersion = stateVersion

// EventCodes are all codes of events that can be read, as NUMBER.VERSION=NAME.
func EventCodes() (lines []string) {
	for _, code := range slices.Sorted(maps.Keys(eventDecoders)) {
		lines = append(lines, fmt.Sprintf("%d.%d=%s", code>>8, code&0xff, eventKinds[uint64(code>>8)].name))
	}
	return lines
}
