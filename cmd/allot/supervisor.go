package main

import (
	"context"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
)

// supervisor tells systemd how the server is, if it was started by a unit of
// Type=notify: that it is ready, that it lives (WatchdogSec), that it stops.
type supervisor struct {
	end  context.CancelFunc // nil: systemd does not watch
	done chan struct{}
}

// tellReady says that the server serves, and from then on that it lives, as
// often as systemd wants to hear it.
func (s *server) tellReady(context.Context) error {
	s.tellSupervisor(daemon.SdNotifyReady)
	every, err := daemon.SdWatchdogEnabled(false)
	if err != nil {
		s.logger.Warn("systemd's watchdog cannot be told that the server lives", "error", err)
	}
	if err != nil || every == 0 {
		return nil
	}
	ctx, cancel := context.WithCancel(context.Background())
	s.supervisor = supervisor{end: cancel, done: make(chan struct{})}
	go s.feedWatchdog(ctx, every/2)
	return nil
}

// feedWatchdog is silent while the server does not live (see answerLive), so
// that systemd starts it again.
func (s *server) feedWatchdog(ctx context.Context, every time.Duration) {
	defer close(s.supervisor.done)
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if s.alive() == nil {
				s.tellSupervisor(daemon.SdNotifyWatchdog)
			}
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

// tellSupervisor sends a message, if anybody wants it.
func (s *server) tellSupervisor(state string) {
	if _, err := daemon.SdNotify(false, state); err != nil {
		s.logger.Warn("systemd was not told how the server is", "state", state, "error", err)
	}
}
