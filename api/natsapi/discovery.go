package natsapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
)

// discoveries are the requests that the library answers by itself. They come
// here, too, to be counted: the library has no bound for them.
type discoveries struct {
	floods    floods
	sub       *nats.Subscription
	delivered atomic.Uint64 // here and to the library
}

// discoverySubjects begin with this.
const discoverySubjects = micro.APIPrefix + ".>"

func (s *Service) countDiscoveries() (err error) {
	answered := make(map[string]bool) // by the library; true: at length
	for _, verb := range []micro.Verb{micro.PingVerb, micro.InfoVerb, micro.StatsVerb} {
		for _, to := range [][2]string{{}, {ServiceName, ""}, {ServiceName, s.micro.Info().ID}} {
			subject, err := micro.ControlSubject(verb, to[0], to[1])
			if err != nil {
				return fmt.Errorf("natsapi: %w", err)
			}
			answered[subject] = verb != micro.PingVerb
		}
	}
	d := &s.discoveries
	d.sub, err = s.nc.Subscribe(discoverySubjects, func(m *nats.Msg) {
		n := uint64(1)
		costly, isAnswered := answered[m.Subject]
		if isAnswered {
			n++
		}
		d.delivered.Add(n)
		var from origin
		known := json.Unmarshal([]byte(m.Header.Get(infoHeader)), &from) == nil
		if known {
			s.senders.count(from.Connection)
		}
		if known && costly && d.floods.count(from, s.now()) {
			s.logger.Warn("a NATS client asks what services there are again and again, and is cut off",
				"client", from.client(), "connection", from.Connection)
		}
	})
	if err != nil {
		return fmt.Errorf("natsapi: %w", err)
	}
	// What was dropped would never be seen.
	if err := d.sub.SetPendingLimits(noLimit, noLimit); err != nil {
		return fmt.Errorf("natsapi: %w", err)
	}
	return nil
}

func (d *discoveries) stop() error {
	if d.sub == nil {
		return nil
	}
	if err := d.sub.Unsubscribe(); err != nil && !errors.Is(err, nats.ErrConnectionClosed) {
		return fmt.Errorf("natsapi: %w", err)
	}
	return nil
}

// Unseen is how many messages have come for this door that it has not looked at.
func (s *Service) Unseen() int {
	seen := s.seen.Load() + s.discoveries.delivered.Load()
	return int(s.nc.Stats().InMsgs - s.before - seen)
}
