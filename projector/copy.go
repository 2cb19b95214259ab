package projector

import (
	"errors"
	"fmt"

	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/durable"
	"github.com/allot-project/allot/projector/store"
)

// Form is what a build must have in common with another one to read its read
// models' files.
type Form struct {
	Schema uint64 `json:"schema"` // of keys and values
	Files  uint64 `json:"files"`  // Pebble's
}

// OwnForm is that of the read models which this build writes, and the only one
// that it reads.
func OwnForm() Form { return Form{Schema: schemaVersion, Files: store.Format} }

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
	if err := m.Flush(); err != nil { // so that little is left to be copied while folding waits
		return Position{}, err
	}
	p.folding.Lock()
	defer p.folding.Unlock()
	if err := m.Copy(dir); err != nil {
		return Position{}, err
	}
	return m.position(), nil
}

// Inspected reads where the read models in a folder stand that nothing has open, and
// changes none of its files. What is wrong with them is an ErrDamaged, and so is
// another build's form.
func Inspected(dir string) (Position, error) {
	kept, err := store.OpenToRead(dir)
	if err != nil {
		return Position{}, err
	}
	m := newModels(kept)
	if err = m.load(); errors.Is(err, errOtherVersion) {
		err = fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return m.position(), errors.Join(err, m.close())
}

// Exchange closes the read models, lets put change the files at Dir, and opens
// what is there then. Readers get ErrClosed meanwhile. If put fails, what it left
// is opened all the same.
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
	close(old.replaced)
	p.announce()
	return err
}

// openOrBegin opens the read models that there are, or begins new ones in the
// place of those that are damaged or of another version. On a full disk it opens them
// in memory.
func (p *Projector) openOrBegin() (*models, error) {
	m, err := openModels(p.files, p.dir, p.logger, p.stopped)
	if durable.NoRoom(err) {
		return p.openInMemory(err)
	}
	if errors.Is(err, errOtherVersion) || errors.Is(err, ErrDamaged) {
		if err := p.setAside(err); err != nil {
			return nil, fmt.Errorf("projector: %w", err)
		}
		return openModels(p.files, p.dir, p.logger, p.stopped)
	}
	return m, err
}

// overlayBytes is how much is written into memory at most beside a full disk.
const overlayBytes = 256 << 20

// openInMemory opens the read models that there are, as they are, beside a disk that is full.
func (p *Projector) openInMemory(full error) (*models, error) {
	files, err := store.Beside(p.files, p.dir, overlayBytes)
	if err != nil {
		return nil, err
	}
	p.logger.Error("the disk is full: reads are answered from what is there, and nothing is written", "error", full)
	return openModels(files, p.dir, p.logger, p.stopped)
}

// Inspect reads the checkpoint and the digest of the read models in a folder. It
// changes nothing there. No projector may have them open. A fault of them is an
// ErrDamaged.
func Inspect(dir string) (ledger.Head, ledger.Digest, error) {
	kept, err := store.OpenToRead(FilesIn(dir))
	if err != nil {
		return ledger.Head{}, ledger.Digest{}, err
	}
	m := newModels(kept)
	err = m.load()
	var sum ledger.Digest
	if err == nil {
		sum, err = m.view().digest()
	}
	return m.head, sum, errors.Join(err, m.close())
}
