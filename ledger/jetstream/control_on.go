//go:build allot_control

package jetstream

import "os"

var unfenced = os.Getenv("ALLOT_CONTROL") == "fencing"

// withheld: appends are not sent while there is a file.
func withheld() bool {
	_, err := os.Stat(os.Getenv("ALLOT_CONTROL_WITHHOLD"))
	return err == nil
}
