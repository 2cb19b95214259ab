package operate

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/allot-project/allot/api/audit"
	"github.com/allot-project/allot/api/client"
	"github.com/allot-project/allot/api/wire"
	"github.com/allot-project/allot/cmd/internal/cli"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/archive"
	"github.com/allot-project/allot/ledger/chain"
	"github.com/allot-project/allot/ledger/embedded"
	"github.com/allot-project/allot/ledger/proof"
)

type remoteLog struct {
	readOnly

	c *client.Client
}

// remotePatience is how long one request may stay without an answer: longer than several
// servers take until another one leads.
const remotePatience = 30 * time.Second

// asked asks a running server, and says so if no server answers.
func asked[Q, T any](
	ctx context.Context, ask func(context.Context, Q) (wire.Answer[T], error), query Q,
) (wire.Answer[T], error) {
	patient, cancel := context.WithTimeout(ctx, remotePatience)
	defer cancel()
	answer, err := ask(patient, query)
	if errors.Is(err, nats.ErrNoResponders) && ctx.Err() == nil {
		err = fmt.Errorf("no server of Allot is on this NATS, or this user may not ask it: %w", err)
	}
	return answer, err
}

func (l *remoteLog) Last(ctx context.Context) (uint64, error) {
	answer, err := asked(ctx, l.c.Commits, wire.CommitsQuery{From: 1, Limit: 1})
	return answer.Sequence, err
}

// checkpoint asks the server to sign a checkpoint. The server does so if it has a key.
func (l *remoteLog) checkpoint(ctx context.Context, upTo uint64) ([]proof.Kept, error) {
	answer, err := asked(ctx, l.c.Checkpoint, wire.CheckpointQuery{When: wire.When{At: wire.Instant(fmt.Sprint(upTo))}})
	var refusal *wire.Error
	if errors.As(err, &refusal) && refusal.Code == wire.ErrorNotFound {
		return nil, nil
	}
	return []proof.Kept{{Path: "of the server", Signed: []byte(answer.Result.Signed)}}, err
}

func (l *remoteLog) Read(ctx context.Context, from, to uint64, yield func(ledger.Entry) error) error {
	for from <= to {
		answer, err := asked(ctx, l.c.Commits, wire.CommitsQuery{From: from, Limit: int(min(1000, to-from+1))})
		if err != nil {
			return err
		}
		if len(answer.Result.Commits) == 0 {
			return fmt.Errorf("%w at sequence %d", ledger.ErrLogGap, from)
		}
		for _, c := range answer.Result.Commits {
			if c.Sequence != from || ledger.DigestOf(c.Data).String() != c.Digest {
				return &chain.BadEntryError{Sequence: from, Err: ledger.ErrCorrupt}
			}
			if err := yield(ledger.Entry{Sequence: c.Sequence, Data: c.Data}); err != nil {
				return err
			}
			from++
		}
	}
	return nil
}

type httpLog struct {
	readOnly

	server *cli.Client
}

var _ ledger.Log = (*httpLog)(nil)

// maxCommitLine is the length of the longest line with a commit, as base64 with its digest.
const maxCommitLine = 2 * embedded.MaxPayload

const httpCommits = 10_000

func (l *httpLog) Last(ctx context.Context) (uint64, error) {
	var status audit.Status
	_, err := l.server.ReadJSON(ctx, cli.Request{Path: "/audit/status"}, &status)
	return status.Sequence, err
}

func (l *httpLog) Read(ctx context.Context, from, to uint64, yield func(ledger.Entry) error) error {
	for from = max(from, 1); from <= to; {
		next, err := l.some(ctx, from, to, yield)
		if err != nil {
			return err
		}
		if next == from {
			return fmt.Errorf("%w at sequence %d", ledger.ErrLogGap, from)
		}
		from = next
	}
	return nil
}

// sign has the server sign the checkpoint of a commit, which must say of the log what is
// known of it here. nil: the server has no key.
func (l *httpLog) sign(ctx context.Context, c *proof.Checkpoint) ([]byte, error) {
	at := url.Values{"at": {fmt.Sprint(c.Sequence)}}
	signed, err := l.server.Read(ctx, cli.Request{Path: "/audit/checkpoint", Query: at})
	var no *cli.StatusError
	if errors.As(err, &no) && no.Code == http.StatusNotFound {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	says, err := proof.Unverified(signed)
	if err == nil && *says != *c {
		err = fmt.Errorf("%w: the server signs another checkpoint of sequence %d than that of the log it sends", archive.ErrFork, c.Sequence)
	}
	return signed, err
}

// some reads the commits of one answer. It returns the sequence after them.
func (l *httpLog) some(ctx context.Context, from, to uint64, yield func(ledger.Entry) error) (next uint64, err error) {
	query := url.Values{"from": {fmt.Sprint(from)}, "limit": {fmt.Sprint(min(httpCommits, to-from+1))}}
	resp, err := l.server.Send(ctx, cli.Request{Path: "/audit/commits", Query: query})
	if err != nil {
		return from, err
	}
	defer func() { _ = resp.Body.Close() }() // nothing was written
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(make([]byte, 1<<16), maxCommitLine)
	for lines.Scan() {
		var line struct {
			audit.Commit
			audit.Trouble
		}
		switch err := json.Unmarshal(lines.Bytes(), &line); {
		case err != nil:
			return from, fmt.Errorf("the server's answer breaks off after sequence %d: %w", from-1, err)
		case line.Error != "":
			return from, fmt.Errorf("the server cannot read its log at sequence %d: %s", from, line.Error)
		case line.Sequence != from || ledger.DigestOf(line.Data) != line.Digest:
			return from, &chain.BadEntryError{Sequence: from, Err: ledger.ErrCorrupt}
		}
		if err := yield(ledger.Entry{Sequence: from, Data: line.Data}); err != nil {
			return from, err
		}
		from++
	}
	if err := lines.Err(); err != nil {
		return from, fmt.Errorf("the server's answer breaks off after sequence %d: %w", from-1, err)
	}
	return from, nil
}
