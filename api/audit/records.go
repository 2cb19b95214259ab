// Package audit answers questions about the past. It serves the records of the
// log, checked against its digest chain, as lines of JSON, and histories,
// comparisons and proofs.
package audit

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/allot-project/allot/api/present"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/projector"
)

// Line is one record in the form in which it is printed.
type Line struct {
	ledger.Address
	Time      time.Time          `json:"time"`
	Actor     string             `json:"actor"`
	Command   string             `json:"command"`
	CommandID ledger.UUID        `json:"command_id"`
	RequestID string             `json:"request_id,omitempty"`
	Cause     *ledger.Address    `json:"cause,omitempty"`
	Text      string             `json:"text,omitempty"` // what it did, in words, if asked for
	Events    []ledger.EventLine `json:"events"`
}

// String returns a record as a line of text.
func (l Line) String() string {
	return fmt.Sprintf("%s  %s  %s", l.Address, l.Time.Format("2006-01-02T15:04:05.000Z"), strings.Map(printed, l.Text))
}

// printed stands for a character in lines of text, in which names forge no lines.
func printed(r rune) rune {
	if unicode.IsPrint(r) {
		return r
	}
	return unicode.ReplacementChar
}

// LineOf returns a record as a Line.
func LineOf(at ledger.Address, r *ledger.Record) Line {
	return Line{
		Address: at, Time: time.Unix(0, r.Time).UTC(), Actor: r.Actor, Command: r.Command,
		CommandID: r.CommandID, RequestID: r.RequestID, Cause: r.Cause, Events: ledger.EventLines(r.Events),
	}
}

// readChunk and chunkBytes bound what is read from the log at a time. A chunk is
// read before it is written, so that a slow client keeps no reader busy.
const (
	readChunk  = 1000
	chunkBytes = 256 << 10
	// decoded is how many times as large as in the log a record is in memory, about.
	decoded = 12
)

// records is GET /audit/records?from=SEQ&follow=true. With at=SEQUENCE or an RFC
// 3339 time it answers only records up to that moment, with limit at most that
// many, with format=text as sentences.
func (q *Questions) records(p *parameters) (func(context.Context, *lines) error, error) {
	ask := &recordsAsked{from: 1, until: math.MaxUint64, follow: p.flag("follow")}
	var err error
	if from := p.given["from"]; from != "" {
		if ask.from, err = strconv.ParseUint(from, 10, 64); err != nil || ask.from == 0 {
			p.refuse("from: %q is not a sequence (1 or more)", from)
		}
	}
	if limit := p.given["limit"]; limit != "" {
		if ask.limit, err = strconv.Atoi(limit); err != nil || ask.limit < 1 {
			p.refuse("limit: %q is not a number (1 or more)", limit)
		}
	}
	if ask.follow && p.given["at"] != "" {
		p.refuse("follow: nothing is added to the past, so it cannot be given together with at")
	}
	telling := q.telling(p)
	switch p.given["format"] {
	case "", "json":
	case formatText, "json,text":
		ask.telling = &telling
	default:
		p.refuse("format: %q is none of json, text and json,text", p.given["format"])
	}
	view, err := q.view(p)
	if p.given["at"] != "" {
		ask.until = view.Sequence()
	}
	return func(ctx context.Context, to *lines) error { return q.tellRecords(ctx, to, ask) }, err
}

// recordsAsked says which records the client asks for.
type recordsAsked struct {
	from   uint64
	until  uint64 // the last sequence
	limit  int    // 0: no limit
	follow bool
	// telling makes the sentences; nil: none are asked for.
	telling *present.Telling
}

const formatText = "text"

// tellRecords writes the records that the client asks for and, if it follows,
// those that come later.
func (q *Questions) tellRecords(ctx context.Context, to *lines, ask *recordsAsked) error {
	left := ask.limit
	for from := ask.from; ; {
		changed := q.Views.Changed()
		end := min(q.Views.Checkpoint().Sequence, ask.until)
		for from <= end {
			last := min(end, from+readChunk-1)
			if left > 0 {
				last = min(last, from+uint64(left)-1) // Each commit has at least one record.
			}
			commits, next, err := q.decodedCommits(ctx, to, from, last)
			if err != nil {
				return err
			}
			if err := ask.write(to, commits, &left); err != nil {
				return err
			}
			if ask.limit > 0 && left == 0 {
				return nil
			}
			from = next
		}
		if !ask.follow {
			return nil
		}
		if err := to.flush(); err != nil {
			return err
		}
		stopped := false
		select {
		case <-changed:
		case <-ctx.Done():
		case <-q.Stop:
			stopped = true
		}
		if stopped || ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

var errEnough = errors.New("audit: the chunk is full")

// decodedCommits is commits with a place, and memory until the answer is flushed.
func (q *Questions) decodedCommits(
	ctx context.Context, to *lines, from, last uint64,
) (list []*ledger.Commit, next uint64, err error) {
	work, err := q.Fair.Long(ctx, to.asker)
	if err != nil {
		return nil, 0, err
	}
	defer work.End()
	return q.commits(ctx, from, last, to.hold)
}

// commits reads the commits from..to, or only the first of them if they are
// large, and returns where to go on. Each must be the commit that the read models
// have folded. It holds memory for them.
func (q *Questions) commits(
	ctx context.Context, from, to uint64, hold func(bytes int) error,
) (list []*ledger.Commit, next uint64, err error) {
	view, size := q.Views.View(), 0
	err = q.chunk(ctx, from, to, func(entry ledger.Entry) error {
		next = entry.Sequence + 1
		size += len(entry.Data)
		if err := hold(size * decoded); err != nil {
			return err
		}
		mark, _, found, err := view.CommitMark(entry.Sequence)
		if err != nil {
			return err
		}
		if !found && entry.Sequence <= view.Sequence() {
			return nil // The read models were told that it is no commit, see chain.Chain.
		}
		commit, err := ledger.DecodeCommit(entry.Data)
		if err != nil {
			return fmt.Errorf("sequence %d: %w", entry.Sequence, err)
		}
		if !found || mark != commit.Head() {
			return fmt.Errorf("sequence %d: %w", entry.Sequence, errNotSeen)
		}
		list = append(list, commit)
		return nil
	})
	return list, next, err
}

// chunk reads entries of the log up to one, or until they are large.
func (q *Questions) chunk(ctx context.Context, from, to uint64, yield func(ledger.Entry) error) error {
	size := 0
	err := q.Log.Read(ctx, from, to, func(e ledger.Entry) error {
		if err := yield(e); err != nil {
			return err
		}
		if size += len(e.Data); size >= chunkBytes {
			return errEnough
		}
		return nil
	})
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}

// write writes the records of commits, at most left of them unless left is 0.
func (ask *recordsAsked) write(to *lines, commits []*ledger.Commit, left *int) error {
	for _, commit := range commits {
		for i := range commit.Records {
			at := ledger.Address{Sequence: commit.Sequence, Index: i}
			line := LineOf(at, &commit.Records[i])
			if ask.telling != nil {
				words, err := ask.telling.Record(at.Sequence, &commit.Records[i], projector.Subject{})
				if err != nil {
					return err
				}
				line.Text = words.String()
			}
			if err := to.line(at, line); err != nil {
				return err
			}
			if *left--; *left == 0 {
				return nil
			}
		}
	}
	return to.flush()
}

var errNotSeen = errors.New("the log holds another commit than the one that the read models have folded: the log was swapped or changed")

// Bounds of an answer with commits.
const (
	maxCommits  = 100_000
	someCommits = 1000 // unless the client asks for another number
)

// Commit is a commit of the log as it is. Its bytes hash to the digest, which
// the next commit names as its predecessor's.
type Commit struct {
	Sequence uint64        `json:"sequence"`
	Digest   ledger.Digest `json:"digest"`
	Data     []byte        `json:"data"` // base64
}

// rawCommits is GET /audit/commits: the log itself, for backups. It ends at the limit
// or at the end of the log; entries that are no commits of the ledger are among them.
func (q *Questions) rawCommits(p *parameters) (func(context.Context, *lines) error, error) {
	from := number[int64](p, "from", 1, math.MaxInt64, 1)
	limit := number[int64](p, "limit", 1, maxCommits, someCommits)
	if p.fault != nil {
		return nil, p.fault
	}
	last := min(q.Views.View().Sequence(), uint64(from)+uint64(limit)-1)
	return func(ctx context.Context, to *lines) error {
		for next := uint64(from); next <= last; {
			list, err := q.someCommits(ctx, to, next, last)
			if err != nil {
				return err
			}
			for i := range list {
				if err := to.line(ledger.Address{Sequence: list[i].Sequence}, &list[i]); err != nil {
					return err
				}
			}
			if err := to.flush(); err != nil {
				return err
			}
			next += uint64(len(list))
		}
		return nil
	}, nil
}

// someCommits reads some commits, with a place.
func (q *Questions) someCommits(ctx context.Context, to *lines, from, last uint64) (list []Commit, err error) {
	work, err := q.Fair.Long(ctx, to.asker)
	if err != nil {
		return nil, err
	}
	defer work.End()
	size := 0
	err = q.chunk(ctx, from, last, func(e ledger.Entry) error {
		size += len(e.Data)
		if err := to.hold(size); err != nil {
			return err
		}
		list = append(list, Commit{e.Sequence, ledger.DigestOf(e.Data), append([]byte(nil), e.Data...)})
		return nil
	})
	if err == nil && len(list) == 0 {
		err = ledger.ErrLogGap
	}
	return list, err
}
