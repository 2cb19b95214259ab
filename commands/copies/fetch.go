package copies

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/allot-project/allot/ledger"
)

// source is a replica that gives a copy.
type source struct {
	*joiner
	offer
	copy ledger.UUID
	*arriving
}

// from fetches a copy from one replica.
func (j *joiner) from(ctx context.Context, o offer) (*Copy, error) {
	s := &source{joiner: j, offer: o}
	s.arriving = &arriving{log: j.Log, folder: j.Folder, from: o.Name, tell: j.Tell, fetch: s.fetch}
	m, err := s.begin(ctx)
	defer s.release()
	if err != nil {
		return nil, err
	}
	return s.take(ctx, m)
}

// begin has the copy made, and fetches its manifest.
func (s *source) begin(ctx context.Context) (*manifest, error) {
	a, err := s.ask(ctx, question{Do: doBegin})
	if err != nil {
		return nil, err
	}
	s.copy = a.Copy
	for !a.Ready {
		select {
		case <-time.After(lookEvery):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		if a, err = s.ask(ctx, question{Do: doLook}); err != nil {
			return nil, err
		}
	}
	if a.Bytes > maxManifest {
		return nil, fmt.Errorf("%w: its manifest has %d bytes", errBad, a.Bytes)
	}
	var text bytes.Buffer
	if err := s.fetch(ctx, 0, file{Bytes: a.Bytes, Sum: a.Sum}, &text); err != nil {
		return nil, err
	}
	m := new(manifest)
	if err := json.Unmarshal(text.Bytes(), m); err != nil {
		return nil, fmt.Errorf("%w: its manifest cannot be read: %w", errBad, err)
	}
	return m, m.check()
}

// release lets the other replica forget the copy.
func (s *source) release() {
	if s.copy.IsNil() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), offerWait)
	defer cancel()
	if _, err := s.ask(ctx, question{Do: doEnd}); err != nil {
		s.Logger.Debug("the other replica keeps its copy for a while", "error", err)
	}
}

// fetch fetches a file part by part, and compares it with its checksum.
func (s *source) fetch(ctx context.Context, number int, one file, out io.Writer) error {
	sum := sha256.New()
	for offset := int64(0); offset < one.Bytes; {
		part, err := s.part(ctx, question{
			Do: doPart, File: number, Offset: offset,
			Bytes: int(min(one.Bytes-offset, partBytes, s.Conn.MaxPayload()-headroomBytes)),
		})
		if err != nil {
			return err
		}
		if len(part) == 0 || offset+int64(len(part)) > one.Bytes {
			return fmt.Errorf("%w: %s has %d bytes at %d, and %d in all", errBad, one.Name, len(part), offset, one.Bytes)
		}
		if _, err := io.MultiWriter(sum, out).Write(part); err != nil {
			return err
		}
		offset += int64(len(part))
		if number > 0 {
			s.came(int64(len(part)))
		}
	}
	if got := hex.EncodeToString(sum.Sum(nil)); got != one.Sum {
		return fmt.Errorf("%w: %s has another checksum than its manifest says", errBad, cmp.Or(one.Name, "the manifest"))
	}
	return nil
}

// part asks for a part, again if it comes damaged or not at all.
func (s *source) part(ctx context.Context, q question) ([]byte, error) {
	var last error
	for range askTimes {
		msg, err := s.request(ctx, q)
		if err != nil {
			return nil, err
		}
		if failure := msg.Header.Get(headerFailure); failure != "" {
			return nil, errors.New(failure)
		}
		if msg.Header.Get(headerSum) == partSum(msg.Data) {
			return msg.Data, nil
		}
		last = fmt.Errorf("%w: a part of %d bytes came damaged", errBad, len(msg.Data))
	}
	return nil, last
}

func (s *source) ask(ctx context.Context, q question) (a answer, err error) {
	msg, err := s.request(ctx, q)
	if err != nil {
		return a, err
	}
	if err := json.Unmarshal(msg.Data, &a); err != nil {
		return a, fmt.Errorf("%w: an answer that cannot be read: %w", errBad, err)
	}
	switch a.Failure {
	case "":
		return a, nil
	case busy:
		return a, errBusy
	}
	return a, errors.New(a.Failure)
}

// request puts a question, again if it is not answered.
func (s *source) request(ctx context.Context, q question) (msg *nats.Msg, err error) {
	q.Joiner, q.Copy = s.id, s.copy
	data, err := json.Marshal(q)
	if err != nil {
		return nil, fmt.Errorf("copies: %w", err)
	}
	for range askTimes {
		wait, cancel := context.WithTimeout(ctx, askWait)
		msg, err = s.Conn.RequestWithContext(wait, ofSubject+s.Instance.String(), data)
		cancel()
		if err == nil || ctx.Err() != nil || errors.Is(err, nats.ErrNoResponders) {
			break
		}
	}
	if err != nil {
		return nil, fmt.Errorf("the replica has gone away: %w", err)
	}
	return msg, nil
}
