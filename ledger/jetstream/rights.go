package jetstream

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// For a log to go on in another stream, and for streams to leave, its user needs more
// permissions than for one stream, and nobody else may have them. An external NATS was
// told by its operator who may do what, so both are tried before that is relied on.

// ErrNoRight means that the log's user lacks a permission that it needs.
var ErrNoRight = errors.New("jetstream: the log's user lacks a permission")

// lastSubject is of the form of the subjects of the log's next streams, and of none of
// them: no log gets that far.
func lastSubject(id string) string { return Subject + ".18446744073709551615." + id }

// CheckMayContinue fails with ErrNoRight unless the user of a connection may do all that
// it takes for the log to go on in another stream, and for streams to leave. It changes
// nothing: what it names is not there.
func CheckMayContinue(nc *nats.Conn) error {
	id := newID()
	none := probePrefix + id
	for _, one := range []struct{ subject, right string }{
		{lastSubject(id), Subject + ".>"},
		{"$JS.API.STREAM.NAMES", "$JS.API.STREAM.NAMES"},
		{"$JS.API.STREAM.LIST", "$JS.API.STREAM.LIST"},
		{"$JS.API.STREAM.INFO." + none, "$JS.API.STREAM.INFO.*"},
		{"$JS.API.STREAM.CREATE." + none, "$JS.API.STREAM.CREATE.*"},
		{"$JS.API.STREAM.DELETE." + none, "$JS.API.STREAM.DELETE.*"},
		{"$JS.API.STREAM.MSG.GET." + none, "$JS.API.STREAM.MSG.GET.*"},
		{"$JS.API.DIRECT.GET." + none, "$JS.API.DIRECT.GET.>"},
	} {
		refused, err := refuses(nc, one.subject)
		if err != nil {
			return fmt.Errorf("jetstream: probe %s: %w", one.subject, err)
		}
		if refused {
			return fmt.Errorf("%w: it may not publish on %s", ErrNoRight, one.right)
		}
	}
	return nil
}

// refuses sends an empty message that nobody answers, and reports whether the server
// refused it.
func refuses(nc *nats.Conn, subject string) (bool, error) {
	if err := nc.Publish(subject, nil); err != nil {
		return false, err
	}
	return refusedAtOnce(nc, subject)
}

// probePrefix begins the names of streams that a Decoy is.
const probePrefix = "ALLOT_PROBE_"

const (
	// decoyWait is how long a message may take to get to a stream of another server.
	decoyWait = 500 * time.Millisecond
	// decoyLook is the pause between two looks.
	decoyLook = 50 * time.Millisecond
)

// Decoy is a stream like those in which the log goes on, and not of the log: whoever
// could harm it could harm them.
type Decoy struct {
	log     *Log
	stream  string
	subject string
}

// NewDecoy makes a Decoy. Its name is of whoever makes it, so that the next one replaces
// what a process has left that was killed.
func (l *Log) NewDecoy(ctx context.Context, name string) (*Decoy, error) {
	ctx, cancel := context.WithTimeout(ctx, l.patience)
	defer cancel()
	d := &Decoy{l, probePrefix + name, lastSubject(newID())}
	if err := d.Remove(ctx); err != nil {
		return nil, err
	}
	cfg := streamConfig(Config{Stream: d.stream, Replicas: l.replicas})
	cfg.Description, cfg.Subjects = "Allot tries who may change its log. It is deleted after that.", []string{d.subject}
	if _, err := l.js.CreateStream(ctx, cfg); err != nil {
		return nil, outOfReach("create stream "+d.stream, err)
	}
	return d, nil
}

// Remove deletes the stream.
func (d *Decoy) Remove(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, d.log.patience)
	defer cancel()
	if err := d.log.js.DeleteStream(ctx, d.stream); err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
		return outOfReach("delete stream "+d.stream, err)
	}
	return nil
}

// Closed fails with ErrOpen if the user of a connection can publish on the subjects of
// the log's next streams, or delete these. It does both, and looks at what has become
// of the stream: whoever may not hear an answer could do harm all the same.
func (d *Decoy) Closed(ctx context.Context, nc *nats.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, d.log.patience)
	defer cancel()
	all := true
	for _, subject := range []string{d.subject, "$JS.API.STREAM.DELETE." + d.stream} {
		refused, err := refuses(nc, subject)
		if err != nil {
			return fmt.Errorf("jetstream: probe %s: %w", subject, err)
		}
		all = all && refused
	}
	if all {
		return nil
	}
	for until := time.Now().Add(decoyWait); time.Now().Before(until); {
		if err := pause(ctx, decoyLook); err != nil {
			return outOfReach("stream "+d.stream, err)
		}
		stream, err := d.log.js.Stream(ctx, d.stream)
		switch {
		case errors.Is(err, jetstream.ErrStreamNotFound):
			return fmt.Errorf("%w: it can delete the log's streams", ErrOpen)
		case err != nil:
			return outOfReach("stream "+d.stream, err)
		case stream.CachedInfo().State.LastSeq > 0:
			return fmt.Errorf("%w: it can publish on %s.>", ErrOpen, Subject)
		}
	}
	return nil
}
