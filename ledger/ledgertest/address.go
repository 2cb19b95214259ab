package ledgertest

import (
	"fmt"
	"math/rand/v2"
	"net"
	"sync/atomic"
	"testing"
)

// Ports outside the ephemeral range. A port inside may be a connection's, of any program,
// when a test is to listen at it.
const firstPort, lastPort = 10240, 32767

var nextPort atomic.Uint32

func init() { nextPort.Store(rand.Uint32()) } // test processes run side by side

// FreeAddress returns a free address of this machine, and never the same one again.
func FreeAddress(t testing.TB) string {
	t.Helper()
	for range lastPort - firstPort {
		port := firstPort + nextPort.Add(1)%(lastPort-firstPort+1)
		address := fmt.Sprintf("127.0.0.1:%d", port)
		l, err := net.Listen("tcp", address)
		if err != nil {
			continue // taken
		}
		OK(t, l.Close())
		return address
	}
	t.Fatal("no port is free")
	return ""
}
