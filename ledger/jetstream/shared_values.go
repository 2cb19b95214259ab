package jetstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/allot-project/allot/ledger"
)

// Names of what replicas of one ledger share beside its log.
const (
	ValuesBucket = "ALLOT"
	// ValuesSubject is the subject on which values are published.
	ValuesSubject = "$KV." + ValuesBucket + ".>"
	valuesStream  = "KV_" + ValuesBucket
)

// Values are small values that replicas share, by key, in a bucket of JetStream
// that is replicated like the log. A value is changed only if it still has the
// revision that was seen.
type Values struct {
	replicated
	js      jetstream.JetStream
	bucket  jetstream.KeyValue
	timeout time.Duration
}

// ValuesConfig configures Values.
type ValuesConfig struct {
	Replicas int
	// Timeout is how long one request may take.
	Timeout time.Duration
}

// listTimeouts is how long a list may take, in timeouts of one request.
const listTimeouts = 4

// ErrRevision means that a value has another revision by now.
var ErrRevision = errors.New("jetstream: another server changed the value")

// OpenValues finds or makes the bucket.
func OpenValues(ctx context.Context, nc *nats.Conn, cfg ValuesConfig) (*Values, error) {
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, fmt.Errorf("jetstream: %w", err)
	}
	bucket, err := js.KeyValue(ctx, ValuesBucket)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		bucket, err = js.CreateKeyValue(ctx, jetstream.KeyValueConfig{
			Bucket: ValuesBucket, Description: "What replicas of Allot agree on: who leads, and who they are.",
			History: 1, Storage: jetstream.FileStorage, Replicas: max(cfg.Replicas, 1),
		})
	}
	if err != nil {
		return nil, outOfReach("bucket "+ValuesBucket, err)
	}
	return &Values{replicated{nc, valuesStream}, js, bucket, cfg.Timeout}, nil
}

// Get reads a value; revision 0: there is none. A replica of the bucket that lags
// may answer, so the value may be an old one.
func (v *Values) Get(ctx context.Context, key string) (value []byte, revision uint64, err error) {
	ctx, cancel := context.WithTimeout(ctx, v.timeout)
	defer cancel()
	entry, err := v.bucket.Get(ctx, key)
	switch {
	case errors.Is(err, jetstream.ErrKeyNotFound):
		return nil, 0, nil
	case err != nil:
		return nil, 0, outOfReach("value "+key, err)
	}
	return entry.Value(), entry.Revision(), nil
}

// Set changes a value that has a revision, 0 if it does not exist, and returns
// the new revision. The error wraps ErrRevision if it has another one by now.
// After any other error the value may or may not have changed.
func (v *Values) Set(ctx context.Context, key string, revision uint64, value []byte) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, v.timeout)
	defer cancel()
	ack, err := v.js.PublishMsg(ctx, &nats.Msg{Subject: "$KV." + ValuesBucket + "." + key, Data: value},
		jetstream.WithExpectStream(valuesStream), jetstream.WithExpectLastSequencePerSubject(revision),
		jetstream.WithRetryAttempts(0)) // A retry could hide that the first try was stored.
	if err != nil {
		var api *jetstream.APIError
		if errors.As(err, &api) && conflictCodes[api.ErrorCode] {
			return 0, fmt.Errorf("%w: %s", ErrRevision, key)
		}
		return 0, outOfReach("value "+key, err)
	}
	return ack.Sequence, nil
}

// Put sets a value, whatever it was.
func (v *Values) Put(ctx context.Context, key string, value []byte) error {
	ctx, cancel := context.WithTimeout(ctx, v.timeout)
	defer cancel()
	if _, err := v.bucket.Put(ctx, key, value); err != nil {
		return outOfReach("value "+key, err)
	}
	return nil
}

// Delete removes a value.
func (v *Values) Delete(ctx context.Context, key string) error {
	ctx, cancel := context.WithTimeout(ctx, v.timeout)
	defer cancel()
	if err := v.bucket.Purge(ctx, key); err != nil {
		return outOfReach("value "+key, err)
	}
	return nil
}

// List returns the values whose keys begin with a prefix, by the rest of the key.
// It makes no consumer, because a consumer would outlive a killed process. It asks several
// times, and again what is not answered: a server that is cut off is asked, too, until the
// others have noticed.
func (v *Values) List(ctx context.Context, prefix string) (map[string][]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, listTimeouts*v.timeout)
	defer cancel()
	stream, err := v.js.Stream(ctx, valuesStream)
	if err != nil {
		return nil, outOfReach("bucket "+ValuesBucket, err)
	}
	info, err := askLeader(ctx, func() (*jetstream.StreamInfo, error) { // others may lack the newest values
		return stream.Info(ctx, jetstream.WithSubjectFilter("$KV."+ValuesBucket+"."+prefix+">"))
	})
	if err != nil {
		return nil, outOfReach("bucket "+ValuesBucket, err)
	}
	values := make(map[string][]byte)
	for subject := range info.State.Subjects {
		key := strings.TrimPrefix(subject, "$KV."+ValuesBucket+".")
		value, revision, err := v.Get(ctx, key)
		for err != nil && pause(ctx, retryPause) == nil {
			value, revision, err = v.Get(ctx, key)
		}
		if err != nil {
			return nil, err
		}
		if revision > 0 {
			values[strings.TrimPrefix(key, prefix)] = value
		}
	}
	return values, nil
}

// Peers are the servers that keep a stream.
type Peers struct {
	Leader string `json:"leader"` // empty: none, as far as the answering server knows
	Others []Peer `json:"others"`
}

// Peer is a server that keeps a stream without leading it.
type Peer struct {
	Name    string        `json:"name"`
	Current bool          `json:"current"`
	Offline bool          `json:"offline,omitempty"`
	Lag     uint64        `json:"lag,omitempty"`
	Active  time.Duration `json:"active"` // time since it was heard, in nanoseconds
}

// replicated is a stream that servers keep together.
type replicated struct {
	nc     *nats.Conn
	stream string
}

// Peers returns the servers that keep the stream.
func (r replicated) Peers(ctx context.Context) (Peers, error) {
	var answer struct {
		Error   *jetstream.APIError `json:"error"`
		Cluster *struct {
			Leader   string `json:"leader"`
			Replicas []Peer `json:"replicas"`
		} `json:"cluster"`
	}
	if err := ask(ctx, r.nc, "$JS.API.STREAM.INFO."+r.stream, nil, &answer); err != nil {
		return Peers{}, err
	}
	if answer.Error != nil {
		return Peers{}, outOfReach("stream "+r.stream, answer.Error)
	}
	if answer.Cluster == nil {
		return Peers{}, nil
	}
	return Peers{answer.Cluster.Leader, answer.Cluster.Replicas}, nil
}

// MoveLeader makes another server lead the stream.
func (r replicated) MoveLeader(ctx context.Context, to string) error {
	var answer struct {
		Error *jetstream.APIError `json:"error"`
	}
	request := map[string]any{}
	if to != "" {
		request["placement"] = map[string]string{"preferred": to}
	}
	if err := ask(ctx, r.nc, "$JS.API.STREAM.LEADER.STEPDOWN."+r.stream, request, &answer); err != nil {
		return err
	}
	if answer.Error != nil {
		return fmt.Errorf("jetstream: stream %s: the leader does not step down: %w", r.stream, answer.Error)
	}
	return nil
}

func ask(ctx context.Context, nc *nats.Conn, subject string, request, answer any) error {
	body, err := json.Marshal(request)
	if request == nil {
		body = nil
	}
	if err != nil {
		return fmt.Errorf("jetstream: %w", err)
	}
	msg, err := nc.RequestWithContext(ctx, subject, body)
	if err != nil {
		return fmt.Errorf("%w: %s: %w", ledger.ErrUnavailable, subject, err)
	}
	if err := json.Unmarshal(msg.Data, answer); err != nil {
		return fmt.Errorf("jetstream: %s: an answer that cannot be read: %w", subject, err)
	}
	return nil
}
