package server

import (
	"context"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
)

// supervisorPart reports the server's state to systemd, if a unit of Type=notify
// started it: that it is ready, that it lives (WatchdogSec), that it stops.
type supervisorPart struct {
	settings

	end  context.CancelFunc // nil: systemd has no watchdog for this unit
	done chan struct{}
}

// start reports that the server serves, and from then on that it lives, as
// often as systemd wants to hear it.
func (p *supervisorPart) start(context.Context) error {
	p.tell(daemon.SdNotifyReady)
	every, err := daemon.SdWatchdogEnabled(false)
	if err != nil {
		p.logger.Warn("systemd's watchdog cannot be used", "error", err)
	}
	if err != nil || every == 0 {
		return nil
	}
	ctx, cancel := context.WithCancel(context.Background())
	p.end, p.done = cancel, make(chan struct{})
	go p.feed(ctx, every/2)
	return nil
}

// feed tells systemd that the process runs.
func (p *supervisorPart) feed(ctx context.Context, every time.Duration) {
	defer close(p.done)
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			p.tell(daemon.SdNotifyWatchdog)
		}
	}
}

func (p *supervisorPart) stop() error {
	if p.end != nil {
		p.end()
		<-p.done
	}
	p.tell(daemon.SdNotifyStopping)
	return nil
}

// tell sends a message, if systemd wants it.
func (p *supervisorPart) tell(state string) {
	if _, err := daemon.SdNotify(false, state); err != nil {
		p.logger.Warn("the server's state could not be reported to systemd", "state", state, "error", err)
	}
}
