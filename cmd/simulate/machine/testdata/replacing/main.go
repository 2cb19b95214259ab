// Program replacing replaces a file again and again, and prints what it has written when that is to last.
package main

import (
	"bytes"
	"fmt"
	"os"

	"github.com/allot-project/allot/ledger/durable"
)

const path = "/file"

// unsynced is what durable.Replace does, without its syncs.
func unsynced(path string, contents []byte) error {
	if err := os.WriteFile(path+".tmp", contents, 0o600); err != nil {
		return err
	}
	return os.Rename(path+".tmp", path)
}

func main() {
	replace := durable.Replace
	if len(os.Args) > 1 {
		replace = unsynced
	}
	for n := byte(1); n < 200; n++ {
		if err := replace(path, bytes.Repeat([]byte{n}, 10_000)); err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(n)
	}
}
