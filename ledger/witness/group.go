package witness

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/mod/sumdb/note"

	"github.com/allot-project/allot/ledger/durable"
	"github.com/allot-project/allot/ledger/proof"
)

// ErrQuorum means that too few witnesses have cosigned a checkpoint.
var ErrQuorum = errors.New("too few witnesses have cosigned the checkpoint")

// Config says who cosigns checkpoints.
type Config struct {
	Witnesses []Witness
	Quorum    int            // how many of them must
	Operator  note.Verifiers // that signs the checkpoints
	Folder    string         // of signed checkpoints, for the newest that was cosigned
	Patience  time.Duration  // how long a witness may take
	Logger    *slog.Logger
}

// Check refuses witnesses of which not enough can cosign.
func (c *Config) Check() error {
	if c.Quorum < 1 || c.Quorum > len(c.Witnesses) {
		return fmt.Errorf("a quorum of %d of %d witnesses: name a number from 1 to %d", c.Quorum, len(c.Witnesses), len(c.Witnesses))
	}
	seen := make(map[string]bool)
	for _, w := range c.Witnesses {
		key := fmt.Sprintf("%s+%08x", w.Name(), w.KeyHash())
		if seen[key] {
			return fmt.Errorf("the witness %s is named twice", w.Name())
		}
		seen[key] = true
	}
	return nil
}

// Status says how a witness is.
type Status struct {
	Name  string
	Size  int64     // of the last checkpoint that it has cosigned here; 0: of none
	Time  time.Time // that it says it did
	Fault string    // why it has not cosigned the last one; empty: it has, or was not asked
}

// Group has checkpoints cosigned by a quorum of witnesses. It asks them for one checkpoint at
// a time, and keeps the newest.
type Group struct {
	cfg    Config
	client *http.Client
	turn   chan struct{}
	stop   context.CancelFunc
	alive  context.Context
	idle   sync.WaitGroup

	mu    sync.Mutex
	kept  *Cosigned // nil: there is none; guarded by mu
	asked []member  // guarded by mu
}

type member struct {
	Status
	busy bool // it has not answered yet
}

// Cosigned is a checkpoint with the cosignatures of a quorum.
type Cosigned struct {
	Note []byte
	proof.Checkpoint
}

// Open returns a Group, with the checkpoint that was kept. One that does not have the quorum's
// cosignatures, because other witnesses are asked now, is not used.
func Open(cfg Config) (*Group, error) {
	if err := cfg.Check(); err != nil {
		return nil, err
	}
	g := &Group{cfg: cfg, client: newClient(), turn: make(chan struct{}, 1), asked: make([]member, len(cfg.Witnesses))}
	g.alive, g.stop = context.WithCancel(context.Background())
	trust := proof.Trust{Operator: cfg.Operator, Quorum: cfg.Quorum}
	for i, w := range cfg.Witnesses {
		g.asked[i].Name = w.Name()
		trust.Witnesses = append(trust.Witnesses, w.Verifier)
	}
	kept, err := proof.ReadFolder(cfg.Folder)
	if err != nil {
		return nil, err
	}
	for _, one := range kept {
		if filepath.Base(one.Path) != proof.CosignedFile {
			continue
		}
		c, err := trust.Open(one.Signed)
		if err != nil {
			cfg.Logger.Warn("the cosigned checkpoint that was kept is not used", "file", one.Path, "error", err)
			continue
		}
		g.kept = &Cosigned{one.Signed, *c}
		for i := range g.asked {
			g.asked[i].Size = c.Size // if it is another one, the witness says so
		}
	}
	return g, nil
}

// Close ends all questions.
func (g *Group) Close() {
	g.stop()
	g.idle.Wait()
	g.client.CloseIdleConnections()
}

// Kept returns the newest cosigned checkpoint; nil: there is none.
func (g *Group) Kept() *Cosigned {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.kept
}

// Status returns how each witness is, in the order of the configuration.
func (g *Group) Status() (list []Status) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, one := range g.asked {
		list = append(list, one.Status)
	}
	return list
}

// Fault says why the last checkpoint has no quorum; empty: it has one, or there was none.
func (g *Group) Fault() string {
	var good int
	var faults []string
	for _, one := range g.Status() {
		if one.Fault == "" {
			good++
		} else {
			faults = append(faults, one.Name+": "+one.Fault)
		}
	}
	if good >= g.cfg.Quorum {
		return ""
	}
	return fmt.Sprintf("%d of %d, and %d are needed: %s", good, len(g.cfg.Witnesses), g.cfg.Quorum, strings.Join(faults, "; "))
}

// Cosign returns a cosigned checkpoint of a log of least records or more: the one that is kept,
// or else the newest, which it asks for. It fails with ErrQuorum.
func (g *Group) Cosign(
	ctx context.Context, least int64, newest func(context.Context) (*Signed, error),
) (*Cosigned, error) {
	if kept := g.Kept(); kept != nil && kept.Size >= least {
		return kept, nil
	}
	select {
	case g.turn <- struct{}{}:
		defer func() { <-g.turn }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if kept := g.Kept(); kept != nil && kept.Size >= least { // while this waited
		return kept, nil
	}
	signed, err := newest(ctx)
	if err != nil {
		return nil, err
	}
	lines, err := g.ask(ctx, signed)
	if err != nil {
		return nil, err
	}
	kept := &Cosigned{append(signed.Note, strings.Join(lines, "")...), signed.Checkpoint}
	if err := durable.Replace(filepath.Join(g.cfg.Folder, proof.CosignedFile), kept.Note); err != nil {
		return nil, fmt.Errorf("witness: the cosigned checkpoint cannot be kept: %w", err)
	}
	g.mu.Lock()
	g.kept = kept
	g.mu.Unlock()
	return kept, nil
}

// ask asks all witnesses at once, and returns the signatures of the first that make a quorum.
// The others may take their time: they are not asked again meanwhile.
func (g *Group) ask(ctx context.Context, signed *Signed) (lines []string, err error) {
	answers := make(chan string, len(g.cfg.Witnesses))
	for i := range g.cfg.Witnesses {
		g.idle.Go(func() { answers <- g.askOne(i, signed) })
	}
	for range g.cfg.Witnesses {
		select {
		case line := <-answers:
			if line != "" {
				lines = append(lines, line)
			}
			if len(lines) == g.cfg.Quorum {
				return lines, nil
			}
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	err = fmt.Errorf("%w: %s", ErrQuorum, g.Fault())
	g.cfg.Logger.Warn("no cosigned checkpoint", "error", err)
	return nil, err
}

// askOne returns the signature of a witness; empty: it has not signed.
func (g *Group) askOne(i int, signed *Signed) string {
	g.mu.Lock()
	one := &g.asked[i]
	if one.busy {
		one.Fault = "it has not answered to the last checkpoint yet"
		g.mu.Unlock()
		return ""
	}
	one.busy = true
	known := one.Size
	g.mu.Unlock()
	ctx, cancel := context.WithTimeout(g.alive, g.cfg.Patience)
	defer cancel()
	line, at, err := g.cfg.Witnesses[i].cosign(ctx, g.client, signed, min(known, signed.Size))
	if errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("it has not answered within %v", g.cfg.Patience)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	one.busy = false
	if err != nil {
		one.Fault = err.Error()
		return ""
	}
	one.Size, one.Time, one.Fault = signed.Size, at, ""
	return line
}
