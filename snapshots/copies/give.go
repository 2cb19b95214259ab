package copies

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
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
	TLS    *tls.Config // of the replicas
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
	serving  sync.WaitGroup

	mu       sync.Mutex               // held while a copy is made: requests wait for it
	manifest []byte                   // of the present copy; nil: there is none; guarded by mu
	paths    map[ledger.Digest]string // of its files; guarded by mu
	forget   *time.Timer              // drops it; guarded by mu
}

// folder is where copies are made.
func (s *Server) folder() string { return filepath.Join(s.cfg.ReadModels, "copies") }

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
	s.listener = tls.NewListener(s.listener, cfg.TLS)
	s.ctx, s.end = context.WithCancel(context.Background())
	routes := http.NewServeMux()
	routes.Handle("GET "+offerPath, s.answers(func(*http.Request) ([]byte, error) { return json.Marshal(cfg.offer()) }))
	routes.Handle("GET "+copyPath, s.answers(s.current))
	routes.HandleFunc("GET "+filesPath+"{sum}", s.answerFile)
	s.http = &http.Server{
		Handler:           onlyReplicas(cfg.Secret, routes),
		ReadHeaderTimeout: headerWait, IdleTimeout: keptFor, MaxHeaderBytes: 8 << 10,
		ErrorLog: slog.NewLogLogger(cfg.Logger.Handler(), slog.LevelDebug),
	}
	s.serving.Go(func() {
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
	s.serving.Wait()
	return errors.Join(err, s.drop("this replica is stopping"))
}

// drop removes the present copy.
func (s *Server) drop(why string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.manifest != nil {
		s.forget.Stop()
		s.manifest, s.paths = nil, nil
		s.cfg.Logger.Info("the copy for other replicas has ended", "because", why)
	}
	return os.RemoveAll(s.folder())
}

// current returns the manifest of the present copy, which it makes if there is none, and has the copy kept for a while.
func (s *Server) current(*http.Request) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.ctx.Err() != nil:
		return nil, errors.New("this replica is stopping")
	case s.manifest != nil:
		s.forget.Reset(s.cfg.kept)
		return s.manifest, nil
	}
	err := s.prepare()
	return s.manifest, err
}

// prepare makes a copy. The caller holds mu.
func (s *Server) prepare() error {
	began := time.Now()
	s.cfg.Logger.Info("another replica gets a copy of State and read models")
	ctx, cancel := context.WithTimeout(s.ctx, makeWait)
	defer cancel()
	m, paths, err := s.cfg.write(ctx, s.folder())
	var manifest []byte
	if err == nil {
		manifest, err = json.Marshal(m)
	}
	if err != nil {
		return errors.Join(err, os.RemoveAll(s.folder()))
	}
	s.manifest, s.paths = manifest, paths
	s.forget = time.AfterFunc(s.cfg.kept, func() {
		if err := s.drop("it is not asked for any more"); err != nil {
			s.cfg.Logger.Warn("a copy for another replica was not removed; the next one does", "folder", s.folder(), "error", err)
		}
	})
	s.cfg.Logger.Info("a copy for another replica is ready", "state", m.State.Sequence,
		"read_models", m.Models.Head.Sequence, "bytes", m.bytes(), "files", len(m.Files), "took", time.Since(began))
	return nil
}

// token shows that a replica knows the secret. It goes to what has shown the same, or a replica's certificate.
func token(secret string) string {
	mac := hmac.New(sha256.New, []byte(secret))
	_, _ = mac.Write([]byte("allot copies")) // a hash takes everything
	return "Bearer " + hex.EncodeToString(mac.Sum(nil))
}

// onlyReplicas refuses requests without the token: a copy holds everything of all projects.
func onlyReplicas(secret string, next http.Handler) http.Handler {
	want := []byte(token(secret))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !hmac.Equal(want, []byte(r.Header.Get("Authorization"))) {
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(headerWait)) // of a body, which is not read
			http.Error(w, "it does not know the cluster's secret", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// answers answers with a text, if this replica can give a copy.
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
		if _, err := w.Write(body); err != nil {
			s.cfg.Logger.Debug("a replica that asked for a copy was not answered", "error", err)
		}
	})
}

// open opens a file of the present copy, and has the copy kept for a while. The file's name is a digest, and never a
// path. With an error it returns the status of the answer.
func (s *Server) open(name string) (file *os.File, status int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.manifest == nil {
		return nil, http.StatusGone, errors.New("there is no copy any more")
	}
	s.forget.Reset(s.cfg.kept)
	var sum ledger.Digest
	path := ""
	if sum.UnmarshalText([]byte(name)) == nil {
		path = s.paths[sum]
	}
	if path == "" {
		return nil, http.StatusNotFound, errors.New("the copy has no such file")
	}
	file, err = os.Open(path)
	return file, http.StatusServiceUnavailable, err
}

func (s *Server) answerFile(w http.ResponseWriter, r *http.Request) {
	in, status, err := s.open(r.PathValue("sum"))
	if err != nil {
		http.Error(w, err.Error(), status)
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
