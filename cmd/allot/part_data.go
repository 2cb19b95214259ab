package main

import (
	"context"
	"os"
	"time"

	"github.com/allot-project/allot/api/auth"
	"github.com/allot-project/allot/api/policy"
	"github.com/allot-project/allot/ledger/blocks"
)

// cleanBudget is how long the older part of a log is checked at a start after
// a clean stop; the rest is checked while the server runs.
const cleanBudget = time.Second

func (s *server) openData(context.Context) (err error) {
	if s.data, err = openDataFolder(s.config.Data); err == nil {
		s.data.external = s.config.NATSURL != ""
	}
	return err
}

func (s *server) closeData() error { return s.data.close() }

// access is who may do what, and how that is found out.
type access struct {
	auth   auth.Authenticator
	policy *policy.Rules
}

// readAccess reads the files about policy, certificates and users.
func (s *server) readAccess(context.Context) (err error) {
	if s.access.auth, s.access.policy, err = s.config.security(); err != nil {
		return err
	}
	if s.rest.tls, err = s.config.TLS.config(s.logger); err != nil {
		return err
	}
	s.users, err = s.config.natsUsers()
	return err
}

// judgeData looks at what is in the data folder, and takes an empty one for a
// new ledger.
func (s *server) judgeData(ctx context.Context) (err error) {
	if s.config.Cluster.on() {
		return s.judgeReplica(ctx)
	}
	if err := s.data.mayBegin(); err != nil {
		return err
	}
	if s.config.NATSURL != "" {
		s.verdict = &blocks.Verdict{}
		s.verdict.Begin, err = s.data.files().Beginning()
		return err
	}
	show, end := checkProgress(s.logger)
	s.verdict, err = s.data.judge(ctx, blocks.CheckOptions{
		PassOver: s.config.PassOver, Budget: s.config.CheckBudget, CleanBudget: min(cleanBudget, s.config.CheckBudget),
		Progress: show,
	})
	end()
	if err == nil && s.verdict.Report != nil && s.verdict.Unread > 0 {
		s.logger.Warn("the log is large: its older part is checked while the server runs", "blocks", s.verdict.Unread)
	}
	return err
}

// judgeReplica looks at the log's files of one of several servers. What it
// lacks at its end the others have.
func (s *server) judgeReplica(context.Context) (err error) {
	s.verdict = &blocks.Verdict{}
	if err := os.MkdirAll(s.data.path(logFolder), 0o750); err != nil {
		return err
	}
	s.verdict.Begin, err = s.data.files().Beginning()
	return err
}
