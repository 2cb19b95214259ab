// Program replacing replaces a file again and again, and prints what it has written when that is to last.
// With the word "append" it appends to the file instead, and ends if that cannot be synced.
package main

import (
	"bytes"
	"errors"
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

// appendOnce writes again what is there, if it is to, and appends 10,000 bytes.
func appendOnce(again bool) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	if again {
		if err := durable.WriteAgain(path); err != nil {
			return err
		}
	}
	if _, err := f.Write(bytes.Repeat([]byte{1}, 10_000)); err != nil {
		return err
	}
	return errors.Join(f.Sync(), durable.SyncFolder("/"), f.Close())
}

func main() {
	replace := durable.Replace
	if len(os.Args) > 1 && os.Args[1] == "append" {
		if err := appendOnce(len(os.Args) > 2); err != nil {
			os.Exit(1)
		}
		return
	}
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
