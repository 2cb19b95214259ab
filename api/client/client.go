// Package client submits commands and asks queries over NATS.
//
//	nc, err := nats.Connect("nats://127.0.0.1:4222")
//	ledger := client.New(nc, client.Options{})
//	result, err := ledger.Submit(ctx, &commands.ReleaseConsumer{Consumer: id})
//
// A command is sent again with the same id until it is answered, so it is carried
// out once, whatever happens on the way. Any number of calls may be under way on
// one connection at the same time.
package client

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/allot-project/allot/api/wire"
	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/demand"
	"github.com/allot-project/allot/commands/encoding"
	"github.com/allot-project/allot/ledger"
)

// Options configure a Client. The zero value is good.
type Options struct {
	// Encoding is encoding.TypeMsgpack (the default) or encoding.TypeJSON.
	Encoding string
	// TryTimeout is how long the first try waits for its reply; 0: 5 seconds. After one
	// that had none, the next waits twice as long, so that a slow reply is heard in the end.
	TryTimeout time.Duration
	// Pause is the first pause between two tries; 0: 20 milliseconds. It doubles
	// with each try, with some randomness, up to a second.
	Pause time.Duration
}

const maxPause = time.Second

// Client speaks to a ledger. Any number of goroutines may use it.
type Client struct {
	nc   *nats.Conn
	opts Options
}

// New returns a Client on a connection, which still belongs to the caller.
func New(nc *nats.Conn, opts Options) *Client {
	if opts.Encoding == "" {
		opts.Encoding = encoding.TypeMsgpack
	}
	if opts.TryTimeout == 0 {
		opts.TryTimeout = 5 * time.Second
	}
	if opts.Pause == 0 {
		opts.Pause = 20 * time.Millisecond
	}
	return &Client{nc: nc, opts: opts}
}

// Result is the outcome of an accepted command.
type Result struct {
	// Address is that of the command's record. Its sequence is the new generation
	// of every consumer that the command changed. It is zero for a command that
	// had nothing to change.
	Address ledger.Address
	// Repeated means that the id was known, and that this is the first result.
	Repeated bool
	// Claimed is what a claim chose, by consumer.
	Claimed []wire.Claimed
}

// RejectedError means that the command was understood and rejected. It changed
// nothing.
type RejectedError struct{ demand.Rejection }

// Error implements error.
func (e *RejectedError) Error() string { return e.String() }

// ErrUnanswered means that the context ended before the command was answered, or
// that this NATS user may not hear answers. The command may still be carried out;
// submit it again with the same id to get its result.
var ErrUnanswered = errors.New("client: no answer in time")

// Submit carries a command out under a new id. It tries until the context ends. A
// rejection is a *RejectedError.
func (c *Client) Submit(ctx context.Context, command commands.Command) (Result, error) {
	return c.SubmitAs(ctx, commands.NewID(), command)
}

// SubmitAs is Submit under an id of the caller's. With the id, the caller can
// safely submit the command again after a crash.
func (c *Client) SubmitAs(ctx context.Context, id ledger.UUID, command commands.Command) (Result, error) {
	reply, err := c.command(ctx, map[string]string{wire.HeaderCommandID: id.String()}, command)
	return resultOf(reply), err
}

func resultOf(r wire.Reply) Result {
	return Result{
		Address: ledger.Address{Sequence: r.Sequence, Index: r.Index}, Repeated: r.Repeated, Claimed: r.Claimed,
	}
}

// Claim has the ledger choose and allocate, under a new id.
func (c *Client) Claim(ctx context.Context, claim *commands.Claim) (Result, error) {
	return c.Submit(ctx, claim)
}

// DryRun returns what would happen if the command were carried out now: the
// events, or a *RejectedError.
func (c *Client) DryRun(ctx context.Context, command commands.Command) ([]ledger.EventLine, error) {
	reply, err := c.command(ctx, map[string]string{wire.HeaderDryRun: "true"}, command)
	return reply.Events, err
}

func (c *Client) command(ctx context.Context, headers map[string]string, command commands.Command) (wire.Reply, error) {
	subject := wire.CommandPrefix + "." + commands.NameOf(command)
	failure := func(r *wire.Reply) (*wire.Error, error) { return r.Error, nil }
	reply, err := request(ctx, c, subject, headers, command, failure)
	if err == nil && reply.Rejection != nil {
		err = &RejectedError{*reply.Rejection}
	}
	return reply, err
}

// Item is one command of a batch of independent commands.
type Item struct {
	ID      ledger.UUID // keep it, to submit the command again after a crash
	Command commands.Command
}

// ItemResult is the outcome of one command of a batch.
type ItemResult struct {
	Result
	// Err is nil, a *RejectedError, or a *wire.Error.
	Err error
}

// SubmitAll carries many independent commands out with one message, or with
// as few as the server takes. Each is answered on its own; those that could not
// be dealt with for a reason that passes are submitted again, under their ids.
func (c *Client) SubmitAll(ctx context.Context, items []Item) ([]ItemResult, error) {
	results := make([]ItemResult, len(items))
	left := make([]int, len(items))
	for i := range left {
		left[i] = i
	}
	for pause := c.opts.Pause; len(left) > 0; pause = min(2*pause, maxPause) {
		batch := make([]wire.BatchCommand, len(left))
		for n, i := range left {
			batch[n] = wire.BatchCommand{
				Command: commands.NameOf(items[i].Command), ID: items[i].ID, Body: encoding.Body{Value: items[i].Command},
			}
		}
		replies, err := c.submitEach(ctx, batch)
		if err != nil {
			return nil, err
		}
		var again []int
		for n, i := range left {
			r := replies[n]
			if r.Error != nil && r.Error.Retry {
				again = append(again, i)
			}
			results[i] = itemResult(r)
		}
		if left = again; len(left) == 0 {
			break
		}
		select {
		case <-time.After(pause/2 + rand.N(pause)):
		case <-ctx.Done():
			return results, fmt.Errorf("%w: %w; %d commands", ErrUnanswered, ctx.Err(), len(left))
		}
	}
	return results, nil
}

// submitEach sends independent commands in one message. If the server does not
// take it, it sends them in two; what is too large by itself is answered here.
func (c *Client) submitEach(ctx context.Context, list []wire.BatchCommand) ([]wire.Reply, error) {
	reply, err := c.batch(ctx, nil, wire.Batch{Commands: list})
	switch {
	case errors.Is(err, nats.ErrMaxPayload) && len(list) == 1:
		return []wire.Reply{{Error: &wire.Error{Code: wire.ErrorTooLarge, Message: err.Error()}}}, nil
	case errors.Is(err, nats.ErrMaxPayload):
		first, err := c.submitEach(ctx, list[:len(list)/2])
		if err != nil {
			return nil, err
		}
		second, err := c.submitEach(ctx, list[len(list)/2:])
		return append(first, second...), err
	case err != nil:
		return nil, err
	case len(reply.Replies) != len(list):
		return nil, fmt.Errorf("client: %d replies to %d commands", len(reply.Replies), len(list))
	}
	return reply.Replies, nil
}

func itemResult(r wire.Reply) ItemResult {
	switch {
	case r.Error != nil:
		return ItemResult{Err: r.Error}
	case r.Rejection != nil:
		return ItemResult{Err: &RejectedError{*r.Rejection}}
	}
	return ItemResult{Result: resultOf(r)}
}

// SubmitAtomic carries commands out in order in one record, under one id: all of
// them or none.
func (c *Client) SubmitAtomic(ctx context.Context, id ledger.UUID, list ...commands.Command) (Result, error) {
	batch := wire.Batch{Atomic: true}
	for _, one := range list {
		body := encoding.Body{Value: one}
		batch.Commands = append(batch.Commands, wire.BatchCommand{Command: commands.NameOf(one), Body: body})
	}
	reply, err := c.batch(ctx, map[string]string{wire.HeaderCommandID: id.String()}, batch)
	if err != nil {
		return Result{}, err
	}
	result := itemResult(*reply.Result)
	return result.Result, result.Err
}

func (c *Client) batch(ctx context.Context, headers map[string]string, batch wire.Batch) (wire.BatchReply, error) {
	return request(ctx, c, wire.BatchSubject, headers, batch, func(r *wire.BatchReply) (*wire.Error, error) {
		switch {
		case r.Error != nil:
			return r.Error, nil
		case r.Result != nil:
			return r.Result.Error, nil
		case batch.Atomic:
			return nil, errors.New("client: no result of the batch")
		}
		return nil, nil
	})
}

// Allocations returns what a consumer holds.
func (c *Client) Allocations(ctx context.Context, q wire.AllocationsQuery) (wire.Answer[wire.Allocations], error) {
	return ask[wire.Allocations](ctx, c, &q)
}

// Usages returns what a project's consumers hold.
func (c *Client) Usages(ctx context.Context, q wire.UsagesQuery) (wire.Answer[[]wire.Usage], error) {
	return ask[[]wire.Usage](ctx, c, &q)
}

// Provider returns a provider.
func (c *Client) Provider(ctx context.Context, q wire.ProviderQuery) (wire.Answer[wire.Provider], error) {
	return ask[wire.Provider](ctx, c, &q)
}

// Node returns a bare metal node.
func (c *Client) Node(ctx context.Context, q wire.NodeQuery) (wire.Answer[wire.Node], error) {
	return ask[wire.Node](ctx, c, &q)
}

// Chassis returns a chassis.
func (c *Client) Chassis(ctx context.Context, q wire.ChassisQuery) (wire.Answer[wire.Chassis], error) {
	return ask[wire.Chassis](ctx, c, &q)
}

// NodeAllocation returns the allocation of a whole node.
func (c *Client) NodeAllocation(
	ctx context.Context, q wire.NodeAllocationQuery,
) (wire.Answer[wire.NodeAllocation], error) {
	return ask[wire.NodeAllocation](ctx, c, &q)
}

// History returns a page of the history of one entity, newest first.
func (c *Client) History(ctx context.Context, q wire.HistoryQuery) (wire.Answer[wire.History], error) {
	return ask[wire.History](ctx, c, &q)
}

// Commits returns a piece of the log itself.
func (c *Client) Commits(ctx context.Context, q wire.CommitsQuery) (wire.Answer[wire.Commits], error) {
	return ask[wire.Commits](ctx, c, &q)
}

// Checkpoint returns a signed checkpoint of the log.
func (c *Client) Checkpoint(ctx context.Context, q wire.CheckpointQuery) (wire.Answer[wire.Checkpoint], error) {
	return ask[wire.Checkpoint](ctx, c, &q)
}

// Holders returns the holders of a provider, with their owners.
func (c *Client) Holders(ctx context.Context, q wire.HoldersQuery) (wire.Answer[wire.Holders], error) {
	return ask[wire.Holders](ctx, c, &q)
}

// Rejections returns rejected commands, newest first.
func (c *Client) Rejections(ctx context.Context, q wire.RejectionsQuery) (wire.Answer[[]wire.RejectedCommand], error) {
	return ask[[]wire.RejectedCommand](ctx, c, &q)
}

// Candidates returns allocations that would satisfy a request.
func (c *Client) Candidates(ctx context.Context, q wire.CandidatesQuery) (wire.Answer[[]wire.Candidate], error) {
	return ask[[]wire.Candidate](ctx, c, &q)
}

// Consumption returns how much was held, or used of providers, for how long.
func (c *Client) Consumption(ctx context.Context, q wire.ConsumptionQuery) (wire.Answer[wire.Consumption], error) {
	return ask[wire.Consumption](ctx, c, &q)
}

// Capacity returns how many more allocations fit that satisfy a request.
func (c *Client) Capacity(ctx context.Context, q wire.CapacityQuery) (wire.Answer[wire.Capacity], error) {
	return ask[wire.Capacity](ctx, c, &q)
}

func ask[T any](ctx context.Context, c *Client, q wire.Query) (wire.Answer[T], error) {
	subject := wire.QueryPrefix + "." + wire.NameOf(q)
	return request(ctx, c, subject, nil, q, func(a *wire.Answer[T]) (*wire.Error, error) { return a.Error, nil })
}

// request sends the same message until the answer is final, that is, not worth another try. An error
// that the server sent is a *wire.Error, which failure finds in the answer, or else what is wrong with it.
func request[R any](
	ctx context.Context, c *Client, subject string, headers map[string]string, body any,
	failure func(*R) (*wire.Error, error),
) (answer R, err error) {
	read := func(data []byte, contentType string) (*wire.Error, error) {
		answer = *new(R)
		if err := encoding.DecodeReply(data, contentType, &answer); err != nil {
			return nil, err
		}
		return failure(&answer)
	}
	data, err := encoding.Encode(body, c.opts.Encoding)
	if err != nil {
		return answer, fmt.Errorf("client: %w", err)
	}
	msg := nats.NewMsg(subject)
	msg.Data = data
	msg.Header.Set(wire.HeaderContentType, c.opts.Encoding)
	for name, value := range headers {
		msg.Header.Set(name, value)
	}
	if trace := commands.TraceOf(ctx); trace != nil {
		msg.Header.Set(wire.HeaderTraceParent, trace.Parent)
		if trace.State != "" {
			msg.Header.Set(wire.HeaderTraceState, trace.State)
		}
	}
	var last error
	limit := c.opts.TryTimeout
	for pause := c.opts.Pause; ; pause = min(2*pause, maxPause) {
		again, err := c.try(ctx, msg, limit, read)
		if errors.Is(err, context.DeadlineExceeded) {
			limit *= 2
		}
		if !again {
			return answer, err
		}
		last = err
		select {
		case <-time.After(asTold(err) + pause/2 + rand.N(pause)):
		case <-ctx.Done():
			return answer, fmt.Errorf("%w: %w; %w", ErrUnanswered, ctx.Err(), last)
		}
	}
}

func asTold(err error) time.Duration {
	var told *wire.Error
	if errors.As(err, &told) {
		return time.Duration(told.RetryAfterMS) * time.Millisecond
	}
	return 0
}

// try sends the message once, and returns whether another try makes sense.
func (c *Client) try(
	ctx context.Context, msg *nats.Msg, limit time.Duration, read func([]byte, string) (*wire.Error, error),
) (again bool, err error) {
	wait, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if len(msg.Data) > wire.LeastPayload {
		// The server says what this client may send only after the connection is
		// there, and cuts off who sends more.
		if err := c.nc.FlushWithContext(wait); err != nil {
			return !permanent(err), fmt.Errorf("client: %s: %w", msg.Subject, err)
		}
	}
	answer, err := c.nc.RequestMsgWithContext(wait, msg)
	if errors.Is(err, nats.ErrMaxPayload) {
		return false, fmt.Errorf("client: %s: the message takes %d bytes, and this client may send %d over NATS: "+
			"send it over REST: %w", msg.Subject, msg.Size(), c.nc.MaxPayload(), err)
	}
	if err != nil {
		if barred := c.barred(msg.Subject); barred != nil {
			return false, barred
		}
		return !permanent(err), fmt.Errorf("client: %s: %w", msg.Subject, err)
	}
	failure, err := read(answer.Data, answer.Header.Get(wire.HeaderContentType))
	if err != nil {
		return false, fmt.Errorf("client: %s: the reply cannot be read: %w", msg.Subject, err)
	}
	if failure != nil {
		return failure.Retry, failure
	}
	return false, nil
}

// barred returns why a request on a subject has no answer, if it is one that the NATS
// server has told this connection: it may not send that, or it may not hear answers. No
// other try would be answered either.
func (c *Client) barred(subject string) error {
	last := c.nc.LastError()
	if !errors.Is(last, nats.ErrPermissionViolation) {
		return nil
	}
	inbox := c.nc.NewInbox()
	inboxes := inbox[:strings.LastIndexByte(inbox, '.')]
	switch text := last.Error(); {
	case strings.Contains(text, "Publish to "+strconv.Quote(subject)):
		return fmt.Errorf("client: %s: this NATS user may not send that: %w", subject, last)
	case strings.Contains(text, `Subscription to "`+inboxes):
		return fmt.Errorf("%w: %s: this NATS user may not hear answers: %w", ErrUnanswered, subject, last)
	}
	return nil
}

// permanent errors do not go away however often one tries.
func permanent(err error) bool {
	for _, one := range []error{
		nats.ErrConnectionClosed, nats.ErrBadSubject, nats.ErrPermissionViolation, context.Canceled,
	} {
		if errors.Is(err, one) {
			return true
		}
	}
	return false
}
