package projector

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"time"

	"github.com/allot-project/allot/ledger"
)

// firstPause and maxPause bound the pauses between tries to rebuild read models.
const (
	firstPause = 100 * time.Millisecond
	maxPause   = time.Minute
)

// Heal rebuilds damaged read models from a log, now and whenever damage is found,
// as long as the Projector is open. Without Heal damaged read models only refuse
// to answer.
func (p *Projector) Heal(log ledger.Log) {
	p.healing.Store(true)
	p.idle.Go(func() {
		defer p.healing.Store(false)
		pause, born := time.Duration(0), time.Now()
		for {
			m := p.models.Load()
			select {
			case <-m.broken:
			case <-m.replaced:
				continue
			case <-p.stopped:
				return
			}
			// Read models that break again and again must not use the whole
			// machine.
			if pause = min(max(firstPause, 2*pause), maxPause); time.Since(born) > maxPause {
				pause = 0
			}
			p.rest(pause)
			err := p.replace(m, log)
			if err != nil {
				p.healing.Store(false)
			}
			m.supersede() // no reader waits any more
			if err != nil {
				p.gaveUp(err)
				return
			}
			born = time.Now()
		}
	})
}

func (p *Projector) gaveUp(err error) {
	select {
	case <-p.stopped:
		p.logger.Info("stopped before the read models were rebuilt; the next start goes on")
	default:
		p.logger.Error("the read models cannot be rebuilt", "error", err)
	}
}

// rest waits a moment. It returns false if the Projector is to stop.
func (p *Projector) rest(pause time.Duration) bool {
	select {
	case <-time.After(pause):
		return true
	case <-p.stopped:
		return false
	}
}

// Ready returns nil if the read models can be read and written. Otherwise it
// returns why not, and the progress of the rebuilding.
func (p *Projector) Ready() error {
	m := p.models.Load()
	err := m.fault()
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w; %d of %d commits are folded", err, p.done.Load(), m.checkpoint().Sequence)
}

// Full reports whether the read models wait for space on their disk.
func (p *Projector) Full() bool { return p.models.Load().disk.full.Load() }

// await waits until the condemned read models were replaced. It returns false if
// they never will be.
func (p *Projector) await(m *models) bool {
	if !p.healing.Load() {
		return false
	}
	select {
	case <-m.replaced:
	case <-p.stopped:
	}
	return p.models.Load() != m
}

// replace replaces condemned read models by new ones from the log. It returns an
// error if that can never succeed, or if the Projector is to stop.
func (p *Projector) replace(m *models, log ledger.Log) error {
	p.folding.Lock()
	defer p.folding.Unlock()
	if p.models.Load() != m {
		return nil // they were exchanged meanwhile
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		select {
		case <-p.stopped:
			cancel()
		case <-ctx.Done():
		}
	}()
	target := m.checkpoint()
	for pause := firstPause; ; pause = min(2*pause, maxPause) {
		err := p.setAside(m)
		if err == nil {
			err = p.again(ctx, target, log)
		}
		switch {
		case err == nil:
			p.logger.Info("the read models were rebuilt from the log", "sequence", target.Sequence)
			p.announce()
			return nil
		case isWrongLog(err):
			return err
		}
		p.logger.Error("the read models cannot be rebuilt yet; trying again", "error", err, "next_try_in", pause)
		if !p.rest(pause) {
			return err
		}
	}
}

// setAside ends condemned read models, and makes room for new ones.
func (p *Projector) setAside(m *models) error {
	if m.aside {
		return nil
	}
	if err := m.close(); err != nil {
		p.logger.Warn("damaged read models were not closed properly", "error", err)
	}
	err := errors.Join(p.renewHighWater(), p.giveWay(m.fault()))
	m.aside = err == nil
	return err
}

// isWrongLog reports whether the log is such that no read models can be made from
// it, rather than out of reach.
func isWrongLog(err error) bool {
	for _, wrong := range []error{
		ledger.ErrChain, ledger.ErrCorrupt, ledger.ErrInvariant, ledger.ErrLogBehind, ledger.ErrLogGap,
	} {
		if errors.Is(err, wrong) {
			return true
		}
	}
	return false
}

// again makes read models up to a commit and puts them in place: from those of
// another replica, if there are any, or from nothing. After an error there are
// none, and the next try begins with an empty folder.
func (p *Projector) again(ctx context.Context, target ledger.Head, log ledger.Log) error {
	p.done.Store(0)
	if state := p.refilled(ctx); state != nil {
		err := p.goOn(ctx, state, target, log)
		if err == nil || ctx.Err() != nil {
			return err
		}
		p.logger.Warn("what another replica has sent is of no use, and the read models are made from the log", "error", err)
	}
	return p.goOn(ctx, ledger.NewState(), target, log)
}

// goOn folds the log from a State on, up to a commit, into the read models that
// there are, which are not behind the State, or into new ones.
func (p *Projector) goOn(ctx context.Context, state *ledger.State, target ledger.Head, log ledger.Log) error {
	m, err := openModels(p.files, p.dir, p.logger, p.stopped)
	if err != nil {
		return errors.Join(err, p.files.RemoveAll(p.dir))
	}
	begin := m.checkpoint()
	target = later(target, begin)
	err = ledger.ReadCommits(ctx, log, state.Head(), target.Sequence, func(c *ledger.Commit) error {
		changes, err := state.Fold(c)
		if err == nil && c.Sequence > begin.Sequence {
			err = m.fold(c, &changes, func(ledger.Head) error { return nil })
		}
		p.done.Store(c.Sequence)
		return errors.Join(err, ctx.Err())
	})
	if err == nil && state.Head() != target {
		err = fmt.Errorf("%w: commit %d is not the one that was folded before", ledger.ErrChain, target.Sequence)
	}
	if err = cmp.Or(err, m.fault()); err == nil {
		p.models.Store(m)
		return p.seen(m.checkpoint())
	}
	err = errors.Join(err, m.close())
	if ctx.Err() == nil {
		err = errors.Join(err, p.files.RemoveAll(p.dir))
	}
	return err
}

// later is the one of two heads of a log that comes later.
func later(a, b ledger.Head) ledger.Head {
	if b.Sequence > a.Sequence {
		return b
	}
	return a
}

// renewHighWater opens the file of the high-water mark again, or a new one if it cannot be
// written any more. What it says stays.
func (p *Projector) renewHighWater() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.highWater.failed == nil {
		return nil
	}
	return p.highWater.renew()
}

// giveWay removes read models of no use, to make room for new ones. The last
// damaged ones are kept for examination.
func (p *Projector) giveWay(reason error) error {
	if _, err := p.files.Stat(p.dir); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if errors.Is(reason, errOtherVersion) {
		p.logger.Info("read models of another version removed; they are rebuilt from the log", "reason", reason)
		return p.files.RemoveAll(p.dir)
	}
	parent := filepath.Dir(p.dir)
	names, err := p.files.List(parent)
	if err != nil {
		return err
	}
	for _, name := range names {
		if strings.HasPrefix(name, filepath.Base(p.dir)+damagedSuffix) {
			if err := p.files.RemoveAll(filepath.Join(parent, name)); err != nil {
				return err
			}
		}
	}
	aside := fmt.Sprintf("%s%s%d", p.dir, damagedSuffix, time.Now().UnixNano())
	p.logger.Warn("read models set aside; they are rebuilt from the log", "error", reason, "moved_to", aside)
	return p.files.Rename(p.dir, aside)
}

const damagedSuffix = ".damaged-"
