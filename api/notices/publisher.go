// Package notices tells over NATS what changed: a message for every consumer,
// provider, project, user, node, node allocation and chassis that a record
// touched, on a subject of its own (see wire.NoticeSubject), as CloudEvents in binary mode.
//
// Notices are sent once and not kept. Whoever must not miss any follows with
// commands/client, which reads the history when a heartbeat or a mark says
// that notices were not published or not received.
package notices

import (
	"cmp"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"

	"github.com/allot-project/allot/api/answers"
	"github.com/allot-project/allot/commands/wire"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/projector"
)

const (
	// queueLength is how many commits may wait to be told. The writer does
	// not wait: what does not fit is not told, and followers find out.
	queueLength = 2048
	// pause lies between two times of telling: in a flood, what one follower is
	// told travels together, and wakes it once. A change that comes alone is
	// told at once.
	pause = 100 * time.Millisecond
	// heartbeatEvery is how long a follower may miss that it missed something.
	heartbeatEvery = time.Second
)

// Publisher stands between the writer and the read models, and tells what it
// sees pass after it can be read. It implements writer.ReadModels.
type Publisher struct {
	*projector.Projector
	nc        *nats.Conn
	source    string // of the CloudEvents: the ledger
	logger    *slog.Logger
	listening func(prefix string, names []string) []string
	interest  func(subject string) bool

	queue chan told
	stop  chan struct{}
	done  chan struct{}

	mu   sync.Mutex
	mark string // changes when something was not published; guarded by mu
}

type told struct {
	commit  *ledger.Commit
	changes ledger.Changes
}

// Config is what a Publisher needs.
type Config struct {
	Conn   *nats.Conn
	Ledger ledger.UUID
	// Listening picks the names that somebody may listen on, on subjects with a
	// prefix; nil: all. It is asked for every commit. Interest is asked for
	// every subject.
	Listening func(prefix string, names []string) []string
	Interest  func(subject string) bool
	Logger    *slog.Logger
}

// Start begins to tell what is folded through the Publisher.
func Start(views *projector.Projector, cfg Config) *Publisher {
	p := &Publisher{
		Projector: views, nc: cfg.Conn, source: "/allot/" + cfg.Ledger.String(), logger: cfg.Logger, interest: cfg.Interest,
		listening: cfg.Listening,
		queue:     make(chan told, queueLength), stop: make(chan struct{}), done: make(chan struct{}), mark: uuid.NewString(),
	}
	if p.listening == nil {
		p.listening = func(_ string, names []string) []string { return names }
	}
	if p.interest == nil {
		p.interest = func(string) bool { return true }
	}
	go p.run()
	return p
}

// Stop ends the Publisher. What is folded afterwards is not told.
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
	case p.queue <- told{commit, changes}:
	default:
		p.missed()
	}
	return nil
}

// missed makes followers read the history.
func (p *Publisher) missed() {
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
			p.tellAll(t)
			last = time.Now()
		case <-ticker.C:
			if err := p.beat(); err != nil {
				p.logger.Warn("no heartbeat", "error", err)
			}
		case <-p.stop:
			return
		}
	}
}

// rest waits until the last time of telling is long enough ago.
func (p *Publisher) rest(last time.Time) {
	if left := pause - time.Since(last); left > 0 {
		select {
		case <-time.After(left):
		case <-p.stop:
		}
	}
}

// tellAll tells a commit, and what else has come since. What is about one
// thing is published together, in the order of the log, so that it reaches a
// follower in one piece.
func (p *Publisher) tellAll(t told) {
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
	}
}

func (p *Publisher) notTold(sequence uint64, err error) {
	p.missed()
	p.logger.Warn("changes were not told; followers read the history", "sequence", sequence, "error", err)
}

func (p *Publisher) beat() error {
	body, err := ledger.PlainJSON(wire.Heartbeat{Sequence: p.View().Sequence(), Mark: p.currentMark()})
	if err != nil {
		return err
	}
	return p.nc.Publish(wire.HeartbeatSubject, body)
}

// notice is what is told of one record to the followers of one thing.
type notice struct {
	where   string // the NATS subject
	subject string // of the CloudEvent
	entry   wire.HistoryEntry
	command string
}

// notices adds what one commit touched that somebody follows.
func (p *Publisher) notices(list []notice, t told) ([]notice, error) {
	kinds := p.followed()
	if len(kinds) == 0 {
		return list, nil
	}
	for subject, records := range projector.Touches(t.commit, &t.changes, kinds) {
		of, name := answers.SubjectName(subject)
		where := wire.NoticeSubject(of, name)
		if !p.interest(where) {
			continue
		}
		for _, index := range records {
			address := ledger.Address{Sequence: t.commit.Sequence, Index: int(index)}
			record := &t.commit.Records[index]
			entry, err := answers.Entry(p.Projector, subject, address, record)
			if err != nil {
				return list, err
			}
			list = append(list, notice{where, of + "/" + name, entry, record.Command})
		}
	}
	return list, nil
}

// kindNames are all kinds of things in the words of subjects.
var kindNames = func() (names []string) {
	for _, kind := range projector.Kinds {
		of, _ := answers.SubjectName(projector.Subject{Kind: kind})
		names = append(names, of)
	}
	return names
}()

// followed are the kinds of things that somebody may listen on.
func (p *Publisher) followed() map[projector.Kind]bool {
	kinds := make(map[projector.Kind]bool)
	for _, of := range p.listening(wire.NoticePrefix, kindNames) {
		kinds[projector.Kinds[slices.Index(kindNames, of)]] = true
	}
	return kinds
}

func (p *Publisher) publish(n *notice) error {
	body, err := ledger.PlainJSON(n.entry)
	if err != nil {
		return err
	}
	return p.nc.PublishMsg(&nats.Msg{Subject: n.where, Data: body, Header: nats.Header{
		wire.HeaderContentType:  {wire.TypeJSON},
		wire.HeaderEventSpec:    {"1.0"},
		wire.HeaderEventID:      {n.entry.Address},
		wire.HeaderEventSource:  {p.source},
		wire.HeaderEventType:    {wire.NoticeType + n.command},
		wire.HeaderEventTime:    {n.entry.Time},
		wire.HeaderEventSubject: {n.subject},
		wire.HeaderNoticeMark:   {p.currentMark()},
	}})
}
