package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/google/uuid"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/importing"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/blocks"
	"github.com/allot-project/allot/ledger/durable"
	"github.com/allot-project/allot/ledger/embedded"
)

// contentsFlags are those of imports of something that is no log.
type contentsFlags struct {
	Data     string   `help:"Data folder, without a log or with an unfinished import." type:"path" placeholder:"DIR"`
	DryRun   bool     `help:"Read everything and print the report, but write nothing."`
	Report   string   `help:"Write the report, with all odd rows, into this file as JSON." type:"path" placeholder:"FILE"`
	LeaveOut []string `help:"Leave out the rows that these rules refuse, instead of refusing the import." placeholder:"RULE"`
}

// contents reads what is imported.
type contents func(context.Context) (*importing.Rows, error)

// run reads everything, prints the report, and begins a ledger unless rows are
// refused. Nothing is written before everything was read and decided.
func (c *contentsFlags) run(ctx context.Context, read contents) (err error) {
	if c.DryRun {
		_, _, err := c.plan(ctx, read)
		return err
	}
	if c.Data == "" {
		return errors.New("name the folder for the ledger with --data, or look first with --dry-run")
	}
	d, err := openDataFolder(c.Data)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.close()) }()
	if err := errors.Join(d.neverServed(), mayFill(ctx, d.files())); err != nil {
		return err
	}
	log, state, err := c.plan(ctx, read)
	if err != nil {
		return err
	}
	if err := d.files().DiscardUnfinished(); err != nil {
		return err
	}
	into := blocks.Import{From: log.from, Last: state.Head(), Anew: true}
	if err := fillLog(ctx, d.files(), into, log.read, "writing"); err != nil {
		return err
	}
	if err := d.files().EndImport(state.Head()); err != nil {
		return err
	}
	fmt.Printf("%s holds %d providers and %d consumers in %d commits; start it with: allot serve --data %s\n",
		c.Data, state.ProviderCount(), state.ConsumerCount(), state.Head().Sequence, c.Data)
	return nil
}

// madeLog is a log in memory, before it is written.
type madeLog struct {
	from    string
	entries []ledger.Entry
}

func (l *madeLog) read(ctx context.Context, from, to uint64, yield func(ledger.Entry) error) error {
	for _, entry := range l.entries[from-1 : to] {
		if err := errors.Join(ctx.Err(), yield(entry)); err != nil {
			return err
		}
	}
	return nil
}

// plan reads the rows, reports, and makes the whole log. Its State is what a
// server will fold from it.
func (c *contentsFlags) plan(ctx context.Context, read contents) (*madeLog, *ledger.State, error) {
	rows, err := read(ctx)
	if err != nil {
		return nil, nil, err
	}
	names, err := importing.StandardNames()
	if err != nil {
		return nil, nil, err
	}
	plan, report, err := importing.Make(rows, importing.Options{LeaveOut: c.LeaveOut, Standard: names})
	if report != nil {
		err = errors.Join(err, c.tell(report))
	}
	if err != nil {
		return nil, nil, err
	}
	if plan == nil {
		return nil, nil, fmt.Errorf("%d rows cannot be imported as they are, so nothing was written: mend them in the source, "+
			"or leave them out with --leave-out and the names of the rules that refuse them", report.Refused)
	}
	log := &madeLog{from: fmt.Sprintf("%s %s", rows.Kind, rows.Source)}
	state, err := plan.Write(importing.Begin{
		Ledger: ledger.UUID(uuid.New()), NewID: commands.NewID, Time: time.Now().UnixNano(), Actor: "allot import",
		Limit: embedded.MaxPayload / 2,
	}, func(e ledger.Entry) error {
		log.entries = append(log.entries, e)
		return ctx.Err()
	})
	return log, state, err
}

// tell prints the report, and writes it into a file.
func (c *contentsFlags) tell(report *importing.Report) error {
	if c.Report != "" {
		text, err := ledger.PlainJSON(report)
		if err != nil {
			return err
		}
		err = durable.ReplaceWith(c.Report, func(out *os.File) error {
			_, err := out.Write(append(text, '\n'))
			return err
		})
		if err != nil {
			return fmt.Errorf("the report cannot be written: %w", err)
		}
	}
	return report.WriteText(os.Stdout)
}
