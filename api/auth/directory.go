package auth

import (
	"context"
	"errors"
	"sync"
	"time"
)

// Directory knows what Keystone's projects and users are called, as of some minutes ago. It
// never waits for Keystone: what it has not read has no name.
type Directory struct {
	Keystone *Keystone

	mu    sync.Mutex
	names map[string]map[string]string   // by kind and id; guarded by mu, as all below
	ids   map[string]map[string][]string // by kind and name
	next  time.Time                      // when they are read again
}

// namesFor is how long names are believed, and how long no others are asked for.
const namesFor = 10 * time.Minute

// Called implements present.Directory.
func (d *Directory) Called(of, id string) string {
	d.freshen()
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.names[of][id]
}

// Named implements present.Directory.
func (d *Directory) Named(of, name string) []string {
	d.freshen()
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.ids[of][name]
}

func (d *Directory) freshen() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if now := time.Now(); now.After(d.next) {
		d.next = now.Add(namesFor)
		go func() {
			ctx, cancel := context.WithTimeout(context.Background(), 6*keystoneTimeout)
			defer cancel()
			_ = d.Read(ctx) // names are a help: ids do without them
		}()
	}
}

// Read reads the names. Of a list that is cut short, and after an error, those are known that were read.
func (d *Directory) Read(ctx context.Context) (failed error) {
	for path, of := range map[string]string{"projects": "project", "users": "user"} {
		entries, err := list[struct{ ID, Name string }](ctx, d.Keystone, path, nil)
		failed = errors.Join(failed, err)
		names, ids := make(map[string]string), make(map[string][]string)
		for _, one := range entries {
			names[one.ID], ids[one.Name] = one.Name, append(ids[one.Name], one.ID)
		}
		if len(names) > 0 {
			d.put(of, names, ids)
		}
	}
	return failed
}

func (d *Directory) put(of string, names map[string]string, ids map[string][]string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.names == nil {
		d.names, d.ids = make(map[string]map[string]string), make(map[string]map[string][]string)
	}
	d.names[of], d.ids[of] = names, ids
}
