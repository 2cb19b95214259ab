package copies

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/projector"
	"github.com/allot-project/allot/snapshots"
)

const (
	// idleFor is how long a copy is kept for a replica that asks for nothing more.
	idleFor = 30 * time.Second
	// makeWait bounds how long a copy may take to be made.
	makeWait = 10 * time.Minute
	// copyMode is of what only this process reads.
	copyMode = 0o750
)

// Pace holds whoever sends up, so that others come through.
type Pace interface {
	WaitN(ctx context.Context, n int) error
}

// ServerConfig is what a Server needs.
type ServerConfig struct {
	Name     string
	Instance ledger.UUID
	Conn     *nats.Conn
	Views    *projector.Projector
	// ReadModels is the folder of the read models, in which copies are made.
	ReadModels string
	Snapshots  *snapshots.Store
	// Fork gives a State that is not behind the newest snapshot.
	Fork func(context.Context) (*ledger.State, error)
	// Leads reports whether this replica leads: others are asked first.
	Leads func() bool
	// Unfit says why no copy may be made now, such as a full disk; or nil.
	Unfit func() error
	// Pace must let partBytes through at once.
	Pace   Pace
	Logger *slog.Logger

	form  form            // what it says of its own; ownForm() if zero
	spoil func(*manifest) // does something to what it says
}

// Server gives copies to other replicas, one at a time.
type Server struct {
	cfg  ServerConfig
	subs []*nats.Subscription
	ctx  context.Context
	end  context.CancelFunc
	idle sync.WaitGroup

	mu      sync.Mutex
	current *given // nil: none; guarded by mu
}

// given is a copy for another replica.
type given struct {
	id, joiner ledger.UUID
	dir        string
	stop       context.CancelFunc
	began      time.Time

	// Of Server.mu.
	ready    bool
	failure  string
	asked    time.Time // when it was asked for last
	paths    []string  // of the manifest's files
	manifest []byte
	sum      string
	sent     int64
}

// folder is where copies are made.
func (s *Server) folder(names ...string) string {
	return filepath.Join(append([]string{s.cfg.ReadModels, "copies"}, names...)...)
}

// Serve begins to give copies, and removes what a former process left of its own.
func Serve(cfg ServerConfig) (*Server, error) {
	if cfg.form == (form{}) {
		cfg.form = ownForm()
	}
	s := &Server{cfg: cfg}
	s.ctx, s.end = context.WithCancel(context.Background())
	if err := os.RemoveAll(s.folder()); err != nil {
		return nil, fmt.Errorf("copies: %w", err)
	}
	for subject, handle := range map[string]nats.MsgHandler{
		offerSubject: s.answerOffer, ofSubject + cfg.Instance.String(): s.answer,
	} {
		sub, err := cfg.Conn.Subscribe(subject, handle)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("copies: %w", err), s.Stop())
		}
		s.subs = append(s.subs, sub)
	}
	s.idle.Go(s.forget)
	return s, cfg.Conn.Flush()
}

// Stop ends it, whoever it is giving a copy to.
func (s *Server) Stop() error {
	s.end()
	for _, sub := range s.subs {
		_ = sub.Unsubscribe() // the connection may be gone
	}
	s.mu.Lock()
	s.drop("this replica is stopping")
	s.mu.Unlock()
	s.idle.Wait()
	return os.RemoveAll(s.folder())
}

// forget drops a copy that nobody asks for any more.
func (s *Server) forget() {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-s.ctx.Done():
			return
		}
		s.mu.Lock()
		if s.current != nil && time.Since(s.current.asked) > idleFor {
			s.drop("the other replica asks for nothing more")
		}
		s.mu.Unlock()
	}
}

// drop ends the present copy. The caller holds mu.
func (s *Server) drop(why string) {
	if s.current == nil {
		return
	}
	g := s.current
	s.current = nil
	g.stop()
	s.cfg.Logger.Info("the copy for another replica has ended", "because", why,
		"bytes", g.sent, "took", time.Since(g.began))
	s.idle.Go(func() {
		if err := os.RemoveAll(g.dir); err != nil {
			s.cfg.Logger.Warn("a copy for another replica was not removed; the next start does", "folder", g.dir, "error", err)
		}
	})
}

// fit says why no copy can be made now.
func (s *Server) fit() error {
	if err := s.cfg.Views.Ready(); err != nil {
		return err
	}
	if s.cfg.Views.Checkpoint().Sequence == 0 {
		return errors.New("there is nothing yet")
	}
	if s.cfg.Unfit != nil {
		return s.cfg.Unfit()
	}
	return nil
}

// answerOffer tells a replica that asks all others what it could have. One that
// could have nothing hears nothing.
func (s *Server) answerOffer(msg *nats.Msg) {
	if err := s.fit(); err != nil {
		s.cfg.Logger.Debug("no copy is offered", "because", err)
		return
	}
	at := s.cfg.Views.Position()
	s.mu.Lock()
	busy := s.current != nil
	s.mu.Unlock()
	s.respond(msg, offer{
		Name: s.cfg.Name, Instance: s.cfg.Instance, Form: s.cfg.form, Sequence: at.Head.Sequence, Records: at.Records,
		Bytes: folderBytes(s.cfg.Views.Dir()), Leads: s.cfg.Leads(), Busy: busy,
	})
}

// folderBytes is about what the files of a folder take.
func folderBytes(dir string) (total int64) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return 0 // they may be being exchanged
	}
	for _, entry := range entries {
		if info, err := entry.Info(); err == nil && info.Mode().IsRegular() {
			total += info.Size()
		}
	}
	return total
}

func (s *Server) respond(msg *nats.Msg, answer any) {
	data, err := json.Marshal(answer)
	if err == nil {
		err = msg.Respond(data)
	}
	if err != nil {
		s.cfg.Logger.Debug("a replica that asked for a copy was not answered", "error", err)
	}
}

// answer answers one question about a copy. Questions are answered one after
// the other, so that one part is in memory at a time.
func (s *Server) answer(msg *nats.Msg) {
	var q question
	if err := json.Unmarshal(msg.Data, &q); err != nil {
		s.respond(msg, answer{Failure: "a question that cannot be read: " + err.Error()})
		return
	}
	switch q.Do {
	case doBegin:
		s.respond(msg, s.begin(q))
	case doLook:
		s.respond(msg, s.look(q))
	case doPart:
		s.sendPart(msg, q)
	case doEnd:
		s.mu.Lock()
		if s.of(q) != nil {
			s.drop("the other replica has it, or needs it no more")
		}
		s.mu.Unlock()
		s.respond(msg, answer{})
	default:
		s.respond(msg, answer{Failure: fmt.Sprintf("this release does not know the question %q", q.Do)})
	}
}

// of is the present copy, if the question is about it. The caller holds mu.
func (s *Server) of(q question) *given {
	if s.current == nil || s.current.id != q.Copy || s.current.joiner != q.Joiner {
		return nil
	}
	s.current.asked = time.Now()
	return s.current
}

// begin begins to make a copy.
func (s *Server) begin(q question) answer {
	if err := s.fit(); err != nil {
		return answer{Failure: err.Error()}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current != nil && s.current.joiner != q.Joiner {
		return answer{Failure: busy}
	}
	s.drop("the other replica begins anew")
	ctx, stop := context.WithTimeout(s.ctx, makeWait)
	g := &given{id: commands.NewID(), joiner: q.Joiner, stop: stop, began: time.Now(), asked: time.Now()}
	g.dir = s.folder(g.id.String())
	s.current = g
	s.cfg.Logger.Info("another replica gets a copy of State and read models")
	s.idle.Go(func() { s.prepare(ctx, g) })
	return answer{Copy: g.id}
}

// busy is the failure of who gives another copy already.
const busy = "it is giving a copy to another replica"

// noCopy is the failure of who has dropped the copy.
const noCopy = "there is no such copy any more"

func (s *Server) look(q question) answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.of(q)
	if g == nil {
		return answer{Failure: noCopy}
	}
	return answer{Failure: g.failure, Copy: g.id, Ready: g.ready, Bytes: int64(len(g.manifest)), Sum: g.sum}
}

// prepare makes a copy, and tells where it stands.
func (s *Server) prepare(ctx context.Context, g *given) {
	m, paths, err := s.maker().write(ctx, g.dir)
	var text []byte
	if err == nil {
		text, err = json.Marshal(m)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		g.failure = err.Error()
		if ctx.Err() == nil {
			s.cfg.Logger.Warn("no copy could be made for another replica", "error", err)
		}
		return
	}
	sum := sha256.Sum256(text)
	g.manifest, g.sum, g.paths, g.ready = text, hex.EncodeToString(sum[:]), paths, true
	s.cfg.Logger.Info("a copy for another replica is ready", "state", m.State.Sequence,
		"read_models", m.Models.Head.Sequence, "bytes", m.bytes(), "files", len(m.Files), "took", time.Since(g.began))
}

func (s *Server) maker() *maker {
	return &maker{views: s.cfg.Views, snapshots: s.cfg.Snapshots, fork: s.cfg.Fork, form: s.cfg.form, spoil: s.cfg.spoil}
}

// sendPart sends a part of a file.
func (s *Server) sendPart(msg *nats.Msg, q question) {
	part, err := s.part(q)
	answer := nats.NewMsg(msg.Reply)
	if err != nil {
		answer.Header.Set(headerFailure, err.Error())
	} else {
		answer.Data = part
		answer.Header.Set(headerSum, partSum(part))
	}
	if err := msg.RespondMsg(answer); err != nil {
		s.cfg.Logger.Debug("a part of a copy was not sent", "error", err)
	}
}

func (s *Server) part(q question) ([]byte, error) {
	limit := min(partBytes, int(s.cfg.Conn.MaxPayload())-headroomBytes)
	if q.Bytes < 1 || q.Offset < 0 {
		return nil, fmt.Errorf("no part has %d bytes at %d", q.Bytes, q.Offset)
	}
	want := min(q.Bytes, limit)
	s.mu.Lock()
	g := s.of(q)
	if g == nil || !g.ready || q.File < 0 || q.File > len(g.paths) {
		s.mu.Unlock()
		return nil, errors.New(noCopy)
	}
	text, path := g.manifest, ""
	if q.File > 0 {
		path = g.paths[q.File-1]
	}
	g.sent += int64(want)
	s.mu.Unlock()
	if err := s.cfg.Pace.WaitN(s.ctx, want); err != nil {
		return nil, err
	}
	if path == "" {
		begin := min(q.Offset, int64(len(text)))
		return text[begin:min(begin+int64(want), int64(len(text)))], nil
	}
	return readPart(path, q.Offset, want)
}

func readPart(path string, offset int64, want int) ([]byte, error) {
	in, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = in.Close() }() // nothing was written
	part := make([]byte, want)
	n, err := in.ReadAt(part, offset)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	return part[:n], nil
}
