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
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/projector"
	"github.com/allot-project/allot/snapshots"
)

// source is a replica that gives a copy.
type source struct {
	*joiner
	offer
	copy  ledger.UUID
	total int64
	done  atomic.Int64
}

// from fetches a copy from one replica.
func (j *joiner) from(ctx context.Context, o offer) (*Copy, error) {
	s := &source{joiner: j, offer: o}
	m, err := s.begin(ctx)
	defer s.release()
	if err != nil {
		return nil, err
	}
	if err := s.inLog(ctx, m); err != nil {
		return nil, err
	}
	if err := j.Folder.begin(); err != nil {
		return nil, err
	}
	s.total = m.bytes()
	if err := s.fetchAll(ctx, m); err != nil {
		return nil, err
	}
	return s.put(m)
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

// inLog compares where the copy stands with the log, which is what counts.
func (s *source) inLog(ctx context.Context, m *manifest) error {
	for _, head := range []ledger.Head{m.State, m.Models.Head} {
		err := s.Log.Read(ctx, head.Sequence, head.Sequence, func(e ledger.Entry) error {
			if got := ledger.DigestOf(e.Data); got != head.Digest {
				return fmt.Errorf("%w: it is of a log whose commit %d has digest %.8s, and in ours it has %.8s",
					errBad, head.Sequence, head.Digest, got)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// fetchAll fetches all files, the largest first, some at a time.
func (s *source) fetchAll(ctx context.Context, m *manifest) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	places := make([]int, len(m.Files))
	for i := range places {
		places[i] = i
	}
	slices.SortFunc(places, func(a, b int) int { return cmp.Compare(m.Files[b].Bytes, m.Files[a].Bytes) })
	queue := make(chan int, len(places))
	for _, place := range places {
		queue <- place
	}
	close(queue)
	var writing sync.Mutex // two files may be the same one
	coming := make(map[string]bool)
	var all sync.WaitGroup
	for range atOnce {
		all.Go(func() {
			for place := range queue {
				one := m.Files[place]
				writing.Lock()
				twice := coming[one.Sum]
				coming[one.Sum] = true
				writing.Unlock()
				if twice {
					s.came(one.Bytes)
					continue
				}
				if err := s.fetchFile(ctx, place+1, one); err != nil {
					stop(err)
					return
				}
			}
		})
	}
	all.Wait()
	return context.Cause(ctx)
}

// came tells of bytes that have come.
func (s *source) came(n int64) {
	if done := s.done.Add(n); s.Tell != nil {
		s.Tell(Progress{From: s.Name, Bytes: done, Of: s.total})
	}
}

// fetchFile fetches a file, unless it has come before, and makes sure that it is
// good and on the disk.
func (s *source) fetchFile(ctx context.Context, number int, one file) error {
	path := s.Folder.partPath(one)
	if there, err := exists(path); err != nil || there {
		s.came(one.Bytes)
		return err
	}
	out, err := os.Create(path + ".part")
	if err != nil {
		return err
	}
	err = s.fetch(ctx, number, one, out)
	if err == nil {
		err = out.Sync()
	}
	err = errors.Join(err, out.Close())
	if err == nil && filepath.Ext(one.Name) == ".sst" {
		table := path + ".sst"
		if err = os.Rename(out.Name(), table); err == nil {
			err = projector.CheckTable(ctx, table)
		}
		if err == nil {
			return os.Rename(table, path)
		}
		return errors.Join(err, os.Remove(table))
	}
	if err != nil {
		return errors.Join(err, os.Remove(out.Name()))
	}
	return os.Rename(out.Name(), path)
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

// put checks all that has come as a whole, and makes it the copy that counts.
func (s *source) put(m *manifest) (*Copy, error) {
	if err := s.Folder.assemble(m); err != nil {
		return nil, fmt.Errorf("copies: %w", err)
	}
	at, err := projector.Inspected(s.Folder.path(makingName, modelsName))
	if err != nil {
		return nil, err
	}
	if at != m.Models {
		return nil, fmt.Errorf("%w: its read models are at %d (%.8s), and not at %d (%.8s)",
			errBad, at.Head.Sequence, at.Head.Digest, m.Models.Head.Sequence, m.Models.Head.Digest)
	}
	state, err := snapshots.Read(s.Folder.path(makingName, stateName))
	if errors.Is(err, snapshots.ErrDamaged) {
		return nil, fmt.Errorf("%w: %w", errBad, err)
	}
	if err != nil {
		return nil, err
	}
	if state.Head() != m.State || !state.Ordered() {
		return nil, fmt.Errorf("%w: its State is at %d, and not at %d", errBad, state.Head().Sequence, m.State.Sequence)
	}
	if err := s.Folder.decide(m.State.Sequence); err != nil {
		return nil, err
	}
	return &Copy{State: state, Models: at, From: s.Name, Bytes: s.total}, nil
}
