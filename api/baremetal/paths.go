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
	"/nodes/{node}/states", "/nodes/{node}/states/provision", "/nodes/{node}/states/power",
}

// checkListed fails if a path is not among Paths.
func checkListed(path []string) error {
	for _, listed := range Paths {
		if matches(strings.Split(listed, "/")[1:], path) {
			return nil
		}
	}
	return fmt.Errorf("baremetal: /%s is not among Paths", strings.Join(path, "/"))
}

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
