package baremetal

import (
	"fmt"
	"strings"
)

// Paths are all paths below /v1 that the package serves, with their parameters in
// braces. A handler at any other path fails, so that tests over all paths miss
// none.
var Paths = []string{
	"/allocations", "/allocations/{allocation}",
	"/nodes", "/nodes/detail", "/nodes/{node}", "/nodes/{node}/allocation",
	"/nodes/{node}/traits", "/nodes/{node}/traits/{trait}", "/nodes/{node}/maintenance",
	"/chassis", "/chassis/detail", "/chassis/{chassis}", "/chassis/{chassis}/nodes", "/chassis/{chassis}/nodes/detail",
	"/nodes/{node}/states", "/nodes/{node}/states/provision", "/nodes/{node}/states/power", "/shards",
}

// listed returns which of Paths a path is, and fails if it is none of them.
func listed(path []string) (string, error) {
	for i, pattern := range patterns {
		if matches(pattern, path) {
			return Paths[i], nil
		}
	}
	return "", fmt.Errorf("baremetal: /%s is not among Paths", strings.Join(path, "/"))
}

// patterns are the segments of Paths.
var patterns = func() (list [][]string) {
	for _, path := range Paths {
		list = append(list, strings.Split(path, "/")[1:])
	}
	return list
}()

func matches(pattern, path []string) bool {
	if len(pattern) != len(path) {
		return false
	}
	for i := range pattern {
		if !strings.HasPrefix(pattern[i], "{") && pattern[i] != path[i] {
			return false
		}
	}
	return true
}
