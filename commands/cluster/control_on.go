//go:build allot_control

package cluster

import (
	"os"
	"strings"
	"syscall"
	"time"
)

var leaseIgnored = os.Getenv("ALLOT_CONTROL") == "lease"

// control does, after a step, what the file says that ALLOT_CONTROL_STEPS names, once
// and in one process: it ends it as a crash does, has it stand still, or waits.
func control(step string) {
	path := os.Getenv("ALLOT_CONTROL_STEPS")
	text, err := os.ReadFile(path)
	do, at, found := strings.Cut(string(text), " ")
	if path == "" || err != nil || !found || at != step || os.Remove(path) != nil {
		return
	}
	switch do {
	case "end":
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {} // it takes a moment
	case "stop":
		_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
		time.Sleep(100 * time.Millisecond) // it takes a moment, too
	case "wait":
		time.Sleep(3 * time.Second)
	}
}
