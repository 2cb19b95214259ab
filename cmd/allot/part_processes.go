package main

import (
	"context"
	"strings"
	"time"

	"github.com/allot-project/allot/api/auth"
	"github.com/allot-project/allot/cmd/internal/datafolder"
	"github.com/allot-project/allot/commands/processes"
	"github.com/allot-project/allot/projector/check"
)

func (s *server) startAllocator(context.Context) error {
	s.leader.allocator = processes.StartNodePlacer(s.leader.writer.Load(), s.views, s.logger)
	return nil
}

func (s *server) stopAllocator() error {
	s.leader.allocator.Stop()
	return nil
}

func (s *server) startExpirer(context.Context) error {
	s.leader.expirer = processes.StartExpirer(s.leader.writer.Load(), s.views, time.Now, s.logger)
	return nil
}

func (s *server) stopExpirer() error {
	s.leader.expirer.Stop()
	return nil
}

// limitsEvery is how often Keystone's limits are read: that long a new one may not hold.
const limitsEvery = time.Minute

// startLimitFollower keeps limits in step with Keystone's.
func (s *server) startLimitFollower(context.Context) error {
	keystone, is := s.access.auth.(*auth.Keystone)
	if !is || s.config.UnifiedLimits == "" {
		return nil
	}
	service, region, _ := strings.Cut(s.config.UnifiedLimits, "@")
	s.leader.limits = processes.StartLimitFollower(processes.LimitFollowerConfig{
		Source: &auth.UnifiedLimits{Keystone: keystone, Service: service, Region: region},
		Submit: s.leader.writer.Load(), Views: s.views, Every: limitsEvery, Logger: s.logger, Status: &s.limits,
	})
	return nil
}

func (s *server) stopLimitFollower() error {
	if s.leader.limits != nil {
		s.leader.limits.Stop()
	}
	return nil
}

// startScrubber starts the search for damage on the disk.
func (s *server) startScrubber(context.Context) error {
	cfg := check.ScrubberConfig{
		Views: s.views, Snapshots: s.data.Path(datafolder.Snapshots),
		BytesPerSecond: scrubRate, Every: s.paces.ScrubEvery, Now: time.Now, Logger: s.logger,
	}
	if s.log.nats != nil {
		files := s.data.Files()
		cfg.Log, cfg.Whole = &files, s.whole()
	}
	s.scrubber = check.StartScrubber(cfg)
	return nil
}

func (s *server) stopScrubber() error {
	if s.scrubber != nil {
		s.scrubber.Stop()
	}
	return nil
}
