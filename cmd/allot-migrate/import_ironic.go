package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/allot-project/allot/cmd/allot-migrate/contents"
	"github.com/allot-project/allot/cmd/allot-migrate/contents/ironicapi"
	"github.com/allot-project/allot/cmd/allot-migrate/contents/ironicdb"
	"github.com/allot-project/allot/cmd/allot-migrate/contents/placementdb"
	"github.com/allot-project/allot/cmd/internal/datafolder"
	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/blocks"
	"github.com/allot-project/allot/ledger/chain"
	"github.com/allot-project/allot/ledger/durable"
	"github.com/allot-project/allot/ledger/embedded"
	"github.com/allot-project/allot/ledger/system"
)

type importIronicCommand struct {
	contentsFlags  `embed:""`
	placementLogin `embed:""`
	Into           string `help:"Data folder with a ledger, whose server is stopped: add the nodes to it, instead of beginning a folder with --data. This is how one ledger gets the contents of a Placement and of an Ironic." type:"existingdir" placeholder:"DIR"`
	From           string `help:"Ironic's database: mysql://USER@HOST/ironic, postgresql://USER@HOST/ironic or sqlite:PATH; or its REST API: http://HOST:6385. An address with a password belongs in the environment, or in a file." env:"ALLOT_IRONIC" placeholder:"ADDRESS"`
	FromFile       string `help:"File with the address, or Ironic's own ironic.conf." env:"ALLOT_IRONIC_FILE" type:"existingfile" placeholder:"FILE"`
}

// Run imports everything: a database as of one moment, or what the REST API tells.
func (c *importIronicCommand) Run(ctx context.Context) error {
	if c.Into != "" && c.Data != "" {
		return errors.New("give only one of --data, for a new ledger, and --into, for one that exists")
	}
	address, err := ironicAddress.given("--from", c.From, c.FromFile)
	if err != nil {
		return err
	}
	read, err := c.ironicAt(address)
	if err != nil {
		return err
	}
	if c.Into == "" {
		return c.run(ctx, "an Ironic", read)
	}
	return c.add(ctx, read)
}

// ironicAt returns what reads the Ironic at an address: its database, or its REST API.
func (c *importIronicCommand) ironicAt(address string) (reader, error) {
	if isREST(address) {
		login, err := c.source(address)
		if err != nil {
			return nil, err
		}
		source := &ironicapi.Source{URL: address, Token: login.Token, HTTP: login.HTTP}
		return watched("reading", source.Read), nil
	}
	db, err := placementdb.Parse(address)
	if err != nil {
		return nil, err
	}
	return watched("reading", func(ctx context.Context, show contents.Progress) (*contents.Rows, error) {
		return ironicdb.Read(ctx, db, show)
	}), nil
}

// stagingFolder has a ledger's log while something is added to it.
const stagingFolder = "log.import"

// add writes the ledger's log with the nodes at its end beside the ledger's own, and exchanges the two at once.
// Before that moment the ledger is as it was, and after it the import is whole; nothing is in between.
func (c *importIronicCommand) add(ctx context.Context, read reader) (err error) {
	d, err := datafolder.Open(c.Into)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	base, err := openBase(ctx, d)
	if err != nil {
		return err
	}
	plan, err := c.decide(ctx, read)
	if err != nil {
		return err
	}
	log := logOf(plan)
	log.old, log.before = base.log, base.state.Head().Sequence
	begin := c.begin()
	begin.Time = max(begin.Time, base.newest)
	if err := plan.Add(begin, base.state, log.keep(ctx)); err != nil {
		return err
	}
	warnOfOwners(base.state)
	if c.DryRun {
		return nil
	}
	if err := exchangeLog(ctx, d, log, base.state.Head()); err != nil {
		return err
	}
	fmt.Printf("%s holds %s more, after sequence %d; start it with: allot serve --data %s\n", c.Into, log.holds, log.before, c.Into)
	return nil
}

// warnOfOwners says what keeps nodes from being resource providers, too: then a node would have two owners.
func warnOfOwners(state *ledger.State) {
	on := &commands.SetNodeProviders{On: true, Limit: 1}
	if _, rejection := commands.Decide(commands.Submission{Command: on}, state); rejection != nil {
		fmt.Printf("allot serve --node-providers will refuse this ledger until it is mended: %s\n", rejection.Message)
	}
}

type baseLedger struct {
	log    ledger.Log
	state  *ledger.State
	newest int64 // time of its last record
}

// openBase folds the ledger in the folder. It refuses those that other servers or
// archives have a part of, and those that have nodes.
func openBase(ctx context.Context, d *datafolder.Folder) (*baseLedger, error) {
	log, last, err := d.OpenLog(ctx)
	if err != nil {
		return nil, err
	}
	base := &baseLedger{log: log, state: ledger.NewState()}
	err = chain.Read(ctx, log, ledger.Head{}, last.Sequence, func(commit *ledger.Commit) error {
		base.newest = commit.Records[len(commit.Records)-1].Time
		_, err := base.state.Fold(commit)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("the ledger in %s cannot be read from its beginning: %w; nothing was changed. If its first commits are "+
			"in an archive, restore all of it with allot restore into a new folder, and add to that", d.Dir, err)
	}
	return base, base.mayTakeNodes(d.Dir)
}

func (b *baseLedger) mayTakeNodes(dir string) error {
	if b.state.Term().Number > 0 {
		return fmt.Errorf("%s belongs to one of several servers, and the others would not have what is added: nothing was changed. "+
			"Import into a new folder, and begin the cluster with that", dir)
	}
	found := false
	b.state.Nodes(func(*ledger.Node) bool { found = true; return false })
	b.state.NodeAllocations(func(*ledger.NodeAllocation) bool { found = true; return false })
	b.state.AllChassis(func(*ledger.Chassis) bool { found = true; return false })
	if found {
		return fmt.Errorf("the ledger in %s has nodes, node allocations or chassis, which an import could contradict: nothing was changed. "+
			"Name a ledger without them", dir)
	}
	return nil
}

func exchangeLog(ctx context.Context, d *datafolder.Folder, log *madeLog, last ledger.Head) error {
	staging := d.Path(stagingFolder)
	if err := os.RemoveAll(staging); err != nil { // an interrupted import left it
		return err
	}
	if err := os.MkdirAll(staging, 0o750); err != nil {
		return err
	}
	files := embedded.Files(staging)
	job := blocks.Import{From: log.from, Last: last, Anew: true}
	if err := datafolder.Fill(ctx, files, job, log.read, "writing"); err != nil {
		return notWritten(staging, err)
	}
	if err := files.EndImport(last); err != nil {
		return err
	}
	if err := durable.SyncTree(staging); err != nil {
		return err
	}
	err := system.Exchange(staging, d.Path(datafolder.Log))
	if err != nil {
		return fmt.Errorf("%w; the ledger is as it was. Copy the folder to a file system that can do so, such as ext4 or XFS", err)
	}
	if err := durable.SyncFolder(filepath.Clean(d.Dir)); err != nil {
		return err
	}
	return os.RemoveAll(staging)
}
