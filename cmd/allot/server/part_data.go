package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/allot-project/allot/cmd/internal/datafolder"
	"github.com/allot-project/allot/ledger/blocks"
	"github.com/allot-project/allot/ledger/durable"
)

// checkBudget is how long the older part of a large log is checked at the start after an
// unclean stop. The rest is checked while the server runs.
const checkBudget = 30 * time.Second

// cleanBudget is how long the older part of a log is checked at the start after a
// clean stop. The rest is checked while the server runs.
const cleanBudget = time.Second

// folderPart is the data folder, which no other process has meanwhile.
type folderPart struct {
	*server
	*datafolder.Folder
}

func (p *folderPart) start(context.Context) (err error) {
	if p.Folder, err = datafolder.Open(p.config.Data); err == nil {
		p.External = p.config.NATSURL != ""
	}
	return err
}

// judgementPart judges the contents of the data folder. An empty folder becomes a new ledger's.
type judgementPart struct {
	*server

	*blocks.Verdict
}

func (p *judgementPart) start(ctx context.Context) (err error) {
	if err := cmp.Or(p.data.OfKind(p.config.Cluster.on()), p.archives.open()); err != nil {
		return err
	}
	if p.config.Cluster.on() {
		return p.judgeReplica(ctx)
	}
	if err := p.archives.areFree(ctx); err != nil {
		return err
	}
	if err := p.data.MayBegin(); err != nil {
		return err
	}
	if begin, err := p.data.Files().Beginning(); err != nil || begin != nil && begin.History != nil {
		return errors.Join(err, fmt.Errorf("%s is to begin a cluster (allot init --from): start it with --cluster. For a single server, "+
			"use allot import instead", p.config.Data))
	}
	if p.config.NATSURL != "" {
		p.Verdict = &blocks.Verdict{}
		p.Begin, err = p.data.Files().Beginning()
		return err
	}
	show, end := progress(p.logger, "checking the log", "the log's files are good", "bytes", longCheck)
	p.Verdict, err = p.data.Judge(ctx, checkOptions(show))
	end()
	if err == nil {
		p.tellUnread()
	}
	return err
}

// checkOptions bound the check of the log's files.
func checkOptions(show func(done, total uint64)) blocks.CheckOptions {
	return blocks.CheckOptions{Budget: checkBudget, CleanBudget: cleanBudget, Progress: show}
}

func (p *judgementPart) tellUnread() {
	if p.Report != nil && p.Unread > 0 {
		p.logger.Warn("the log is large: its older part is checked while the server runs", "blocks", p.Unread)
	}
}

// judgeReplica judges the log's files of a replica. A damaged log is set aside, and the other replicas fill it
// again. Heads that read models and others have seen are checked later, against the log that the cluster has.
func (p *judgementPart) judgeReplica(ctx context.Context) (err error) {
	if err := os.MkdirAll(p.data.Path(datafolder.Log), 0o750); err != nil {
		return err
	}
	show, end := progress(p.logger, "checking the log", "the log's files are good", "bytes", longCheck)
	p.Verdict, err = p.data.Files().JudgeReplica(ctx, checkOptions(show))
	end()
	switch {
	case err == nil:
		p.tellUnread()
		return nil
	case errors.Is(err, blocks.ErrNoPosition):
		return p.data.Explain(err) // The log may still be good.
	case !errors.Is(err, blocks.ErrDamaged):
		return err
	}
	// The leave comes first: without it, a start that finds no log would wait for an operator.
	failed := p.data.MayRejoin()
	aside := ""
	if failed == nil {
		aside, failed = setLogAside(p.data.Folder)
	}
	if failed != nil {
		return errors.Join(err, failed)
	}
	p.logger.Error("the log of this replica is damaged. It is set aside, and the other replicas fill it again",
		"damage", err, "moved_to", aside)
	return nil
}

// setLogAside moves everything that JetStream has stored, with its agreements
// with other servers, because after damage none of it can be believed.
func setLogAside(d *datafolder.Folder) (aside string, err error) {
	aside = d.Path(fmt.Sprintf("%s-%d", datafolder.Aside, time.Now().UnixNano()))
	if err := os.MkdirAll(aside, 0o750); err != nil {
		return "", err
	}
	const store = "jetstream"
	log := d.Path(datafolder.Log)
	if err := os.Rename(filepath.Join(log, store), filepath.Join(aside, store)); err != nil {
		return "", err
	}
	return aside, errors.Join(durable.SyncFolder(aside), durable.SyncFolder(log), durable.SyncFolder(d.Dir))
}
