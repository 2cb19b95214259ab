package jetstream

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/allot-project/allot/ledger"
)

// The log of several servers, and any log in an external NATS, which another server
// could open, is a chain of streams, too, and none of them is ever sealed: a change of
// a stream's configuration reaches the servers by another Raft group than commits do,
// so one that is late could come between two commits of the next leader. Instead the
// log says where it goes on:
//
//  1. The next stream is made first, empty, with a name and a subject of its own that
//     nobody uses again. It begins at a sequence that the log has not reached.
//  2. The commit before that sequence has one event, ledger.LogContinued, which names
//     that stream. It is appended as every commit is. From then on the log goes on in
//     the next stream, and what else the stream before takes is no part of the log.
//  3. If the log gets another commit in that place, nothing can ever name the stream.
//     So it may be deleted, by anybody, however late.
//
// Nothing is appended after an entry of which this Log does not know that it is no
// such commit. So whoever has not read it appends nothing after it, and whoever has
// appends to the next stream alone.

// idKey is the key of a stream's id in its metadata. Streams that were made before
// there were ids, and those of a single server, have none.
const idKey = "allot.id"

// maxContinuedBytes is more than a commit takes that has a LogContinued alone.
const maxContinuedBytes = 1 << 10

// newID returns an id that no other stream has.
func newID() string {
	var id [4]byte
	_, _ = rand.Read(id[:]) // it never fails
	return hex.EncodeToString(id[:])
}

// splitID splits the name of a stream of the log into that without the id, and the id.
func splitID(stream string) (rest, id string) {
	const plain = len("-00000000000000000002")
	at := strings.LastIndexByte(stream, '-')
	if at < plain || len(stream)-at-1 != hex.EncodedLen(4) {
		return stream, ""
	}
	return stream[:at], stream[at+1:]
}

// StreamSubject returns the subject of a stream of the log, by its name.
func StreamSubject(prefix, stream string) string {
	if _, id := splitID(stream); id == "" {
		return Subject
	}
	return Subject + strings.Replace(strings.TrimPrefix(stream, prefix), "-", ".", 1)
}

// Shared reports whether a stream of the log, by its name, was made by several
// servers for a log that was to go on in it.
func Shared(stream string) bool {
	_, id := splitID(stream)
	return id != ""
}

// linkOf returns a stream as a link of the chain that takes commits.
func (l *Log) linkOf(info *jetstream.StreamInfo) link {
	one := link{
		stream: info.Config.Name, subject: StreamSubject(l.prefix, info.Config.Name), first: max(info.Config.FirstSeq, 1),
		shared: l.isShared(info.Config),
	}
	if _, one.id = splitID(one.stream); one.id == "" {
		one.id = info.Config.Metadata[idKey]
	}
	return one
}

// isShared reports whether a stream says itself where the log goes on. One with an id in
// its name was made for that. The first one has its id in its metadata; one that was made
// before there were ids has none, so whoever opens the log says so, unless it has
// replicas. The others were sealed, or were made after one that was.
func (l *Log) isShared(cfg jetstream.StreamConfig) bool {
	if cfg.Name != l.prefix || cfg.Sealed {
		return Shared(cfg.Name)
	}
	return l.shared || cfg.Replicas > 1 || cfg.Metadata[idKey] != ""
}

// continuation returns the stream in which the log goes on after an entry of a
// stream; empty: in the same one.
func (l *Log) continuation(of link, e ledger.Entry) string {
	if len(e.Data) > maxContinuedBytes || !bytes.Contains(e.Data, []byte(l.prefix+"-")) {
		return ""
	}
	commit, err := ledger.DecodeCommit(e.Data)
	if err != nil || commit.Sequence != e.Sequence || len(commit.Records) != 1 || len(commit.Records[0].Events) != 1 {
		return "" // it is foreign, or late
	}
	event, is := commit.Records[0].Events[0].(ledger.LogContinued)
	if !is || event.Of != of.id || StreamFirst(l.prefix, event.Stream) != e.Sequence+1 {
		return ""
	}
	return event.Stream
}

// notice looks at an entry of a stream, and reports whether the log goes on elsewhere
// after it. From then on it does so for this Log.
func (l *Log) notice(of link, e ledger.Entry) (ends bool) {
	if !of.shared {
		return false
	}
	next := l.continuation(of, e)
	if next == "" {
		raise(&l.noticed, e.Sequence)
		return false
	}
	for {
		chain := l.chain.Load()
		newest := (*chain)[len(*chain)-1]
		if newest.stream != of.stream {
			return true
		}
		longer := slices.Clone(*chain)
		longer[len(longer)-1].last = e.Sequence
		_, id := splitID(next)
		longer = append(longer, link{
			stream: next, subject: StreamSubject(l.prefix, next), first: e.Sequence + 1, id: id, shared: true,
		})
		if l.chain.CompareAndSwap(chain, &longer) {
			return true
		}
	}
}

// Noticed tells the log of a commit that it holds, as known from another source.
func (l *Log) Noticed(e ledger.Entry) {
	if one, err := l.holding(e.Sequence); err == nil {
		l.notice(one, e)
	}
	l.saw(e.Sequence)
}

// follows returns an error unless it is known that the log goes on in a stream after
// the commit before a sequence, or that commit is on its way from here.
func (l *Log) follows(one link, sequence uint64) error {
	if one.shared && sequence > one.first && max(l.noticed.Load(), l.sent.Load()) < sequence-1 {
		return fmt.Errorf("%w: where the log goes on after commit %d is not known yet", ledger.ErrUnavailable, sequence-1)
	}
	return nil
}

// entry reads an entry of a stream from the stream's leader.
func (l *Log) entry(ctx context.Context, one link, sequence uint64) (ledger.Entry, error) {
	what := fmt.Sprintf("stream %s: sequence %d", one.stream, sequence)
	body, err := json.Marshal(getRequest{Sequence: sequence})
	if err != nil {
		return ledger.Entry{}, fmt.Errorf("jetstream: %w", err)
	}
	msg, err := l.nc.RequestWithContext(ctx, "$JS.API.STREAM.MSG.GET."+one.stream, body)
	if err != nil {
		return ledger.Entry{}, outOfReach(what, err)
	}
	var answer messageAnswer
	if err := json.Unmarshal(msg.Data, &answer); err != nil {
		return ledger.Entry{}, fmt.Errorf("jetstream: %s: an answer that cannot be read: %w", what, err)
	}
	if answer.Error != nil {
		// Its leader was just elected.
		return ledger.Entry{}, fmt.Errorf("%w: %s: %w", ledger.ErrUnavailable, what, answer.Error)
	}
	return ledger.Entry{Sequence: sequence, Data: answer.Message.Data}, nil
}

// sharedStreams returns all streams that may be of the log of several servers, by
// where they begin. Of have it needs to know no more.
func (l *Log) sharedStreams(ctx context.Context, have *jetstream.StreamInfo) (list []*jetstream.StreamInfo, err error) {
	found, gone := l.js.StreamNames(ctx), false
	for name := range found.Name() {
		if name != l.prefix && (StreamFirst(l.prefix, name) == 0 || !Shared(name)) {
			continue
		}
		if have != nil && have.Config.Name == name {
			list = append(list, have)
			continue
		}
		info, err := l.leaders(ctx, name)
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			gone = true // it was deleted meanwhile
			continue
		}
		if err != nil {
			return nil, outOfReach("stream "+name, err)
		}
		list = append(list, info)
	}
	if err := found.Err(); err != nil {
		return nil, outOfReach("list the log's streams", err)
	}
	if len(list) == 0 && gone {
		return nil, fmt.Errorf("%w: the log's streams have left while they were looked at", ledger.ErrUnavailable)
	}
	slices.SortFunc(list, func(a, b *jetstream.StreamInfo) int {
		return cmp.Or(cmp.Compare(l.linkOf(a).first, l.linkOf(b).first), cmp.Compare(a.Config.Name, b.Config.Name))
	})
	return list, nil
}

// findShared finds the chain of several servers. It returns the last stream of it,
// and those that were made and can never be of the log. have is a stream that was
// found already, or nil.
func (l *Log) findShared(
	ctx context.Context, have *jetstream.StreamInfo,
) (last *jetstream.StreamInfo, unused []string, err error) {
	list, err := l.sharedStreams(ctx, have)
	if err != nil {
		return nil, nil, err
	}
	at, err := l.oldest(list)
	if err != nil {
		return nil, nil, err
	}
	var chain []link
	for {
		info := list[at]
		if err := checkConfig(l.prefix, info.Config); err != nil {
			return nil, nil, err
		}
		one := l.linkOf(info)
		next, passed, err := l.nextShared(ctx, one, info.State.LastSeq, list[at+1:])
		if err != nil {
			return nil, nil, err
		}
		unused = append(unused, passed...)
		if next > 0 {
			one.last = l.linkOf(list[at+next]).first - 1
		}
		if err := wholeUntil(one, info.State); err != nil {
			return nil, nil, err
		}
		chain = append(chain, one)
		if next == 0 {
			last = info
			break
		}
		at += next
	}
	newest := chain[len(chain)-1]
	for _, info := range list[at+1:] {
		if info.State.Msgs > 0 && !slices.Contains(unused, info.Config.Name) {
			return nil, nil, fmt.Errorf("%w: stream %s has commits, and %s does not lead there yet", ledger.ErrUnavailable,
				info.Config.Name, newest.stream)
		}
	}
	l.adopt(chain)
	return last, unused, nil
}

// oldest returns the place of the log's oldest stream. Those that begin before it and
// hold nothing are of a leader that was deposed long ago.
func (l *Log) oldest(list []*jetstream.StreamInfo) (int, error) {
	for i, info := range list {
		if info.State.Msgs > 0 || info.Config.Name == l.prefix {
			return i, nil
		}
	}
	if len(list) == 0 {
		return 0, fmt.Errorf("%w: %s", ErrNoStream, l.prefix)
	}
	return 0, fmt.Errorf("%w: none of the log's streams has a commit yet", ledger.ErrUnavailable)
}

// nextShared returns by how many places the next stream of the chain is after one
// that has the sequences up to last; 0: that one takes commits. list are the streams
// that begin later. It also returns those that can be in the chain no more.
func (l *Log) nextShared(
	ctx context.Context, one link, last uint64, list []*jetstream.StreamInfo,
) (by int, unused []string, err error) {
	for i, info := range list {
		next := l.linkOf(info)
		if next.first-1 > last || next.first == one.first {
			break
		}
		entry, err := l.entry(ctx, one, next.first-1)
		if err != nil {
			return 0, nil, err
		}
		if goesOn := l.continuation(one, entry); goesOn == next.stream {
			// Streams that begin at the same sequence, and have another name, come to nothing.
			for _, other := range list[i+1:] {
				if l.linkOf(other).first == next.first {
					unused = append(unused, other.Config.Name)
				}
			}
			return i + 1, unused, nil
		}
		unused = append(unused, next.stream)
	}
	return 0, unused, l.isLast(ctx, one, last)
}

// isLast fails if the last entry of a stream says that the log goes on in one that is
// not known yet.
func (l *Log) isLast(ctx context.Context, one link, last uint64) error {
	if last < one.first || l.noticed.Load() >= last {
		return nil
	}
	entry, err := l.entry(ctx, one, last)
	if err != nil {
		return err
	}
	if next := l.continuation(one, entry); next != "" {
		return fmt.Errorf("%w: the log goes on in stream %s, which nobody knows yet", ledger.ErrUnavailable, next)
	}
	raise(&l.noticed, last)
	return nil
}

// wholeUntil fails if a stream lacks entries of the log.
func wholeUntil(one link, state jetstream.StreamState) error {
	if state.Msgs == 0 && one.last == 0 {
		return nil
	}
	if state.FirstSeq != one.first || state.Msgs != state.LastSeq-one.first+1 {
		return fmt.Errorf("%w: stream %s holds %d messages from %d to %d", ledger.ErrLogGap, one.stream, state.Msgs,
			state.FirstSeq, state.LastSeq)
	}
	return nil
}

// adopt goes by a chain that was found. What was noticed since stays.
func (l *Log) adopt(found []link) {
	for {
		before := l.chain.Load()
		now := found
		if before != nil {
			now = merge(*before, found)
		}
		if l.chain.CompareAndSwap(before, &now) {
			return
		}
	}
}

func merge(before, found []link) []link {
	now := slices.Clone(found)
	newest := now[len(now)-1]
	at := slices.IndexFunc(before, func(one link) bool { return one.stream == newest.stream })
	if at >= 0 && at < len(before)-1 {
		now = append(now[:len(now)-1], before[at:]...)
	}
	return now
}

// Next is a stream in which the log may go on.
type Next struct {
	Stream string
	Of     string // id of the stream before it
	After  uint64 // sequence of the commit that may lead there
}

// ErrSealedBefore means that a log cannot say where it goes on, because a single server
// with its NATS server in the process has sealed parts of it before.
var ErrSealedBefore = errors.New("jetstream: parts of the log were sealed by a single server, so it stays in one stream elsewhere")

// Prepare makes a stream in which the log may go on after a commit that it does not
// have yet.
func (l *Log) Prepare(ctx context.Context, after uint64) (Next, error) {
	one := l.active()
	if !one.shared {
		return Next{}, fmt.Errorf("%w: stream %s", ErrSealedBefore, one.stream)
	}
	stream, err := l.js.Stream(ctx, one.stream)
	if err != nil {
		return Next{}, outOfReach("stream "+one.stream, err)
	}
	cfg := stream.CachedInfo().Config
	id := newID()
	cfg.Name = fmt.Sprintf("%s-%020d-%s", l.prefix, after+1, id)
	cfg.Subjects, cfg.FirstSeq = []string{StreamSubject(l.prefix, cfg.Name)}, after+1
	before := cfg.Metadata
	cfg.Metadata = map[string]string{idKey: id}
	if filled, there := before[historyKey]; there { // a server that was to fill the log compares it
		cfg.Metadata[historyKey] = filled
	}
	if _, err := l.js.CreateStream(ctx, cfg); err != nil {
		return Next{}, outOfReach("create stream "+cfg.Name, err)
	}
	return Next{Stream: cfg.Name, Of: one.id, After: after}, nil
}

// Continued reports whether the log goes on in a stream, as far as this Log knows.
func (l *Log) Continued(n Next) bool {
	return slices.ContainsFunc(*l.chain.Load(), func(one link) bool { return one.stream == n.Stream })
}

// Tidy deletes streams that were made so that the log could go on in them, where it
// went on elsewhere.
func (l *Log) Tidy(ctx context.Context) (deleted []string, err error) {
	l.finding.Lock()
	defer l.finding.Unlock()
	_, unused, err := l.findShared(ctx, nil)
	for _, name := range unused {
		if err := l.js.DeleteStream(ctx, name); err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
			return deleted, outOfReach("delete stream "+name, err)
		}
		deleted = append(deleted, name)
	}
	return deleted, err
}

// Leave makes this Log begin at a sequence at least: the streams before it are about to
// be deleted, by this server or by whoever leads then. The rest must have a commit.
func (l *Log) Leave(before uint64) {
	raise(&l.left, before)
}

// raise raises a number to another one at least.
func raise(number *atomic.Uint64, to uint64) {
	for now := number.Load(); now < to && !number.CompareAndSwap(now, to); now = number.Load() {
	}
}

// StreamPeers are the servers that keep one of the log's streams.
type StreamPeers struct {
	Stream string `json:"stream"`
	First  uint64 `json:"first"`
	Peers
}

// AllPeers are the servers that keep the log's streams, oldest first.
func (l *Log) AllPeers(ctx context.Context) (list []StreamPeers, err error) {
	for _, one := range l.kept() {
		peers, err := peersOf(ctx, l.nc, one.stream)
		if err != nil {
			return nil, err
		}
		list = append(list, StreamPeers{one.stream, one.first, peers})
	}
	return list, nil
}

// Streams returns the names of the log's streams, oldest first, without those that are
// about to be deleted.
func (l *Log) Streams() (names []string) {
	for _, one := range l.kept() {
		names = append(names, one.stream)
	}
	return names
}

// kept returns the links that do not leave.
func (l *Log) kept() []link {
	first := l.First()
	leaves := func(one link) bool { return one.last > 0 && one.last < first }
	return slices.DeleteFunc(slices.Clone(*l.chain.Load()), leaves)
}

// PeersOf are the servers that keep a stream in which the log may go on.
func (l *Log) PeersOf(ctx context.Context, n Next) (Peers, error) {
	return peersOf(ctx, l.nc, n.Stream)
}

// MoveLeaderOf makes another server lead a stream in which the log may go on.
func (l *Log) MoveLeaderOf(ctx context.Context, n Next, to string) error {
	return stepDown(ctx, l.nc, n.Stream, to)
}
