package commandstest

import "github.com/allot-project/allot/commands/fair"

// TakeMemory takes all that a pool gives to requests.
func TakeMemory(pool *fair.Pool) {
	for size := int64(fair.MaxTotal); size > 0; size /= 2 {
		for _, client := range []string{"a", "b", "c"} {
			for pool.Lease(client).Grow(size) == nil {
			}
		}
	}
}
