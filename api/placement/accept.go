package placement

import (
	"mime"
	"strconv"
	"strings"
)

const (
	jsonType = "application/json"
	htmlType = "text/html"
)

// quality returns how much an Accept header wants a media type, from 0 (not at
// all) to 1. The most specific range decides.
func quality(accept, offer string) float64 {
	if strings.TrimSpace(accept) == "" {
		return 1
	}
	family, _, _ := strings.Cut(offer, "/")
	rank := map[string]int{"*/*": 0, family + "/*": 1, offer: 2}
	best, wanted := -1, 0.0
	for _, part := range strings.Split(accept, ",") {
		mediaType, params, err := mime.ParseMediaType(part)
		if err != nil {
			continue
		}
		specific, matches := rank[mediaType]
		if !matches || specific < best {
			continue
		}
		q := 1.0
		if given, ok := params["q"]; ok {
			if q, err = strconv.ParseFloat(given, 64); err != nil {
				continue
			}
		}
		best, wanted = specific, q
	}
	return wanted
}

func acceptsJSON(accept string) bool { return quality(accept, jsonType) > 0 }

// prefersHTML chooses the format of errors as webob does: HTML if the client asks
// for it at least as much as for JSON.
func prefersHTML(accept string) bool {
	return accept != "" && quality(accept, htmlType) > 0 && quality(accept, htmlType) >= quality(accept, jsonType)
}
