package judge

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/mod/sumdb/note"

	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/proof"
	"github.com/allot-project/allot/projector/check"
)

// Command is a command of any kind, and what its client knows of it.
type Command struct {
	Name, ID string
	Accepted bool
	Recorded bool   // it was accepted, and is in the log
	Refusal  string // why it was refused
	Repeated bool   // it was sent more than once
}

// Commands compares what clients know of their commands with how often each is in the log.
func Commands(commands []Command, logged map[string]int) (wrong []string) {
	for _, c := range commands {
		switch n := logged[c.ID]; {
		case n > 1:
			wrong = append(wrong, fmt.Sprintf("done %d times: %+v", n, c))
		case c.Recorded && n == 0:
			wrong = append(wrong, fmt.Sprintf("acknowledged and lost: %+v", c))
		case c.Refusal != "" && n > 0 && !c.Repeated:
			wrong = append(wrong, fmt.Sprintf("refused and done: %+v", c))
		}
	}
	return wrong
}

// Told is where a server said that the log was.
type Told struct {
	Server string `json:"-"`
	ledger.Head
	Records    int64         `json:"records"`
	Root       ledger.Digest `json:"root"`
	ReadModels ledger.Digest `json:"read_models"`
}

// commits is a log of which all is known.
type commits [][]byte

var errReadOnly = errors.New("this log is only read")

// Append implements ledger.Log.
func (commits) Append(_ uint64, _ []byte, done func(error)) { done(errReadOnly) }

// MaxCommitBytes implements ledger.Log.
func (commits) MaxCommitBytes() int { return 1 << 20 }

// Last implements ledger.Log.
func (c commits) Last(context.Context) (uint64, error) { return uint64(len(c)), nil }

// Read implements ledger.Log.
func (c commits) Read(_ context.Context, from, to uint64, yield func(ledger.Entry) error) error {
	for s := max(from, 1); s <= min(to, uint64(len(c))); s++ {
		if err := yield(ledger.Entry{Sequence: s, Data: c[s-1]}); err != nil {
			return err
		}
	}
	return nil
}

// Log makes State and read models, in a folder, from the log alone, and compares what servers
// have told with it. Nothing may ever have grown over its capacity or limit.
func Log(ctx context.Context, log [][]byte, told []Told, dir string) (wrong []string) {
	bySequence := make(map[uint64][]Told)
	for _, t := range told {
		bySequence[t.Sequence] = append(bySequence[t.Sequence], t)
	}
	before := ledger.NewState()
	_, err := check.Replay(ctx, commits(log), uint64(len(log)), dir, nil, func(r *check.Replayed) error {
		wrong = append(wrong, grown(before, r.State)...)
		before = r.State.Fork()
		for _, t := range bySequence[r.State.Head().Sequence] {
			is := Told{Server: t.Server, Head: r.State.Head(), Records: r.Tree.Size(), Root: r.Tree.Root()}
			if (t.ReadModels != ledger.Digest{}) {
				var err error
				if is.ReadModels, err = r.Views.Digest(); err != nil {
					return err
				}
			}
			if t != is {
				wrong = append(wrong, fmt.Sprintf("%s told %+v, and the log says %+v", t.Server, t, is))
			}
		}
		return nil
	})
	if err != nil {
		wrong = append(wrong, fmt.Sprintf("the log of %d commits cannot be folded: %v", len(log), err))
	}
	return wrong
}

// Verify verifies a log as an auditor does: its chain, each root of consumption, of which it returns how many there
// are, and each signed checkpoint, of which one must vouch for the last commit.
func Verify(ctx context.Context, log [][]byte, signed []proof.Kept, keys note.Verifiers) (roots int, wrong []string) {
	report, err := check.VerifyLog(ctx, commits(log), uint64(len(log)), check.Evidence{Checkpoints: signed, Keys: keys})
	if err != nil {
		return 0, []string{fmt.Sprintf("the log of %d commits cannot be verified: %v", len(log), err)}
	}
	for _, f := range report.Findings {
		wrong = append(wrong, f.Error())
	}
	return report.Roots, wrong
}

// grown is what one commit has let grow beyond its capacity or limit. Less capacity and lower
// limits than what is used are no fault.
func grown(before, after *ledger.State) (wrong []string) {
	after.Providers(func(p *ledger.Provider) bool {
		was, _ := before.Provider(p.UUID)
		for _, inv := range p.Inventories {
			var old ledger.Inventory
			if was != nil {
				for _, one := range was.Inventories {
					if one.Class == inv.Class {
						old = one
					}
				}
			}
			if inv.Used > old.Used && float64(inv.Used) > max(inv.Capacity(), old.Capacity()) {
				wrong = append(wrong, fmt.Sprintf("commit %d: provider %s has %v of class %d, and %d are used",
					after.Head().Sequence, p.UUID, inv.Capacity(), inv.Class, inv.Used))
			}
		}
		for _, c := range p.Counters {
			was, is := ledger.Drawn(before, p.UUID, c.Name, nil), ledger.Drawn(after, p.UUID, c.Name, nil)
			if is > was && is > c.Total {
				wrong = append(wrong, fmt.Sprintf("commit %d: provider %s has %d of counter %s, and %d are drawn",
					after.Head().Sequence, p.UUID, c.Total, c.Name, is))
			}
		}
		return true
	})
	after.Limits(func(l *ledger.Limit) bool {
		used, _ := after.ProjectUsage(l.Project)
		had, _ := before.ProjectUsage(l.Project)
		most, limited := before.Limit(l.LimitKey)
		if n := used.Amount(l.Class); limited && n > had.Amount(l.Class) && n > max(most, l.Most) {
			wrong = append(wrong, fmt.Sprintf("commit %d: project %s has the limit %d of class %d, and holds %d",
				after.Head().Sequence, l.Project, l.Most, l.Class, n))
		}
		return true
	})
	return wrong
}
