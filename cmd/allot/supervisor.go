package main

import (
	"context"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
)

// supervisor reports the server's state to systemd, if a unit of Type=notify
// started it: that it is ready, that it lives (WatchdogSec), that it stops.
type supervisor struct {
	end  context.CancelFunc // nil: systemd has no watchdog for this unit
	done chan struct{}
}

// tellReady reports that the server serves, and from then on that it lives, as
// often as systemd wants to hear it.
func (s *server) tellReady(context.Context) error {
	s.tellSupervisor(daemon.SdNotifyReady)
	every, err := daemon.SdWatchdogEnabled(false)
	if err != nil {
		s.logger.Warn("systemd's watchdog cannot be used", "error", err)
	}
	if err != nil || every == 0 {
		return nil
	}
	ctx, cancel := context.WithCancel(context.Background())
	s.supervisor = supervisor{end: cancel, done: make(chan struct{})}
	go s.feedWatchdog(ctx, every/2)
	return nil
}

// feedWatchdog tells systemd that the process runs.
func (s *server) feedWatchdog(ctx context.Context, every time.Duration) {
	defer close(s.supervisor.done)
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			s.tellSupervisor(daemon.SdNotifyWatchdog)
		}
	}
}

func (s *server) tellStopping() error {
	if s.supervisor.end != nil {
		s.supervisor.end()
		<-s.supervisor.done
		s.supervisor = supervisor{}
	}
	s.tellSupervisor(daemon.SdNotifyStopping)
	return nil
}

// tellSupervisor sends a message, if systemd wants it.
func (s *server) tellSupervisor(state string) {
	if _, err := daemon.SdNotify(false, state); err != nil {
		s.logger.Warn("the server's state could not be reported to systemd", "state", state, "error", err)
	}
}
