package judge

import (
	"strings"
	"testing"

	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/ledgertest"
	"github.com/allot-project/allot/ledger/proof"
	"github.com/allot-project/allot/projector/check"
)

// encoded is the log of some events, a commit each.
func encoded(t *testing.T, events ...ledger.Event) (log [][]byte) {
	t.Helper()
	head := ledger.Head{}
	for i, event := range events {
		builder := ledger.NewCommitBuilder()
		builder.Begin(head)
		record := ledger.Record{
			CommandID: ledgertest.ID(9, byte(i)), Command: "Test", Actor: "test", Time: int64(i + 1), Events: []ledger.Event{event},
		}
		if i == 0 {
			record.Events = ledgertest.Vocabulary()
		}
		_, _, err := builder.Add(record, 1<<20)
		ledgertest.OK(t, err)
		commit, text, err := builder.Seal()
		ledgertest.OK(t, err)
		head, log = commit.Head(), append(log, append([]byte(nil), text...))
	}
	return log
}

func TestLog(t *testing.T) {
	takesOf := func(provider, n byte, amount int64) ledger.Event {
		return ledger.AllocationsReplaced{Consumer: ledgertest.ID(2, n), Project: "q", User: "u",
			Allocations: []ledger.AllocationRecord{{Provider: ledgertest.ID(1, provider), Class: "VCPU", Amount: amount}}}
	}
	takes := func(n byte, amount int64) ledger.Event { return takesOf(1, n, amount) }
	most := func(n int64) ledger.Event { return ledger.LimitSet{Project: "q", Class: "VCPU", Most: n} }
	shrunk := ledger.InventorySet{Provider: ledgertest.ID(1, 1), Generation: 9, Inventory: ledger.InventoryRecord{
		Class: "VCPU", Total: 10, MinUnit: 1, MaxUnit: 64, StepSize: 1, Ratio: 1}}
	counter := ledger.ProviderCountersReplaced{Provider: ledgertest.ID(1, 1), Generation: 9,
		Counters: []ledger.Counter{{Name: "SLICE", Total: 7}}}
	draws := ledger.ProviderCountersReplaced{Provider: ledgertest.ID(1, 2), Generation: 9,
		Draws: []ledger.DrawRecord{{Class: "VCPU", Counter: "SLICE", Amount: 2}}}
	child := ledger.ProviderCreated{Provider: ledgertest.ID(1, 2), Name: "card", Parent: ledgertest.ID(1, 1)}
	below := shrunk
	below.Provider = ledgertest.ID(1, 2)
	good := encoded(t, nil, most(5), takes(2, 5))
	for name, c := range map[string]struct {
		log   [][]byte
		told  []Told
		wrong string
	}{
		"as it should be":            {log: good},
		"less capacity than is used": {log: encoded(t, nil, takes(2, 60), shrunk)},
		"a limit below what is used": {log: encoded(t, nil, takes(2, 60), most(1))},
		"over capacity":              {log: encoded(t, nil, takes(2, 100), takes(3, 60)), wrong: "has 148.5 of class 0, and 162 are used"},
		"over capacity that shrank":  {log: encoded(t, nil, takes(2, 60), shrunk, takes(3, 1)), wrong: "63 are used"},
		"over a limit":               {log: encoded(t, nil, most(5), takes(2, 6)), wrong: "has the limit 5 of class 0, and holds 6"},
		"as much as a counter has":   {log: encoded(t, nil, child, below, counter, draws, takesOf(2, 2, 3))},
		"more than a counter has":    {log: encoded(t, nil, child, below, counter, draws, takesOf(2, 2, 4)), wrong: "counter SLICE, and 8 are drawn"},
		"a commit is missing":        {log: append(append([][]byte(nil), good[0]), good[2]), wrong: "cannot be folded"},
		"another log was told":       {log: good, told: []Told{{Server: "a", Head: ledger.Head{Sequence: 2}}}, wrong: "a told"},
	} {
		wrong := strings.Join(Log(t.Context(), c.log, c.told, t.TempDir()), "\n")
		if c.wrong == "" && wrong != "" || !strings.Contains(wrong, c.wrong) {
			t.Errorf("%s: judged %q, want %q", name, wrong, c.wrong)
		}
	}
}

// TestVerify: checkpoints of the log are good, and those of another log, or of another key, are not.
func TestVerify(t *testing.T) {
	log := encoded(t, nil, ledger.LimitSet{Project: "q", Class: "VCPU", Most: 1})
	key, verifiers := ledgertest.Key(t)
	var good, other []byte
	_, err := check.Replay(t.Context(), commits(log), 2, "", nil, func(r *check.Replayed) (err error) {
		c := r.Checkpoint()
		if good, err = c.Sign(key); err == nil {
			c.Root = ledger.Digest{1}
			other, err = c.Sign(key)
		}
		return err
	})
	ledgertest.OK(t, err)
	for want, signed := range map[string][][]byte{
		"":                      {good},
		"no signed checkpoint":  nil,
		"it vouches for":        {good, other},
		"not a good checkpoint": {good, []byte("other\n\n")},
	} {
		var list []proof.Kept
		for _, one := range signed {
			list = append(list, proof.Kept{Signed: one})
		}
		_, found := Verify(t.Context(), log, list, verifiers)
		if wrong := strings.Join(found, "\n"); want == "" && wrong != "" || !strings.Contains(wrong, want) {
			t.Errorf("judged %q, want %q", wrong, want)
		}
	}
}

func TestCommands(t *testing.T) {
	for name, c := range map[string]struct {
		command Command
		logged  int
		wrong   string
	}{
		"recorded":                  {Command{Accepted: true, Recorded: true}, 1, ""},
		"accepted without a record": {Command{Accepted: true}, 0, ""},
		"refused":                   {Command{Refusal: "no"}, 0, ""},
		"refused, of several tries": {Command{Refusal: "no", Repeated: true}, 1, ""},
		"never known":               {Command{Repeated: true}, 1, ""},
		"lost":                      {Command{Accepted: true, Recorded: true}, 0, "acknowledged and lost"},
		"twice":                     {Command{Accepted: true, Recorded: true}, 2, "done 2 times"},
		"refused and done":          {Command{Refusal: "no"}, 1, "refused and done"},
	} {
		wrong := strings.Join(Commands([]Command{c.command}, map[string]int{"": c.logged}), "\n")
		if c.wrong == "" && wrong != "" || !strings.Contains(wrong, c.wrong) {
			t.Errorf("%s: judged %q, want %q", name, wrong, c.wrong)
		}
	}
}
