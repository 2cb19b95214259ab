package jetstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/allot-project/allot/ledger"
)

const monitorTimeout = 5 * time.Second

// maxMonitorBytes is how much of a monitoring answer is read, in bytes.
const maxMonitorBytes = 1 << 20

// Synced says which of the servers that can hold the log sync each write.
type Synced struct {
	// Always are the names of the servers that sync each write before they
	// acknowledge it.
	Always []string
	// Away are the monitors that did not answer. A server that is down says
	// nothing; it does not count as one that syncs lazily.
	Away map[string]error
}

// ErrLazy says that a server that can hold the log acknowledges what is not on
// its disk yet.
var ErrLazy = errors.New("it does not sync every write")

// CheckSync asks the monitoring endpoint of every NATS server that can hold
// the log whether it syncs each write to disk before it acknowledges it
// (jetstream.sync_always). A server that does not gives an error that wraps
// ledger.ErrLogUnsafe: an interval loses acknowledged commits when the power
// fails. So does less than a majority that answers, which could not vouch for a
// commit.
func CheckSync(ctx context.Context, monitors []string) (Synced, error) {
	found := Synced{Away: make(map[string]error)}
	if len(monitors) == 0 {
		return found, fmt.Errorf("%w: nothing says that the NATS server syncs every write", ledger.ErrLogUnsafe)
	}
	for _, monitor := range monitors {
		name, always, err := syncsAlways(ctx, monitor)
		switch {
		case err != nil:
			found.Away[monitor] = err
		case !always:
			return found, fmt.Errorf("%w: %w: %s (%s) does not have jetstream { sync_interval: always }",
				ledger.ErrLogUnsafe, ErrLazy, name, monitor)
		default:
			found.Always = append(found.Always, name)
		}
	}
	if 2*len(found.Always) <= len(monitors) {
		var errs []error
		for monitor, err := range found.Away {
			errs = append(errs, fmt.Errorf("%s: %w", monitor, err))
		}
		return found, fmt.Errorf("%w: %d of %d servers say that they sync every write: %w",
			ledger.ErrLogUnsafe, len(found.Always), len(monitors), errors.Join(errs...))
	}
	return found, nil
}

func syncsAlways(ctx context.Context, monitor string) (name string, always bool, err error) {
	target, err := url.JoinPath(monitor, "varz")
	if err != nil {
		return "", false, err
	}
	ctx, cancel := context.WithTimeout(ctx, monitorTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, target, nil)
	if err != nil {
		return "", false, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", false, err
	}
	defer func() { _ = resp.Body.Close() }() // nothing was written
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxMonitorBytes))
	if err != nil {
		return "", false, err
	}
	if resp.StatusCode != http.StatusOK {
		return "", false, fmt.Errorf("answered %s", resp.Status)
	}
	var answer struct {
		Name      string `json:"server_name"`
		JetStream struct {
			Config *struct {
				SyncAlways bool `json:"sync_always"`
			} `json:"config"`
		} `json:"jetstream"`
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return "", false, err
	}
	if answer.JetStream.Config == nil {
		return answer.Name, false, nil
	}
	return answer.Name, answer.JetStream.Config.SyncAlways, nil
}
