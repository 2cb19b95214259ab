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

// probe appends again and again where the log cannot be: the stream's leader,
// once there is one, refuses that. It prints when it was sent and refused.
func probe(l *Log) {
	if os.Getenv("ALLOT_CONTROL") != "probe" {
		return
	}
	go func() {
		for ; ; time.Sleep(lookEvery) {
			ctx, cancel := context.WithTimeout(context.Background(), lookTimeout)
			sent := time.Now()
			_, err := l.js.PublishMsg(ctx, &nats.Msg{Subject: Subject, Data: []byte("probe")},
				jetstream.WithExpectStream(l.stream), jetstream.WithExpectLastSequence(1<<62), jetstream.WithRetryAttempts(0))
			cancel()
			var api *jetstream.APIError
			if errors.As(err, &api) && conflictCodes[api.ErrorCode] {
				fmt.Printf("PROBE %d %d\n", sent.UnixNano(), time.Now().UnixNano())
			}
		}
	}()
}
