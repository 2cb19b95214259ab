//go:build allot_control

package cluster

import "os"

var leaseIgnored = os.Getenv("ALLOT_CONTROL") == "lease"
