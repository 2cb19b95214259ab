package copies

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/allot-project/allot/ledger"
)

// What a replica answers to the others. A file's SHA-256 follows the last one.
const (
	offerPath = "/offer" // what would a copy be?
	copyPath  = "/copy"  // the manifest of a copy, which is made if there is none
	filesPath = "/files/"
)

const (
	// keptFor is how long a copy is kept that is not asked for. A file on its way goes on.
	keptFor = time.Minute
	// makeWait bounds how long a copy may take to be made.
	makeWait = 10 * time.Minute
	// headerWait is how long a request's header may take.
	headerWait = 10 * time.Second
	// leastRate is how many bytes of a file a second the other replica must take.
	leastRate = 1 << 20
)

// ServerConfig is what a Server needs.
type ServerConfig struct {
	Maker
	// Listen is HOST:PORT.
	Listen string
	TLS    *tls.Config // nil: none
	// Secret is what all replicas know.
	Secret string
	Logger *slog.Logger

	kept time.Duration // keptFor if 0
}

// Server gives copies to other replicas. All that ask at a time get the same one.
type Server struct {
	cfg      ServerConfig
	listener net.Listener
	http     *http.Server
	ctx      context.Context
	end      context.CancelFunc
	work     sync.WaitGroup

	mu      sync.Mutex
	current *given // nil: none; guarded by mu
}

type given struct {
	dir   string
	began time.Time
	made  chan struct{} // closed when it is there, or has failed
	// These are there when made is closed.
	failure  error
	manifest []byte
	paths    map[ledger.Digest]string
	forget   *time.Timer // drops it
}

// folder is where copies are made.
func (s *Server) folder(names ...string) string {
	return filepath.Join(append([]string{s.cfg.ReadModels, "copies"}, names...)...)
}

// Serve begins to give copies, and removes what a former process left of its own.
func Serve(cfg ServerConfig) (*Server, error) {
	cfg.kept = cmp.Or(cfg.kept, keptFor)
	s := &Server{cfg: cfg}
	if err := os.RemoveAll(s.folder()); err != nil {
		return nil, fmt.Errorf("copies: %w", err)
	}
	var err error
	if s.listener, err = net.Listen("tcp", cfg.Listen); err != nil {
		return nil, fmt.Errorf("copies: %w", err)
	}
	if cfg.TLS != nil {
		s.listener = tls.NewListener(s.listener, cfg.TLS)
	}
	s.ctx, s.end = context.WithCancel(context.Background())
	routes := http.NewServeMux()
	routes.Handle("GET "+offerPath, s.answers(func(*http.Request) ([]byte, error) { return json.Marshal(cfg.offer()) }))
	routes.Handle("GET "+copyPath, s.answers(s.manifest))
	routes.HandleFunc("GET "+filesPath+"{sum}", s.answerFile)
	s.http = &http.Server{
		Handler: newGuard(cfg.Secret, routes), ReadHeaderTimeout: headerWait, IdleTimeout: keptFor, MaxHeaderBytes: 8 << 10,
		ErrorLog: slog.NewLogLogger(cfg.Logger.Handler(), slog.LevelDebug),
	}
	s.work.Go(func() {
		if err := s.http.Serve(s.listener); !errors.Is(err, http.ErrServerClosed) {
			cfg.Logger.Error("no copies are given to other replicas any more", "error", err)
		}
	})
	return s, nil
}

// Address is where it listens.
func (s *Server) Address() string { return s.listener.Addr().String() }

// Stop ends it, even while it is giving a copy.
func (s *Server) Stop() error {
	s.end()
	err := s.http.Close()
	s.mu.Lock()
	s.drop(s.current, "this replica is stopping")
	s.mu.Unlock()
	s.work.Wait()
	return errors.Join(err, os.RemoveAll(s.folder()))
}

// drop ends a copy, if it is the present one. The caller holds mu.
func (s *Server) drop(g *given, why string) {
	if g == nil || s.current != g {
		return
	}
	s.current = nil
	s.cfg.Logger.Info("the copy for other replicas has ended", "because", why, "took", time.Since(g.began))
	s.work.Go(func() {
		<-g.made
		if err := os.RemoveAll(g.dir); err != nil {
			s.cfg.Logger.Warn("a copy for another replica was not removed; the next start does", "folder", g.dir, "error", err)
		}
	})
}

// take takes the present copy, and has it kept for a while. Unless there is one, it begins
// to make one if it may, and returns nil otherwise.
func (s *Server) take(begin bool) *given {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current == nil && begin && s.ctx.Err() == nil {
		g := &given{dir: s.folder(rand.Text()), began: time.Now(), made: make(chan struct{})}
		s.current = g
		s.cfg.Logger.Info("another replica gets a copy of State and read models")
		s.work.Go(func() { s.prepare(g) })
	}
	if s.current != nil && s.current.forget != nil {
		s.current.forget.Reset(s.cfg.kept)
	}
	return s.current
}

func (s *Server) prepare(g *given) {
	defer close(g.made)
	ctx, cancel := context.WithTimeout(s.ctx, makeWait)
	defer cancel()
	m, paths, err := s.cfg.write(ctx, g.dir)
	if err == nil {
		g.manifest, err = json.Marshal(m)
	}
	g.failure, g.paths = err, paths
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.drop(g, err.Error())
		return
	}
	g.forget = time.AfterFunc(s.cfg.kept, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.drop(g, "it is not asked for any more")
	})
	s.cfg.Logger.Info("a copy for another replica is ready", "state", m.State.Sequence,
		"read_models", m.Models.Head.Sequence, "bytes", m.bytes(), "files", len(m.Files), "took", time.Since(g.began))
}

// answers answers with a signed text, if this replica can give a copy.
func (s *Server) answers(text func(*http.Request) ([]byte, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		err := s.cfg.fit()
		var body []byte
		if err == nil {
			body, err = text(r)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		w.Header().Set(headerSignature, signAnswer(s.cfg.Secret, r.Header.Get(headerNumber), body))
		if _, err := w.Write(body); err != nil {
			s.cfg.Logger.Debug("a replica that asked for a copy was not answered", "error", err)
		}
	})
}

// manifest waits until a copy is made.
func (s *Server) manifest(r *http.Request) ([]byte, error) {
	g := s.take(true)
	if g == nil {
		return nil, errors.New("this replica is stopping")
	}
	select {
	case <-g.made:
		return g.manifest, g.failure
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
}

// answerFile sends a file. Its name is a digest, and never a path.
func (s *Server) answerFile(w http.ResponseWriter, r *http.Request) {
	g := s.take(false)
	if g == nil {
		http.Error(w, "there is no copy any more", http.StatusGone)
		return
	}
	<-g.made
	var sum ledger.Digest
	path := ""
	if sum.UnmarshalText([]byte(r.PathValue("sum"))) == nil {
		path = g.paths[sum]
	}
	if path == "" {
		http.Error(w, "the copy has no such file", http.StatusNotFound)
		return
	}
	in, err := os.Open(path)
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	defer func() { _ = in.Close() }() // nothing was written
	if info, err := in.Stat(); err == nil {
		patience := keptFor + time.Duration(info.Size()/leastRate)*time.Second
		err = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(patience))
		if err != nil {
			s.cfg.Logger.Debug("a file of a copy is sent without a deadline", "error", err)
		}
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	http.ServeContent(w, r, "", time.Time{}, in)
}
