// Package notices publishes changes over NATS: for every consumer, provider,
// project, user, node, node allocation and chassis that a record touched, a
// message on a subject of its own (see wire.NoticeSubject), as a CloudEvent in
// binary mode.
//
// Notices are sent once and not stored. A client that must not miss any follows
// with api/client, which reads the history when a heartbeat or a mark shows
// that notices were not published or not received.
package notices

import (
	"cmp"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"

	"github.com/allot-project/allot/api/present"
	"github.com/allot-project/allot/api/wire"
	"github.com/allot-project/allot/commands/encoding"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/projector"
)

const (
	// queueLength is how many commits may wait to be published. The writer does
	// not wait: if the queue is full, a commit is not published, and followers
	// find out.
	queueLength = 2048
	// pause is the time between two rounds of publishing. In a flood, all notices
	// for one follower travel together, and wake it once. A single change is
	// published at once.
	pause = 100 * time.Millisecond
	// heartbeatEvery is how long a follower may be unaware that it missed
	// something.
	heartbeatEvery = time.Second
)

// Publisher stands between the writer and the read models. It publishes the
// commits that pass, once they can be read. It implements writer.ReadModels.
type Publisher struct {
	*projector.Projector
	cfg    Config
	source string    // of the CloudEvents: the ledger
	were   [2]uint64 // the ways at the last look

	queue chan publication
	stop  chan struct{}
	done  chan struct{}

	published atomic.Int64
	untold    atomic.Int64 // commits
	took      atomic.Int64 // nanoseconds

	mu   sync.Mutex
	mark string // changes when something was not published; guarded by mu
}

type publication struct {
	commit  *ledger.Commit
	changes ledger.Changes
}

// Config configures a Publisher.
type Config struct {
	Conn   *nats.Conn
	Ledger ledger.UUID
	// Listening returns, among names on subjects with a prefix, those that a
	// client may listen on; nil: all names. It is asked for every commit. Interest
	// is asked for every subject.
	Listening func(prefix string, names []string) []string
	Interest  func(subject string) bool
	// Ways, if set, returns something else once notices may have been lost on their way to
	// clients of other servers.
	Ways   func() [2]uint64
	Logger *slog.Logger
}

// Start starts to publish commits that are folded through the Publisher.
func Start(views *projector.Projector, cfg Config) *Publisher {
	if cfg.Listening == nil {
		cfg.Listening = func(_ string, names []string) []string { return names }
	}
	if cfg.Interest == nil {
		cfg.Interest = func(string) bool { return true }
	}
	if cfg.Ways == nil {
		cfg.Ways = func() (none [2]uint64) { return none }
	}
	p := &Publisher{
		Projector: views, cfg: cfg, source: "/allot/" + cfg.Ledger.String(), were: cfg.Ways(), mark: uuid.NewString(),
		queue: make(chan publication, queueLength), stop: make(chan struct{}), done: make(chan struct{}),
	}
	go p.run()
	return p
}

// Stop ends the Publisher. Commits that are folded afterwards are not published.
func (p *Publisher) Stop() {
	close(p.stop)
	<-p.done
}

// Fold implements writer.ReadModels.
func (p *Publisher) Fold(commit *ledger.Commit, changes ledger.Changes) error {
	if err := p.Projector.Fold(commit, changes); err != nil {
		return err
	}
	select {
	case p.queue <- publication{commit, changes}:
	default:
		p.missed()
	}
	return nil
}

// Counts are what a Publisher has done so far.
type Counts struct {
	Published int64         // notices
	Missed    int64         // commits whose notices were not published, or not all
	Took      time.Duration // for notices that were to be published
	Waiting   int64         // commits
}

// Counts returns what was done so far.
func (p *Publisher) Counts() Counts {
	return Counts{
		Published: p.published.Load(), Missed: p.untold.Load(), Took: time.Duration(p.took.Load()),
		Waiting: int64(len(p.queue)),
	}
}

func (p *Publisher) missed() {
	p.untold.Add(1)
	p.remark()
}

// look makes followers read the history if notices may have been lost on their way.
func (p *Publisher) look() {
	if ways := p.cfg.Ways(); ways != p.were {
		p.were = ways
		p.remark()
	}
}

func (p *Publisher) remark() {
	p.mu.Lock()
	p.mark = uuid.NewString()
	p.mu.Unlock()
}

func (p *Publisher) currentMark() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mark
}

func (p *Publisher) run() {
	defer close(p.done)
	ticker := time.NewTicker(heartbeatEvery)
	defer ticker.Stop()
	var last time.Time
	for {
		select {
		case t := <-p.queue:
			p.rest(last)
			began := time.Now()
			p.tellAll(t)
			last = time.Now()
			p.took.Add(int64(last.Sub(began)))
		case <-ticker.C:
			if err := p.beat(); err != nil {
				p.cfg.Logger.Warn("no heartbeat", "error", err)
			}
		case <-p.stop:
			return
		}
	}
}

// rest waits until the last round of publishing is long enough ago.
func (p *Publisher) rest(last time.Time) {
	if left := pause - time.Since(last); left > 0 {
		select {
		case <-time.After(left):
		case <-p.stop:
		}
	}
}

// tellAll publishes a commit, and those that have come since. Notices about one
// entity are published together, in the order of the log, so that they reach a
// follower in one piece.
func (p *Publisher) tellAll(t publication) {
	p.look()
	var notices []notice
	for {
		var err error
		if notices, err = p.notices(notices, t); err != nil {
			p.notTold(t.commit.Sequence, err)
		}
		if len(p.queue) == 0 {
			break
		}
		t = <-p.queue
	}
	slices.SortStableFunc(notices, func(a, b notice) int { return cmp.Compare(a.where, b.where) })
	for i := range notices {
		if err := p.publish(&notices[i]); err != nil {
			p.notTold(t.commit.Sequence, err)
			return
		}
		p.published.Add(1)
	}
}

func (p *Publisher) notTold(sequence uint64, err error) {
	p.missed()
	p.cfg.Logger.Warn("changes were not published; followers read the history instead", "sequence", sequence, "error", err)
}

func (p *Publisher) beat() error {
	p.look()
	body, err := ledger.PlainJSON(wire.Heartbeat{Sequence: p.View().Sequence(), Mark: p.currentMark()})
	if err != nil {
		return err
	}
	return p.cfg.Conn.Publish(wire.HeartbeatSubject, body)
}

// notice tells the followers of one entity about one record.
type notice struct {
	where   string // the NATS subject
	subject string // subject of the CloudEvent
	entry   wire.HistoryEntry
	command string
}

// notices adds the followed entities that one commit touched.
func (p *Publisher) notices(list []notice, t publication) ([]notice, error) {
	kinds := p.followed()
	if len(kinds) == 0 {
		return list, nil
	}
	for subject, records := range projector.Touches(t.commit, &t.changes, kinds) {
		of, name := present.SubjectName(subject)
		where := wire.NoticeSubject(of, name)
		if !p.cfg.Interest(where) {
			continue
		}
		for _, index := range records {
			address := ledger.Address{Sequence: t.commit.Sequence, Index: int(index)}
			record := &t.commit.Records[index]
			entry, err := present.Entry(p.Projector, subject, address, record)
			if err != nil {
				return list, err
			}
			list = append(list, notice{where, of + "/" + name, entry, record.Command})
		}
	}
	return list, nil
}

// kindNames are the names of all kinds of entities in subjects.
var kindNames = func() (names []string) {
	for _, kind := range projector.Kinds {
		of, _ := present.SubjectName(projector.Subject{Kind: kind})
		names = append(names, of)
	}
	return names
}()

func (p *Publisher) followed() map[projector.Kind]bool {
	kinds := make(map[projector.Kind]bool)
	for _, of := range p.cfg.Listening(wire.NoticePrefix, kindNames) {
		kinds[projector.Kinds[slices.Index(kindNames, of)]] = true
	}
	return kinds
}

func (p *Publisher) publish(n *notice) error {
	body, err := ledger.PlainJSON(n.entry)
	if err != nil {
		return err
	}
	return p.cfg.Conn.PublishMsg(&nats.Msg{Subject: n.where, Data: body, Header: nats.Header{
		wire.HeaderContentType:  {encoding.TypeJSON},
		wire.HeaderEventSpec:    {"1.0"},
		wire.HeaderEventID:      {n.entry.Address},
		wire.HeaderEventSource:  {p.source},
		wire.HeaderEventType:    {wire.NoticeType + n.command},
		wire.HeaderEventTime:    {n.entry.Time},
		wire.HeaderEventSubject: {n.subject},
		wire.HeaderNoticeMark:   {p.currentMark()},
	}})
}
