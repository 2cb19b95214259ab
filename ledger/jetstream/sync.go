package jetstream

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/allot-project/allot/ledger"
)

const monitorTimeout = 5 * time.Second

// maxMonitorBytes bounds what is read of a monitoring answer.
const maxMonitorBytes = 1 << 20

// CheckSync asks the monitoring endpoint of every NATS server that can hold
// the log whether it syncs each write to disk before it acknowledges it
// (jetstream.sync_always). A server that does not, or that does not say,
// gives an error that wraps ledger.ErrLogUnsafe: an interval loses
// acknowledged commits when the power fails.
func CheckSync(ctx context.Context, monitors []string) error {
	if len(monitors) == 0 {
		return fmt.Errorf("%w: nothing says that the NATS server syncs every write", ledger.ErrLogUnsafe)
	}
	for _, monitor := range monitors {
		always, err := syncsAlways(ctx, monitor)
		if err != nil {
			return fmt.Errorf("%w: %s: %w", ledger.ErrLogUnsafe, monitor, err)
		}
		if !always {
			return fmt.Errorf("%w: %s does not have jetstream { sync_interval: always }", ledger.ErrLogUnsafe, monitor)
		}
	}
	return nil
}

func syncsAlways(ctx context.Context, monitor string) (bool, error) {
	target, err := url.JoinPath(monitor, "jsz")
	if err != nil {
		return false, err
	}
	ctx, cancel := context.WithTimeout(ctx, monitorTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, target, nil)
	if err != nil {
		return false, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return false, err
	}
	defer func() { _ = resp.Body.Close() }() // nothing was written
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxMonitorBytes))
	if err != nil {
		return false, err
	}
	if resp.StatusCode != http.StatusOK {
		return false, fmt.Errorf("answered %s", resp.Status)
	}
	var answer struct {
		Config struct {
			SyncAlways bool `json:"sync_always"`
		} `json:"config"`
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return false, err
	}
	return answer.Config.SyncAlways, nil
}
