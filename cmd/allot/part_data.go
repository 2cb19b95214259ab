package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/allot-project/allot/api/auth"
	"github.com/allot-project/allot/api/policy"
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

func (s *server) openData(context.Context) (err error) {
	if s.data, err = datafolder.Open(s.config.Data); err == nil {
		s.data.External = s.config.NATSURL != ""
	}
	return err
}

func (s *server) closeData() error { return s.data.Close() }

// access holds the permissions, and the means of identifying clients.
type access struct {
	auth   auth.Authenticator
	policy *policy.Rules
}

// readAccess reads the files with policy, certificates and users.
func (s *server) readAccess(context.Context) (err error) {
	if s.access.auth, s.access.policy, err = s.config.security(); err != nil {
		return err
	}
	if s.rest.tls, err = s.config.TLS.Config(s.logger); err != nil {
		return err
	}
	s.users, err = s.config.natsUsers()
	return err
}

// judgeData judges the contents of the data folder. An empty folder becomes a new
// ledger's.
func (s *server) judgeData(ctx context.Context) (err error) {
	if err := s.data.OfKind(s.config.Cluster.on()); err != nil {
		return err
	}
	if s.config.Cluster.on() {
		return s.judgeReplica(ctx)
	}
	if err := s.archivesAreFree(ctx); err != nil {
		return err
	}
	if err := s.data.MayBegin(); err != nil {
		return err
	}
	if begin, err := s.data.Files().Beginning(); err != nil || begin != nil && begin.History != nil {
		return errors.Join(err, fmt.Errorf("%s is to begin a cluster (allot init --from): start it with --cluster. For a single server, "+
			"use allot import instead", s.config.Data))
	}
	if s.config.NATSURL != "" {
		s.verdict = &blocks.Verdict{}
		s.verdict.Begin, err = s.data.Files().Beginning()
		return err
	}
	show, end := checkProgress(s.logger)
	s.verdict, err = s.data.Judge(ctx, s.checkOptions(show))
	end()
	if err == nil {
		s.tellUnread()
	}
	return err
}

// checkOptions bounds the check of the log's files.
func (s *server) checkOptions(show func(done, total uint64)) blocks.CheckOptions {
	return blocks.CheckOptions{
		Budget: checkBudget, CleanBudget: cleanBudget,
		Progress: show,
	}
}

func (s *server) tellUnread() {
	if s.verdict.Report != nil && s.verdict.Unread > 0 {
		s.logger.Warn("the log is large: its older part is checked while the server runs", "blocks", s.verdict.Unread)
	}
}

// judgeReplica judges the log's files of a replica. A damaged log is set aside, and the
// other replicas fill it again. Heads that read models and others have seen are checked
// later, against the log that the cluster has.
func (s *server) judgeReplica(ctx context.Context) (err error) {
	if err := os.MkdirAll(s.data.Path(datafolder.Log), 0o750); err != nil {
		return err
	}
	show, end := checkProgress(s.logger)
	s.verdict, err = s.data.Files().JudgeReplica(ctx, s.checkOptions(show))
	end()
	switch {
	case err == nil:
		s.tellUnread()
		return nil
	case errors.Is(err, blocks.ErrNoPosition):
		return s.data.Explain(err) // The log may still be good.
	case !errors.Is(err, blocks.ErrDamaged):
		return err
	}
	aside, failed := setLogAside(s.data)
	if failed = errors.Join(failed, s.data.MayRejoin()); failed != nil {
		return errors.Join(err, failed)
	}
	s.logger.Error("the log of this replica is damaged. It is set aside, and the other replicas fill it again",
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
