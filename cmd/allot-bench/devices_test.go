package main

import (
	"testing"
	"time"
)

// TestBenchDevices runs the whole measurement in small.
func TestBenchDevices(t *testing.T) {
	t.Parallel()
	c := &benchDevicesCommand{
		serverFlags: ownServer(), Hosts: 1300, Each: 10 * time.Millisecond, Sizes: []int{100, 2000}, Providers: 300,
		Claims: 300, Dir: t.TempDir(),
	}
	if err := c.Run(t.Context()); err != nil {
		t.Error(err)
	}
}
