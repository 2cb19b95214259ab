package projector

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/allot-project/allot/ledger"
)

// Form is what a build must have in common with another one to read its read
// models' files.
type Form struct {
	Schema uint64 `json:"schema"` // of keys and values
	Files  uint64 `json:"files"`  // Pebble's
}

// OwnForm is that of the read models which this build writes, and the only one
// that it reads.
func OwnForm() Form {
	return Form{Schema: schemaVersion, Files: uint64(pebble.FormatNewest)}
}

// Position is where read models in files stand.
type Position struct {
	Head    ledger.Head `json:"head"`
	Records int64       `json:"records"` // that were folded
}

// Position is that of the newest folded commit.
func (p *Projector) Position() Position { return p.models.Load().position() }

func (m *models) position() Position {
	m.mu.Lock()
	defer m.mu.Unlock()
	return Position{Head: m.head, Records: m.tree.Size()}
}

// Copy writes the read models, as of one commit, into a folder that does not
// exist yet, on the same disk: its files are links, and take no room until
// these read models have changed. Folding waits for the links only.
func (p *Projector) Copy(dir string) (Position, error) {
	m := p.models.Load()
	if err := m.flush(); err != nil { // so that little is left to be copied while folding waits
		return Position{}, err
	}
	p.folding.Lock()
	defer p.folding.Unlock()
	return m.copyTo(dir)
}

func (m *models) flush() (err error) {
	if err := m.enter(); err != nil {
		return err
	}
	defer m.users.leave()
	defer m.recovered(&err)
	if err := m.db.Flush(); err != nil {
		return m.broke(fmt.Errorf("flush: %w", err))
	}
	return nil
}

// copyTo is Copy while nothing is folded.
func (m *models) copyTo(dir string) (at Position, err error) {
	if err := m.enter(); err != nil {
		return at, err
	}
	defer m.users.leave()
	defer m.recovered(&err)
	if err := m.db.Checkpoint(dir, pebble.WithFlushedWAL()); err != nil {
		return at, fmt.Errorf("projector: copy: %w", err)
	}
	// What was written after they were condemned never reached the disk.
	return m.position(), m.fault()
}

// Inspected reads where the read models in a folder stand that Copy has
// written, and changes none of its files. What is wrong with them is an
// ErrDamaged, and those of another build are refused.
func Inspected(dir string) (Position, error) {
	m := newModels(vfs.Default, slog.New(slog.DiscardHandler), nil)
	defer m.cache.Unref()
	if err := m.open(dir, true); err != nil {
		return Position{}, errors.Join(err, m.disk.unlock())
	}
	err := m.load()
	return m.position(), errors.Join(err, m.endInspection(m.db))
}

// CheckTable compares every block of a table of read models, in whatever file, with
// its checksum. What is wrong is an ErrDamaged.
func CheckTable(ctx context.Context, path string) error {
	if err := checkTable(ctx, vfs.Default, path); err != nil {
		return fmt.Errorf("%w: %s: %w", ErrDamaged, path, err)
	}
	return nil
}

// Exchange closes the read models, lets put change the files at Dir, and opens
// what is there then. Readers get ErrClosed. If put fails, what it left is
// opened all the same.
func (p *Projector) Exchange(put func() error) error {
	if err := p.Sync(); err != nil {
		return err
	}
	p.folding.Lock()
	defer p.folding.Unlock()
	old := p.models.Load()
	if err := old.close(); err != nil {
		p.logger.Warn("read models were not closed properly", "error", err)
	}
	err := put()
	m, opening := p.openOrBegin()
	if opening != nil {
		return errors.Join(err, opening)
	}
	p.models.Store(m)
	old.supersede()
	p.announce()
	return errors.Join(err, p.seen(m.checkpoint()))
}

// openOrBegin opens the read models that there are, or begins new ones in the
// place of those that are damaged or of another version.
func (p *Projector) openOrBegin() (*models, error) {
	m, err := openModels(p.files, p.dir, p.logger, p.stopped)
	if errors.Is(err, errOtherVersion) || errors.Is(err, ErrDamaged) {
		if err := p.giveWay(err); err != nil {
			return nil, fmt.Errorf("projector: %w", err)
		}
		return openModels(p.files, p.dir, p.logger, p.stopped)
	}
	return m, err
}

// Refill puts read models that another replica has made at Dir, where there are
// none, and returns a State that is not behind the log by more than they are;
// nil: there are none.
type Refill func(ctx context.Context) (*ledger.State, error)

// RefillFrom has read models that turn out to be damaged filled from another
// replica, if one can, before they are made from the log.
func (p *Projector) RefillFrom(refill Refill) { p.refill.Store(&refill) }

// refilled asks for read models that another replica has made. After any
// failure there are none, and they are made from the log.
func (p *Projector) refilled(ctx context.Context) *ledger.State {
	refill := p.refill.Load()
	if refill == nil {
		return nil
	}
	state, err := (*refill)(ctx)
	if err != nil {
		p.logger.Warn("the read models were not filled by another replica, and are made from the log", "error", err)
		if err := os.RemoveAll(p.dir); err != nil {
			p.logger.Warn("what another replica has sent stays", "error", err)
		}
		return nil
	}
	return state
}
