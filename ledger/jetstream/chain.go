package jetstream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/allot-project/allot/ledger"
)

// The log may be a chain of streams, so that its oldest part can be deleted as a
// whole although no stream lets a message be deleted. Each stream begins with the
// sequence after the last one of the stream before. What follows is about the log of
// a single server that has its NATS server in the process, whose streams but the last
// are sealed for ever; see continued.go for a log that others may open, too.
//
// A stream is sealed, and loses the log's subject, in one step, and the next one
// is made in another. Whoever finds that the last stream is sealed makes the next
// one. It follows from the sealed one, so it is the same whoever makes it, and
// however often that is tried. Hence the streams alone say what is left to do
// after a crash.

// sealedSubjects begins the subject of a sealed stream, which takes no messages
// there, either. Only the last stream can have the log's subject.
const sealedSubjects = "allot.sealed."

// Keys of a stream's metadata: the head of a commit in a sealed stream, and the
// head of the last commit before a stream.
const (
	endKey    = "allot.end"
	beforeKey = "allot.before"
)

// ErrSealed means that the log's last stream is sealed, and the next one is not
// made yet.
var ErrSealed = errors.New("jetstream: the log's last stream is sealed, and the next one is not made")

// ErrNotSealed means that a stream cannot leave the log, because it takes commits.
var ErrNotSealed = errors.New("jetstream: the stream takes commits")

// ErrNothingToSeal means that the log's last stream lacks the commit after which
// it was to be sealed: it is empty, or the commit is in another stream.
var ErrNothingToSeal = errors.New("jetstream: there is nothing to seal")

// link is one stream of the chain.
type link struct {
	stream  string
	subject string
	first   uint64
	last    uint64 // 0: it takes commits
	id      string // see idKey
	shared  bool   // it is never sealed, and says itself where the log goes on: see continued.go
}

// streamAt returns the name of the stream that begins with a sequence.
func streamAt(prefix string, first uint64) string {
	if first <= 1 {
		return prefix
	}
	return fmt.Sprintf("%s-%020d", prefix, first)
}

// StreamFirst returns the first sequence of a stream of the chain; 0: it is none.
func StreamFirst(prefix, stream string) uint64 {
	stream, _ = splitID(stream)
	rest, found := strings.CutPrefix(stream, prefix)
	if !found {
		return 0
	}
	if rest == "" {
		return 1
	}
	first, err := strconv.ParseUint(strings.TrimPrefix(rest, "-"), 10, 64)
	if err != nil || first < 2 || streamAt(prefix, first) != stream {
		return 0
	}
	return first
}

// find finds the chain, and makes the last stream if that is due and mayMake says
// so. It returns the last stream. The caller holds finding, but for Open.
func (l *Log) find(ctx context.Context, mayMake bool) (*jetstream.StreamInfo, error) {
	// Most logs have one stream, which nobody needs to look for.
	info, err := l.leaders(ctx, l.prefix)
	if err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil, outOfReach("open stream "+l.prefix, err)
	}
	if err == nil && !info.Config.Sealed {
		if !l.isShared(info.Config) {
			return info, l.follow([]*jetstream.StreamInfo{info})
		}
		last, _, err := l.findShared(ctx, info)
		return last, err
	}
	list, err := l.streams(ctx)
	if err == nil && len(list) == 0 {
		last, _, err := l.findShared(ctx, nil)
		return last, err
	}
	if err == nil {
		err = l.beSure()
	}
	if err != nil {
		return nil, err
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("%w: %s", ErrNoStream, l.prefix)
	}
	last := list[len(list)-1]
	if last.Config.Sealed {
		if !mayMake {
			return nil, fmt.Errorf("%w: %s", ErrSealed, last.Config.Name)
		}
		if err := l.follow(list); err != nil {
			return nil, err
		}
		if last, err = l.makeNext(ctx, last); err == nil {
			err = l.beSure()
		}
		if err != nil {
			return nil, err
		}
		list = append(list, last)
	}
	return last, l.follow(list)
}

// findAtRest is find for a log that was not found before. Where others may have the log
// go on, or streams leave, at the same moment, it looks again for a while.
func (l *Log) findAtRest(ctx context.Context) (*jetstream.StreamInfo, error) {
	for until := time.Now().Add(settling); ; {
		info, err := l.find(ctx, l.mayMake)
		moves := l.shared && errors.Is(err, ledger.ErrUnavailable)
		if !moves || time.Now().After(until) || pause(ctx, retryPause) != nil {
			return info, err
		}
	}
}

// streams lists the streams of the chain, oldest first.
func (l *Log) streams(ctx context.Context) (list []*jetstream.StreamInfo, err error) {
	for _, subject := range []string{Subject, sealedSubjects + ">"} {
		found := l.js.ListStreams(ctx, jetstream.WithStreamListSubject(subject))
		for info := range found.Info() {
			if StreamFirst(l.prefix, info.Config.Name) > 0 {
				list = append(list, info)
			}
		}
		if err := found.Err(); err != nil {
			return nil, outOfReach("list the log's streams", err)
		}
	}
	first := func(info *jetstream.StreamInfo) uint64 { return StreamFirst(l.prefix, info.Config.Name) }
	slices.SortStableFunc(list, func(a, b *jetstream.StreamInfo) int { return cmp.Compare(first(a), first(b)) })
	// One that was sealed between the two requests is in both: it was the last one.
	return slices.CompactFunc(list, func(a, b *jetstream.StreamInfo) bool { return first(a) == first(b) }), nil
}

// follow checks that streams follow one another, and goes by them from now on.
func (l *Log) follow(list []*jetstream.StreamInfo) error {
	chain := make([]link, len(list))
	for i, info := range list {
		if err := checkConfig(l.prefix, info.Config); err != nil {
			return err
		}
		one := l.linkOf(info)
		state := info.State
		if info.Config.Sealed {
			one.last = state.LastSeq
			if state.FirstSeq != one.first || state.Msgs != one.last-one.first+1 {
				return fmt.Errorf("%w: stream %s holds %d messages from %d to %d", ledger.ErrLogGap, one.stream, state.Msgs,
					state.FirstSeq, state.LastSeq)
			}
		}
		if i > 0 && chain[i-1].last != one.first-1 {
			return fmt.Errorf("%w: stream %s ends at %d, and the next one is %s", ledger.ErrLogGap, chain[i-1].stream,
				chain[i-1].last, one.stream)
		}
		chain[i] = one
	}
	l.chain.Store(&chain)
	return nil
}

// makeNext makes the stream after a sealed one, with its settings.
func (l *Log) makeNext(ctx context.Context, sealed *jetstream.StreamInfo) (*jetstream.StreamInfo, error) {
	known, err := parseHead(sealed.Config.Metadata[endKey])
	if err != nil {
		return nil, fmt.Errorf("%w: stream %s: %s: %w", ledger.ErrLogUnsafe, sealed.Config.Name, endKey, err)
	}
	chain := ledger.NewChain(known)
	last := sealed.State.LastSeq
	if known.Sequence < last {
		err = l.Read(ctx, known.Sequence+1, last, func(e ledger.Entry) error {
			_, err := chain.NextLink(e)
			return err
		})
		if err = errors.Join(err, chain.End()); err != nil {
			return nil, err
		}
	}
	cfg := sealed.Config
	cfg.Name, cfg.Subjects, cfg.Sealed, cfg.FirstSeq = streamAt(l.prefix, last+1), []string{Subject}, false, last+1
	cfg.Metadata = make(map[string]string)
	for key, value := range sealed.Config.Metadata {
		if key != endKey && !strings.HasPrefix(key, "_nats.") { // NATS adds its own
			cfg.Metadata[key] = value
		}
	}
	cfg.Metadata[beforeKey] = formatHead(chain.Head())
	l.unsure = true
	stream, err := l.js.CreateStream(ctx, cfg)
	if err != nil {
		return nil, outOfReach("create stream "+cfg.Name, err)
	}
	return stream.CachedInfo(), nil
}

// OnMade has a function called when a stream may have been made, before anything is
// appended to it. If it fails, nothing is appended until it succeeds.
func (l *Log) OnMade(made func() error) {
	l.finding.Lock()
	defer l.finding.Unlock()
	l.made = made
}

// beSure calls what OnMade was given. The caller holds finding.
func (l *Log) beSure() error {
	if !l.unsure || l.made == nil {
		return nil
	}
	if err := l.made(); err != nil {
		return fmt.Errorf("%w: the log's newest stream is not durable: %w", ledger.ErrUnavailable, err)
	}
	l.unsure = false
	return nil
}

func formatHead(h ledger.Head) string { return fmt.Sprintf("%d %x", h.Sequence, h.Digest[:]) }

func parseHead(text string) (h ledger.Head, err error) {
	sequence, digest, _ := strings.Cut(text, " ")
	h.Sequence, err = strconv.ParseUint(sequence, 10, 64)
	if err := errors.Join(err, h.Digest.UnmarshalText([]byte(digest))); err != nil {
		return h, fmt.Errorf("%q is no head: %w", text, err)
	}
	return h, nil
}

// Before returns the head of the last commit before a stream, from the stream's
// metadata.
func Before(metadata map[string]string) (ledger.Head, error) { return parseHead(metadata[beforeKey]) }

// active returns the stream that takes commits.
func (l *Log) active() link {
	chain := *l.chain.Load()
	return chain[len(chain)-1]
}

// First returns the first sequence that the log holds, or would hold if it is
// empty. What is older was dropped.
func (l *Log) First() uint64 { return max((*l.chain.Load())[0].first, l.left.Load()) }

// holding returns the stream that holds a sequence, or will.
func (l *Log) holding(sequence uint64) (link, error) {
	chain := *l.chain.Load()
	first := l.First()
	for _, one := range slices.Backward(chain) {
		if sequence >= max(one.first, first) {
			return one, nil
		}
	}
	return link{}, fmt.Errorf("%w: stream %s begins with sequence %d, and %d was asked for: it has left for the archives",
		ledger.ErrLogGap, chain[0].stream, first, sequence)
}

// refresh finds the chain anew, because its last stream was sealed.
func (l *Log) refresh(ctx context.Context) error {
	l.finding.Lock()
	defer l.finding.Unlock()
	_, err := l.find(ctx, l.mayMake)
	return err
}

// look finds the chain as it is now, and makes nothing. It reports whether it could
// ask, which it cannot while the chain is changed.
func (l *Log) look(ctx context.Context) bool {
	if !l.finding.TryLock() {
		return false
	}
	defer l.finding.Unlock()
	_, err := l.find(ctx, false)
	return err == nil || errors.Is(err, ErrSealed) || errors.Is(err, ErrNoStream)
}

// Roll seals the stream that takes commits, and goes on in a new one. Appends wait
// meanwhile, and fail in no other way than they always can. known is the head of a
// commit of the log after which there are no others that the caller does not know.
// If Roll fails, the stream may be sealed; Last makes the next one then.
func (l *Log) Roll(ctx context.Context, known ledger.Head) error {
	l.rolling.Lock()
	defer l.rolling.Unlock()
	select {
	case <-l.js.PublishAsyncComplete():
	case <-ctx.Done():
		return outOfReach("stream "+l.active().stream, ctx.Err())
	}
	// From here on it is done whole, though its caller may end: otherwise the next
	// start had to make the next stream, even one that is refused.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), l.patience)
	defer cancel()
	one := l.active()
	stream, err := l.js.Stream(ctx, one.stream)
	if err != nil {
		return outOfReach("stream "+one.stream, err)
	}
	info := stream.CachedInfo()
	if info.State.LastSeq < one.first || known.Sequence < one.first || known.Sequence > info.State.LastSeq {
		return fmt.Errorf("%w: stream %s has the sequences %d to %d, and commit %d is not one of them",
			ErrNothingToSeal, one.stream, one.first, info.State.LastSeq, known.Sequence)
	}
	cfg := info.Config
	cfg.Sealed, cfg.Subjects, cfg.Metadata = true, []string{sealedSubjects + one.stream}, maps.Clone(cfg.Metadata)
	if cfg.Metadata == nil {
		cfg.Metadata = make(map[string]string)
	}
	cfg.Metadata[endKey] = formatHead(known)
	if _, err := l.js.UpdateStream(ctx, cfg); err != nil {
		return outOfReach("seal stream "+one.stream, err)
	}
	return l.refresh(ctx)
}

// Sealed returns the last sequence of each sealed stream, oldest first.
func (l *Log) Sealed() (last []uint64) {
	for _, one := range *l.chain.Load() {
		if one.last > 0 {
			last = append(last, one.last)
		}
	}
	return last
}

// Drop deletes the oldest stream, which must be sealed and end with a sequence.
// The caller knows that everything in it is elsewhere.
func (l *Log) Drop(ctx context.Context, last uint64) error {
	l.finding.Lock()
	defer l.finding.Unlock()
	chain := *l.chain.Load()
	if chain[0].last != last || last == 0 || len(chain) < 2 {
		return fmt.Errorf("%w: %s does not end with sequence %d for ever", ErrNotSealed, chain[0].stream, last)
	}
	info, err := l.leaders(ctx, chain[0].stream)
	if chain[0].shared && errors.Is(err, jetstream.ErrStreamNotFound) { // by whoever led before
		rest := slices.Clone(chain[1:])
		l.chain.Store(&rest)
		return nil
	}
	if err != nil {
		return outOfReach("stream "+chain[0].stream, err)
	}
	shared := chain[0].shared
	if !shared && (!info.Config.Sealed || info.State.LastSeq != last) || shared && info.State.LastSeq < last {
		return fmt.Errorf("%w: %s goes to %d", ErrNotSealed, chain[0].stream, info.State.LastSeq)
	}
	// Readers turn to the archives before the stream is gone.
	rest := slices.Clone(chain[1:])
	l.chain.Store(&rest)
	err = l.js.DeleteStream(ctx, chain[0].stream)
	if err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
		// It may be gone or not: what has left does not come back to this Log.
		return outOfReach("delete stream "+chain[0].stream, err)
	}
	return nil
}
