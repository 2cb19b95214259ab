//go:build allot_control

package leading

import "os"

var leaseIgnored = os.Getenv("ALLOT_CONTROL") == "lease"
