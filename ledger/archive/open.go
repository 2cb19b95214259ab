package archive

import (
	"fmt"

	"github.com/allot-project/allot/ledger/archive/bucket"
)

// OpenURL returns the archive at a URL, without speaking to it.
func OpenURL(url string) (*Archive, error) {
	store, err := bucket.Open(url)
	if err != nil {
		return nil, err
	}
	return Open(store), nil
}

// OpenURLs returns the archives at some URLs, without speaking to them. Each may be named once.
func OpenURLs(urls []string) ([]*Archive, error) {
	list, seen := make([]*Archive, len(urls)), make(map[string]bool)
	for i, url := range urls {
		a, err := OpenURL(url)
		if err != nil {
			return nil, err
		}
		if seen[a.String()] {
			return nil, fmt.Errorf("the archive %s is given twice", a)
		}
		list[i], seen[a.String()] = a, true
	}
	return list, nil
}

// Stores are the stores of archives.
func Stores(list []*Archive) (stores []bucket.Store) {
	for _, a := range list {
		stores = append(stores, a.Store())
	}
	return stores
}

// Usual are the bounds of parts, apart from their age.
var Usual = Bounds{Records: 1_000_000, Bytes: 64 << 20}
