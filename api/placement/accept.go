package placement

import (
	"mime"
	"strconv"
	"strings"
)

const jsonType = "application/json"

// acceptsJSON reports whether an Accept header admits application/json with a
// quality above 0. The most specific range decides.
func acceptsJSON(accept string) bool {
	if strings.TrimSpace(accept) == "" {
		return true
	}
	best, accepted := -1, false
	for _, part := range strings.Split(accept, ",") {
		mediaType, params, err := mime.ParseMediaType(part)
		if err != nil {
			continue
		}
		rank := map[string]int{"*/*": 0, "application/*": 1, jsonType: 2}
		specific, matches := rank[mediaType]
		if !matches || specific < best {
			continue
		}
		quality := 1.0
		if q, ok := params["q"]; ok {
			if quality, err = strconv.ParseFloat(q, 64); err != nil {
				continue
			}
		}
		best, accepted = specific, quality > 0
	}
	return accepted
}
