package embedded

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/allot-project/allot/ledger/durable"
	"github.com/allot-project/allot/ledger/jetstream"
)

// When JetStream cannot write, it logs that, gives publishers no answer, and
// takes nothing more on that stream until its store is opened anew, even if the
// disk has room again. Reads go on meanwhile.
//
// If the disk was full at the first message of a new block, and the store is then
// closed in order, the store writes down that this message was deleted: its
// sequence is lost for good, and the log has a gap. After a crash this does not
// happen. So a broken log is restored, once it is closed, to its state when it
// broke.

// noLimit replaces JetStream's own limits. Otherwise JetStream limits itself to
// three quarters of the free space at its start, even if the disk grows later.
const noLimit = 1 << 60

// ErrBroken means that JetStream could not write, and takes nothing until Reopen.
var ErrBroken = errors.New("embedded: JetStream could not write to its store")

// trouble is what is known of stores that could not write.
type trouble struct {
	broken atomic.Bool // log is not nil

	mu    sync.Mutex
	log   error     // error of the log's stream; guarded by mu
	other error     // error of another stream; guarded by mu
	files *logFiles // the log's files when it broke; guarded by mu
}

// note reads lines that report a broken store. The store is locked while it logs
// them, so its files are still as they were when it broke.
func (t *trouble) note(text, storeDir string) {
	if !strings.Contains(strings.ToLower(text), "critical write error") {
		return
	}
	err := fmt.Errorf("%w: %s", ErrBroken, strings.TrimSpace(text))
	t.mu.Lock()
	defer t.mu.Unlock()
	if !ofLog.MatchString(text) {
		t.other = err
		return
	}
	if t.log == nil {
		t.broken.Store(true)
		t.log = err
		t.files, err = readLogFiles(storeDir)
		if err != nil {
			t.log = fmt.Errorf("%w; %w", t.log, err)
		}
	}
}

// ofLog finds the name of the log's stream in such a line.
var ofLog = regexp.MustCompile(`\[` + jetstream.DefaultStream + `\]|> ` + jetstream.DefaultStream + `'`)

func (t *trouble) get() (files *logFiles, log, other error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.files, t.log, t.other
}

func (t *trouble) set(log error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.log, t.other, t.files = log, nil, nil
	t.broken.Store(log != nil)
}

// Broken returns why JetStream takes nothing for the log, or nil.
func (s *Server) Broken() error {
	if !s.lines.trouble.broken.Load() {
		return nil
	}
	_, log, _ := s.lines.trouble.get()
	return log
}

// Ailing returns why JetStream takes nothing for some stream, or nil.
func (s *Server) Ailing() error {
	_, log, other := s.lines.trouble.get()
	return errors.Join(log, other)
}

// NoSpace reports whether a store broke because the disk was full, which passes. After
// other errors the disk's contents are uncertain.
func NoSpace(err error) bool {
	if err == nil {
		return false
	}
	text := err.Error() // NATS passes on no more than the text
	return strings.Contains(text, "no space left") || strings.Contains(text, "quota exceeded")
}

// Reopen opens JetStream's store anew, as after a crash, while the server and its
// connections go on. First everything that was written is synced, because
// whatever the store then says that it holds must be on the disk, and the log's
// files must be good.
func (s *Server) Reopen() error {
	files, broken, _ := s.lines.trouble.get()
	if err := s.ns.ShutdownJetStream(); err != nil {
		return fmt.Errorf("embedded: close JetStream: %w", err)
	}
	if err := errors.Join(files.putBack(), durable.SyncTree(s.store.StoreDir)); err != nil {
		return fmt.Errorf("embedded: the log's files: %w", err)
	}
	if err := s.judgeAgain(); err != nil {
		return err
	}
	s.lines.trouble.set(nil)
	err := s.ns.EnableJetStream(s.jetStream())
	if err == nil {
		err = s.enableAccount()
	}
	if err != nil {
		s.lines.trouble.set(fmt.Errorf("%w: %w", errors.Join(ErrBroken, broken), err))
		return fmt.Errorf("embedded: open JetStream: %w", err)
	}
	return nil
}

// logFiles are the log's blocks, and JetStream's index of them.
type logFiles struct {
	dir    string
	blocks map[string]int64 // sizes
	index  []byte           // nil: there is none
}

const indexFile = "index.db"

func readLogFiles(storeDir string) (*logFiles, error) {
	f := &logFiles{dir: filepath.Join(Files(storeDir).Dir(), "msgs"), blocks: make(map[string]int64)}
	list, err := os.ReadDir(f.dir)
	if err != nil {
		return nil, err
	}
	for _, entry := range list {
		info, err := entry.Info()
		if err != nil {
			return nil, err
		}
		if filepath.Ext(entry.Name()) == ".blk" {
			f.blocks[entry.Name()] = info.Size()
		}
	}
	f.index, err = os.ReadFile(filepath.Join(f.dir, indexFile))
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return f, err
}

// putBack removes what was added to the files since.
func (f *logFiles) putBack() error {
	if f == nil {
		return nil
	}
	list, err := os.ReadDir(f.dir)
	if err != nil {
		return err
	}
	for _, entry := range list {
		path := filepath.Join(f.dir, entry.Name())
		size, known := f.blocks[entry.Name()]
		info, err := entry.Info()
		switch {
		case err != nil:
			return err
		case filepath.Ext(path) != ".blk":
		case !known:
			err = os.Remove(path)
		case info.Size() > size:
			err = os.Truncate(path, size)
		}
		if err != nil {
			return err
		}
	}
	if err := os.Remove(filepath.Join(f.dir, indexFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if f.index == nil {
		return nil
	}
	return os.WriteFile(filepath.Join(f.dir, indexFile), f.index, 0o600)
}

// enableAccount enables JetStream for the server's own account. With more than
// one account the server does not do that itself.
func (s *Server) enableAccount() error {
	if err := s.ns.GlobalAccount().EnableJetStream(nil, nil); err != nil {
		return fmt.Errorf("embedded: %w", err)
	}
	return nil
}

// jetStream returns the configuration with which the server started JetStream.
func (s *Server) jetStream() *server.JetStreamConfig {
	return &server.JetStreamConfig{
		StoreDir: s.store.StoreDir, SyncAlways: s.store.SyncAlways, SyncInterval: s.store.SyncInterval, MaxStore: noLimit,
		MaxMemory: noLimit, Strict: true,
	}
}
