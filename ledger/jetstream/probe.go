package jetstream

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// probeTimeout is how long a probe waits for an answer that may not come.
const probeTimeout = 2 * time.Second

// deafWait is how long the log's own connection waits for an answer to another one's probe.
const deafWait = 500 * time.Millisecond

// ErrOpen means that somebody without the right to could write the log, or change
// its stream.
var ErrOpen = errors.New("jetstream: the log is open to others")

// CheckClosed tests whether the user of a connection could publish on the log's
// subjects, or reach its stream with JetStream's API. It changes and stores
// nothing, because JetStream refuses its probes. The answer for a user that may
// not hear answers goes to the log's own connection.
func CheckClosed(nc, log *nats.Conn, stream string) error {
	if stream == "" {
		stream = DefaultStream
	}
	refusable := nats.Header{
		"Nats-Expected-Stream": {"NOT-" + stream}, "Nats-Expected-Last-Sequence": {"18446744073709551614"},
	}
	for _, probe := range []struct {
		subject, what string
		header        nats.Header
	}{
		{Subject, "publish on " + Subject, refusable},
		{RejectedSubject, "publish on " + RejectedSubject, refusable},
		{"$JS.API.STREAM.INFO." + stream, "use the JetStream API", nil},
	} {
		open, err := reaches(nc, log, &nats.Msg{Subject: probe.subject, Header: probe.header})
		if err != nil {
			return fmt.Errorf("jetstream: probe %s: %w", probe.subject, err)
		}
		if open {
			return fmt.Errorf("%w: it can %s", ErrOpen, probe.what)
		}
	}
	return nil
}

// reaches reports whether a message gets anywhere. Only a refusal by the server, the
// answer that nobody listens, or none where the log would hear it, means that it does not.
func reaches(nc, log *nats.Conn, msg *nats.Msg) (bool, error) {
	wait := probeTimeout
	answers, err := subscribed(nc)
	deaf := errors.Is(err, nats.ErrPermissionViolation)
	if deaf {
		wait = deafWait
		answers, err = subscribed(log)
	}
	if err != nil {
		return false, err
	}
	defer func() { _ = answers.Unsubscribe() }() // the connection may be gone
	msg.Reply = answers.Subject
	if err := nc.PublishMsg(msg); err != nil {
		return false, err
	}
	if refused, err := refusedAtOnce(nc, msg.Subject); err != nil || refused {
		return false, err
	}
	answer, err := answers.NextMsg(wait)
	switch {
	case err == nil:
		return !saysNoStream(answer), nil
	case errors.Is(err, nats.ErrNoResponders):
		return false, nil
	case errors.Is(err, nats.ErrTimeout):
		// Somebody has it, and does not answer. What is published in another account than
		// the log's has no answer that the log could hear.
		return !deaf, nil
	}
	return false, err
}

// subscribed waits for answers, or fails with nats.ErrPermissionViolation where the
// connection may not hear any.
func subscribed(nc *nats.Conn) (*nats.Subscription, error) {
	sub, err := nc.SubscribeSync(nc.NewInbox())
	if err != nil {
		return nil, err
	}
	refused, err := refusedAtOnce(nc, sub.Subject)
	if refused {
		err = nats.ErrPermissionViolation
	}
	if err != nil {
		_ = sub.Unsubscribe() // the connection may be gone
		return nil, err
	}
	return sub, nil
}

// refusedAtOnce reports whether the server has refused to publish on a subject, or to
// subscribe to it, just now. It says so before it answers the next ping.
func refusedAtOnce(nc *nats.Conn, subject string) (bool, error) {
	if err := nc.FlushTimeout(probeTimeout); err != nil {
		return false, err
	}
	last := nc.LastError()
	return errors.Is(last, nats.ErrPermissionViolation) && strings.HasSuffix(last.Error(), strconv.Quote(subject)), nil
}

// saysNoStream recognizes JetStream's answer for a missing stream: the user is in
// an account of its own, with its own streams.
func saysNoStream(answer *nats.Msg) bool {
	var said struct {
		Error struct {
			Code jetstream.ErrorCode `json:"err_code"`
		} `json:"error"`
	}
	if err := json.Unmarshal(answer.Data, &said); err != nil {
		return false
	}
	return said.Error.Code == jetstream.JSErrCodeStreamNotFound ||
		said.Error.Code == jetstream.JSErrCodeJetStreamNotEnabledForAccount
}
