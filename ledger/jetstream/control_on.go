//go:build allot_control

package jetstream

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

var unfenced = os.Getenv("ALLOT_CONTROL") == "fencing"

// withheld: appends are not sent while there is a file.
func withheld() bool {
	_, err := os.Stat(os.Getenv("ALLOT_CONTROL_WITHHOLD"))
	return err == nil
}

const (
	lookEvery   = 5 * time.Millisecond
	lookTimeout = 100 * time.Millisecond
)

// probe appends to the log, and to the bucket, again and again with a condition
// that cannot hold, which the stream's leader refuses once there is one. It
// prints when each append was sent and refused.
func probe(l *Log) {
	if os.Getenv("ALLOT_CONTROL") != "probe" {
		return
	}
	probing := func(what, subject, stream string, wrong jetstream.PublishOpt) {
		for ; ; time.Sleep(lookEvery) {
			ctx, cancel := context.WithTimeout(context.Background(), lookTimeout)
			sent := time.Now()
			_, err := l.js.PublishMsg(ctx, &nats.Msg{Subject: subject, Data: []byte("probe")},
				jetstream.WithExpectStream(stream), wrong, jetstream.WithRetryAttempts(0))
			cancel()
			var api *jetstream.APIError
			if errors.As(err, &api) && conflictCodes[api.ErrorCode] {
				fmt.Printf("PROBE %s %d %d\n", what, sent.UnixNano(), time.Now().UnixNano())
			}
		}
	}
	go probing("log", Subject, l.stream, jetstream.WithExpectLastSequence(1<<62))
	go probing("bucket", "$KV."+ValuesBucket+".leader", valuesStream, jetstream.WithExpectLastSequencePerSubject(1<<62))
}
