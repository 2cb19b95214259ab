package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/allot-project/allot/cmd/allot-migrate/contents"
	"github.com/allot-project/allot/cmd/allot-migrate/contents/jsonl"
	"github.com/allot-project/allot/cmd/internal/datafolder"
	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/blocks"
	"github.com/allot-project/allot/ledger/durable"
	"github.com/allot-project/allot/ledger/embedded"
)

// importCommand is "allot-migrate import": it begins a new data folder with the contents of something else.
type importCommand struct {
	Placement importPlacementCommand `cmd:"" help:"Begin a data folder with the contents of a Placement." example:"import placement --from sqlite:placement.db --dry-run"`
	Ironic    importIronicCommand    `cmd:"" help:"Begin a data folder with the nodes and node allocations of an Ironic, or add them to a ledger." example:"import ironic --from http://127.0.0.1:6385 --dry-run"`
	JSONL     importJSONLCommand     `cmd:"" name:"jsonl" help:"Begin a data folder with the contents of a file of JSON lines." example:"import jsonl contents.jsonl --data /var/lib/allot"`
}

type contentsFlags struct {
	Data     string   `help:"Data folder, without a log or with an unfinished import." type:"path" placeholder:"DIR"`
	DryRun   bool     `help:"Read everything and print the report, but write nothing."`
	Report   string   `help:"Write the report, with all odd rows, into this file as JSON." type:"path" placeholder:"FILE"`
	LeaveOut []string `help:"Leave out the rows that these rules refuse, instead of refusing the import." placeholder:"RULE"`
}

// reader reads what is imported, or compared.
type reader func(context.Context) (*contents.Rows, error)

// run reads everything, prints the report, and begins a ledger unless rows are refused. The folder is marked
// before the first read, so that no server begins an empty ledger there. An import that fails leaves nothing.
func (c *contentsFlags) run(ctx context.Context, from string, read reader) (err error) {
	if c.DryRun {
		_, _, err := c.plan(ctx, read)
		return err
	}
	if c.Data == "" {
		return errors.New("name the folder for the ledger with --data, or look first with --dry-run")
	}
	_, err = os.Stat(c.Data)
	made := errors.Is(err, fs.ErrNotExist)
	d, err := datafolder.Open(c.Data)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	if err := errors.Join(d.NeverServed(), datafolder.MayFill(ctx, d.Files())); err != nil {
		return err
	}
	if err := d.Files().BeginImport(blocks.Import{From: from, Anew: true}); err != nil {
		return err
	}
	if err := c.fill(ctx, d, read); err != nil {
		return errors.Join(err, abandon(d, made))
	}
	return nil
}

func abandon(d *datafolder.Folder, made bool) error {
	if err := d.Files().AbandonImport(); err != nil {
		return err
	}
	switch {
	case made:
		return os.RemoveAll(d.Dir)
	case d.Empty:
		return os.Remove(d.Path(datafolder.Log))
	}
	return nil
}

func (c *contentsFlags) fill(ctx context.Context, d *datafolder.Folder, read reader) error {
	if err := d.Files().DiscardImport(); err != nil { // of a run that was killed
		return err
	}
	log, state, err := c.plan(ctx, read)
	if err != nil {
		return err
	}
	into := blocks.Import{From: log.from, Last: state.Head(), Anew: true}
	err = datafolder.Fill(ctx, d.Files(), into, log.read, "writing")
	if err == nil {
		err = d.Files().EndImport(state.Head())
	}
	if err != nil {
		return notWritten(c.Data, err)
	}
	fmt.Printf("%s holds %s, up to sequence %d; start it with: allot serve --data %s\n",
		c.Data, log.holds, state.Head().Sequence, c.Data)
	return nil
}

// notWritten says what to do when a log cannot be written. The reason of a full disk is often
// that an answer is missing.
func notWritten(dir string, err error) error {
	return fmt.Errorf("write into %s: %w; if the disk is full, make room, and run the same import again", dir, err)
}

// madeLog is a log in memory, before it is written, or what comes after the commits of another one.
type madeLog struct {
	from    string
	holds   string // in words
	entries []ledger.Entry
	old     ledger.Log // nil: there is none
	before  uint64     // the last sequence that is taken from it
}

// read yields the commits from..to, as a readLog.
func (l *madeLog) read(ctx context.Context, from, to uint64, yield func(ledger.Entry) error) error {
	if l.before > 0 && from <= l.before {
		if err := l.old.Read(ctx, from, min(to, l.before), yield); err != nil {
			return err
		}
	}
	for _, entry := range l.entries[max(from, l.before+1)-l.before-1 : max(to, l.before)-l.before] {
		if err := errors.Join(ctx.Err(), yield(entry)); err != nil {
			return err
		}
	}
	return nil
}

// plan reads the rows, reports, and makes the whole log. Its State is what a server will fold from it.
func (c *contentsFlags) plan(ctx context.Context, read reader) (*madeLog, *ledger.State, error) {
	plan, err := c.decide(ctx, read)
	if err != nil {
		return nil, nil, err
	}
	log := logOf(plan)
	state, err := plan.Write(c.begin(), log.keep(ctx))
	return log, state, err
}

// decide reads the rows and reports what the rules say about them.
func (c *contentsFlags) decide(ctx context.Context, read reader) (*contents.Plan, error) {
	rows, err := read(ctx)
	if err != nil {
		return nil, fmt.Errorf("%w; nothing was imported", err)
	}
	plan, report, err := contents.Make(rows, c.LeaveOut...)
	if report != nil {
		err = errors.Join(err, c.tell(report))
	}
	if err != nil {
		return nil, err
	}
	if plan == nil {
		return nil, fmt.Errorf("%d rows cannot be imported as they are, so nothing was written: mend them in the source, "+
			"or leave them out with --leave-out and the names of the rules that refuse them", report.Refused)
	}
	return plan, nil
}

func (*contentsFlags) begin() contents.Begin {
	return contents.Begin{
		Ledger: ledger.UUID(uuid.New()), NewID: commands.NewID, Time: time.Now().UnixNano(), Actor: "allot-migrate import",
		Limit: embedded.MaxPayload / 2,
	}
}

func logOf(plan *contents.Plan) *madeLog {
	holds := fmt.Sprintf("%d providers and %d consumers", len(plan.Providers), len(plan.Consumers))
	if len(plan.Nodes) > 0 {
		holds = fmt.Sprintf("%d nodes and %d node allocations", len(plan.Nodes), len(plan.NodeAllocations))
	}
	return &madeLog{from: fmt.Sprintf("%s %s", plan.Contents.Kind, plan.Contents.Source), holds: holds}
}

func (l *madeLog) keep(ctx context.Context) func(ledger.Entry) error {
	return func(e ledger.Entry) error {
		l.entries = append(l.entries, e)
		return ctx.Err()
	}
}

func (c *contentsFlags) tell(report *contents.Report) error {
	if c.Report != "" {
		text, err := ledger.PlainJSON(report)
		if err != nil {
			return err
		}
		if err := durable.Replace(c.Report, append(text, '\n')); err != nil {
			return fmt.Errorf("the report cannot be written: %w", err)
		}
	}
	return report.WriteText(os.Stdout)
}

type importPlacementCommand struct {
	contentsFlags  `embed:""`
	placementLogin `embed:""`
	From           string `help:"Placement's database: mysql://USER@HOST/placement, postgresql://USER@HOST/placement or sqlite:PATH; or its REST API: http://HOST:8778. An address with a password belongs in the environment, or in a file." env:"ALLOT_PLACEMENT" placeholder:"ADDRESS"`
	FromFile       string `help:"File with the address, or Placement's own placement.conf." env:"ALLOT_PLACEMENT_FILE" type:"existingfile" placeholder:"FILE"`
}

// Run imports everything: a database as of one moment, or what the REST API tells.
func (c *importPlacementCommand) Run(ctx context.Context) error {
	address, err := placementAddress.given("--from", c.From, c.FromFile)
	if err != nil {
		return err
	}
	read, err := c.contentsAt(address)
	if err != nil {
		return err
	}
	return c.run(ctx, "a Placement", read)
}

// addressOf says where the address of a service is given.
type addressOf struct {
	what     string // the service
	variable string // that may hold the address; the one of a file has "_FILE" after it
	section  string // of the service's own configuration, that has "connection"
}

var (
	placementAddress = addressOf{"Placement", "ALLOT_PLACEMENT", "[placement_database]"}
	ironicAddress    = addressOf{"Ironic", "ALLOT_IRONIC", "[database]"}
	databaseAddress  = addressOf{"database", "ALLOT_EXPORT_PLACEMENT", "[placement_database]"}
)

// given returns the address that a flag gives, or the file of the flag with "-file" after its name.
func (a addressOf) given(flag, address, file string) (string, error) {
	switch {
	case address != "" && file != "":
		return "", fmt.Errorf("give only one of %s and %s-file, or of %s and %s_FILE", flag, flag, a.variable, a.variable)
	case file != "":
		return a.in(file)
	case address == "":
		return "", fmt.Errorf("name the %s with %s, %s or %s-file", a.what, flag, a.variable, flag)
	}
	return address, nil
}

// in reads an address from a file of one line, or from the service's configuration.
func (a addressOf) in(path string) (string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	section := ""
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		switch {
		case line == "" || strings.HasPrefix(line, "#") || strings.HasPrefix(line, ";"):
		case strings.HasPrefix(line, "["):
			section = line
		case section == "":
			return line, nil
		case section == a.section:
			if key, value, found := strings.Cut(line, "="); found && strings.TrimSpace(key) == "connection" {
				return strings.TrimSpace(value), nil
			}
		}
	}
	return "", fmt.Errorf("%s has neither an address in its first line nor %s connection", path, a.section)
}

type importJSONLCommand struct {
	File          string `arg:"" help:"File of JSON lines; docs/import-jsonl.md describes it." type:"existingfile"`
	contentsFlags `embed:""`
}

// Run imports the whole file.
func (c *importJSONLCommand) Run(ctx context.Context) error {
	return c.run(ctx, filepath.Base(c.File), func(context.Context) (rows *contents.Rows, err error) {
		in, err := os.Open(c.File)
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, in.Close()) }()
		rows, err = jsonl.Read(in, filepath.Base(c.File), time.Now().UnixNano())
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c.File, err)
		}
		return rows, nil
	})
}
