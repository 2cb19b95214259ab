// Package datafolder is a server's folder: its names, its lock, its log's files and what they have
// to agree with, and how a log is put into it.
package datafolder

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/blocks"
	"github.com/allot-project/allot/ledger/durable"
	"github.com/allot-project/allot/ledger/embedded"
	"github.com/allot-project/allot/ledger/proof"
	"github.com/allot-project/allot/ledger/system"
	"github.com/allot-project/allot/projector"
	"github.com/allot-project/allot/snapshots"
	"github.com/allot-project/allot/snapshots/copies"
)

// The names in a folder.
const (
	Lock        = "lock"
	Log         = "log"
	ReadModels  = "readmodel"
	Snapshots   = "snapshots"
	Checkpoints = "checkpoints"
	// Rejoin is a file: the log that this server of a cluster had is lost.
	Rejoin = "rejoin"
)

// Folder is one that this process has locked.
type Folder struct {
	Dir   string
	lock  *os.File
	Empty bool // the folder was empty: a ledger may begin
	// External means that the log is elsewhere: the folder holds only heads that were seen of it.
	External bool
}

// Open locks a folder, and makes it if it does not exist.
func Open(dir string) (*Folder, error) {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, fmt.Errorf("--data %s: the data folder cannot be made: %w", dir, err)
	}
	d, err := Look(dir)
	if err == nil {
		d.lock, err = lockFolder(dir)
	}
	return d, err
}

// Look is Open for who changes nothing: another process may have the folder.
func Look(dir string) (*Folder, error) {
	entries, err := os.ReadDir(dir)
	used := slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return e.Name() != Lock && e.Name() != "lost+found" })
	return &Folder{Dir: dir, Empty: !used}, err
}

// lockFolder keeps other servers and commands off a data folder.
func lockFolder(dir string) (*os.File, error) {
	lock, err := os.OpenFile(filepath.Join(dir, Lock), os.O_CREATE|os.O_RDWR, 0o640)
	if err != nil {
		return nil, err
	}
	if err := system.Lock(lock); err != nil {
		return nil, errors.Join(fmt.Errorf("another process uses the folder %s: stop it, or name another folder", dir), lock.Close())
	}
	return lock, nil
}

// Path returns where something in the folder is.
func (d *Folder) Path(name string) string { return filepath.Join(d.Dir, name) }

// Aside is the beginning of the names of folders with what was set aside; a time follows.
const Aside = "damaged"

// CopyFolder is where a copy of State and read models comes to.
func (d *Folder) CopyFolder() copies.Folder {
	models := d.Path(ReadModels)
	return copies.Folder{ReadModels: models, Models: projector.FilesIn(models), Snapshots: d.Path(Snapshots)}
}

// Files returns the log's files.
func (d *Folder) Files() blocks.Folder {
	if d.External {
		return embedded.Files(d.Dir)
	}
	return embedded.Files(d.Path(Log))
}

// Stores are the folders in this one in which NATS servers have kept the log: its own, and what replicas have set
// aside as damaged. A folder that was set aside is itself one.
func (d *Folder) Stores() (list []blocks.Folder, err error) {
	aside, err := d.SetAside()
	for _, name := range append([]string{".", Log}, aside...) {
		files := embedded.Files(d.Path(name))
		begin, failed := files.Beginning()
		err = errors.Join(err, failed)
		if _, failed := os.Stat(files.Dir()); failed == nil || begin != nil {
			list = append(list, files)
		}
	}
	return list, err
}

// SetAside are the names of what was set aside as damaged.
func (d *Folder) SetAside() (names []string, err error) {
	entries, err := os.ReadDir(d.Dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), Aside+"-") {
			names = append(names, entry.Name())
		}
	}
	return names, err
}

// Has reports whether the folder has an entry of that name.
func (d *Folder) Has(name string) (bool, error) {
	_, err := os.Lstat(d.Path(name))
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// BytesIn returns how many bytes the files of a folder have. Files may come and go meanwhile.
func BytesIn(dir string) (sum int64, err error) {
	err = filepath.WalkDir(dir, func(_ string, entry fs.DirEntry, err error) error {
		if err == nil && entry.Type().IsRegular() {
			var info fs.FileInfo
			if info, err = entry.Info(); err == nil {
				sum += info.Size()
			}
		}
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		return err
	})
	return sum, err
}

// MayRejoin lets a server of a cluster take part again whose log is lost.
func (d *Folder) MayRejoin() error { return durable.Replace(d.Path(Rejoin), nil) }

// Rejoined withdraws that, because the log is there again.
func (d *Folder) Rejoined() error {
	err := os.Remove(d.Path(Rejoin))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return errors.Join(err, durable.SyncFolder(d.Dir))
}

// newestSeen is the number of snapshots, and of signed checkpoints, that are read
// for the heads they have seen. A newer one stands for those before it.
const newestSeen = 8

// Seen returns the heads of the log that read models, snapshots and signed
// checkpoints know. It changes nothing.
func (d *Folder) Seen() ([]blocks.Seen, error) {
	models := projector.FilesIn(d.Path(ReadModels))
	at, err := projector.Inspected(models)
	if err != nil && !errors.Is(err, projector.ErrDamaged) {
		return nil, err // damaged read models know nothing, and are rebuilt
	}
	seen := []blocks.Seen{{Head: at.Head, Where: models}}
	paths, err := snapshots.Files(d.Path(Snapshots))
	if err != nil {
		return nil, err
	}
	for _, path := range paths[:min(newestSeen, len(paths))] {
		head, err := snapshots.Position(path)
		if errors.Is(err, snapshots.ErrDamaged) {
			continue // A load of snapshots skips this one, too.
		}
		if err != nil {
			return nil, err
		}
		seen = append(seen, blocks.Seen{Head: head, Where: path})
	}
	signed, err := d.Signed()
	return append(seen, signed...), err
}

// Signed returns the heads in the newest signed checkpoints. Their signatures do not
// matter here, because the right to write into this folder is the right to write the log.
func (d *Folder) Signed() ([]blocks.Seen, error) {
	kept, err := proof.ReadFolder(d.Path(Checkpoints))
	if err != nil {
		return nil, err
	}
	var seen []blocks.Seen
	for _, one := range kept[max(0, len(kept)-newestSeen):] {
		checkpoint, err := proof.Unverified(one.Signed)
		if err != nil {
			return nil, fmt.Errorf(
				"%s: %w; it is no longer evidence; nothing was changed. To recover, restore the file from a copy, or move it away",
				one.Path, err,
			)
		}
		seen = append(seen, blocks.Seen{Head: checkpoint.Head, Where: one.Path})
	}
	return seen, nil
}

// Judge reports what is wrong with the log. It changes nothing.
func (d *Folder) Judge(ctx context.Context, bounds blocks.CheckOptions) (*blocks.Verdict, error) {
	seen, err := d.Seen()
	if err != nil {
		return nil, err
	}
	verdict, err := d.Files().Judge(ctx, blocks.JudgeOptions{CheckOptions: bounds, Seen: seen})
	if err != nil {
		return nil, d.Explain(err)
	}
	if verdict.Report == nil && verdict.Begin == nil {
		return nil, d.Missing()
	}
	return verdict, nil
}

// OpenLog opens the log's files to read them, if nothing is wrong with them. It changes nothing.
func (d *Folder) OpenLog(ctx context.Context) (log *blocks.Log, last ledger.Head, err error) {
	verdict, err := d.Judge(ctx, blocks.CheckOptions{})
	if err == nil {
		log, err = d.Files().Open()
	}
	if errors.Is(err, blocks.ErrNoLog) || err == nil && verdict.Report == nil {
		err = d.Missing()
	}
	if err != nil {
		return nil, last, err
	}
	return log, verdict.Last, nil
}

// MayBegin permits an empty folder to begin a ledger.
func (d *Folder) MayBegin() error {
	if !d.Empty {
		return nil
	}
	return d.Files().MayBegin(blocks.Beginning{Ledger: ledger.UUID(uuid.New())})
}

// Missing explains that there is no log, and what to do.
func (d *Folder) Missing() error {
	if d.Empty {
		return fmt.Errorf("%s is empty, so it holds no log: name the data folder of a server", d.Dir)
	}
	return fmt.Errorf("%s holds files, but no log; nothing was changed. To recover, restore %s (or the NATS stream) from a backup "+
		"or a replica, or take the commits from an export or another server with allot repair. To begin a new ledger here instead, "+
		"run: allot init --data %s",
		d.Dir, d.Path(Log), d.Dir)
}

// Explain adds to a refusal what it means and what to do.
func (d *Folder) Explain(err error) error {
	if errors.Is(err, blocks.ErrUnfinished) {
		return fmt.Errorf("%w; nothing was changed. To recover, run the same import again, which completes it or begins anew, or remove %s",
			err, d.Dir)
	}
	var damage *blocks.DamageError
	goOn := fmt.Sprintf("restore %s from a backup, or take what is missing from other copies, damaged or not: "+
		"allot repair --data %s --archive FOLDER|FILE|URL (or --nats-url URL)", d.Path(Log), d.Dir)
	if errors.As(err, &damage) {
		goOn += fmt.Sprintf("; or give up everything after the last good commit: allot repair --data %s --cut-after %d",
			d.Dir, damage.After.Sequence)
	}
	if errors.Is(err, blocks.ErrNoPosition) {
		return fmt.Errorf(
			"%w; nothing was changed. To recover, restore the file from a backup; if nothing is missing from the log, remove it",
			err,
		)
	}
	for _, refusal := range []error{
		blocks.ErrDamaged, ledger.ErrLogBehind, ledger.ErrChain, ledger.ErrLogGap, ledger.ErrCorrupt,
	} {
		if errors.Is(err, refusal) {
			return fmt.Errorf("%w; nothing was changed. To recover, %s", err, goOn)
		}
	}
	return err
}

// MayStart finds what would stop the start of a server here, but for what is in the log.
func (d *Folder) MayStart(cluster bool) error {
	of, failed := d.ofSeveral()
	begin, unread := d.Files().Beginning()
	err := cmp.Or(failed, unread, d.OfKind(cluster), d.Explain(d.Files().Unfinished()))
	if err == nil && of == nil && begin == nil && !d.Empty && !cluster && !d.External {
		return d.Missing()
	}
	return err
}

// OfKind refuses the data of a single server for a replica, and the other way round, because JetStream takes
// over neither. In a cluster it would forget a stream that the others do not know; alone it would not know a
// stream that several servers had agreed on.
func (d *Folder) OfKind(cluster bool) error {
	if d.External {
		return nil
	}
	of, err := d.ofSeveral()
	if err != nil || of == nil || *of == cluster {
		return err
	}
	if cluster {
		return fmt.Errorf("%s is the data of a single server, but --cluster makes this server one of several; nothing was changed. "+
			"Start it without --cluster, or move the ledger: allot export --data %s FILE, and begin a cluster with that in an empty "+
			"folder: allot init --data DIR --from FILE", d.Dir, d.Dir)
	}
	return fmt.Errorf("%s is the data of one of several servers, but without --cluster this server would be alone; nothing was changed. "+
		"Start it with --cluster as before, or move the ledger: allot export --data %s FILE, and allot import FILE --data DIR into "+
		"an empty folder", d.Dir, d.Dir)
}

// agreements is where servers that agree on streams keep the agreements, in the system's account.
var agreements = filepath.Join(Log, "jetstream", "$SYS")

// Agreed reports whether this server has taken part in agreements on streams, with this disk.
func (d *Folder) Agreed() (bool, error) { return d.Has(agreements) }

// ofSeveral reports whether the log here is that of one of several servers; nil: there is no log.
func (d *Folder) ofSeveral() (*bool, error) {
	var found [2]bool
	for i, path := range []string{d.Path(agreements), d.Files().Dir()} {
		_, err := os.Stat(path)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, err
		}
		found[i] = err == nil
	}
	if !found[0] && !found[1] {
		return nil, nil
	}
	return &found[0], nil
}

// Close unlocks the folder.
func (d *Folder) Close() error { return d.lock.Close() }

// NeverServed refuses a folder that a server has used.
func (d *Folder) NeverServed() error {
	for _, remains := range []string{ReadModels, Snapshots} {
		if found, err := d.Has(remains); err != nil || found {
			return errors.Join(err, fmt.Errorf("%s belonged to a server, because it has a folder %q: name an empty folder", d.Dir, remains))
		}
	}
	return nil
}
