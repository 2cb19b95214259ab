package jetstream_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	js "github.com/nats-io/nats.go/jetstream"

	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/jetstream"
	"github.com/allot-project/allot/ledger/ledgertest"
)

// replicated answers for a stream with replicas, of which one leads and others may lag. The test chooses each of its
// answers, because JetStream itself gives such answers for moments only.
type replicated struct {
	t  *testing.T
	nc *nats.Conn // the client's

	mu       sync.Mutex
	replica  uint64                        // last sequence of the replica that answers direct gets
	leader   uint64                        // last sequence of the leader
	lacks    map[uint64]int                // how often the leader denies a sequence
	cluster  *js.ClusterInfo               // what is told of the servers
	info     func() (last uint64, err any) // the stream's state according to the leader; nil: leader
	direct   func(msg *nats.Msg) bool      // answers a direct get; false: as usual
	get      func(msg *nats.Msg) bool      // answers a get from the leader; false: as usual
	gets     int                           // of the leader
	requests int                           // direct ones
}

func startReplicated(t *testing.T, entries uint64) *replicated {
	t.Helper()
	ns := serve(t, &natsserver.Options{})
	r := &replicated{
		t: t, nc: dial(t, ns.ClientURL()), replica: entries, leader: entries, lacks: make(map[uint64]int),
		cluster: groupOf("a", "b", "c"),
	}
	server := dial(t, ns.ClientURL())
	for subject, answer := range map[string]func(*nats.Msg){
		"$JS.API.STREAM.NAMES": func(msg *nats.Msg) {
			r.respond(msg, map[string]any{"total": 1, "limit": 1024, "streams": []string{"ALLOT"}})
		},
		"$JS.API.STREAM.INFO.ALLOT":    r.answerInfo,
		"$JS.API.DIRECT.GET.ALLOT":     r.answerDirect,
		"$JS.API.STREAM.MSG.GET.ALLOT": r.answerGet,
	} {
		ledgertest.Must(server.Subscribe(subject, answer))
	}
	ledgertest.OK(t, server.Flush())
	return r
}

// set changes the answers.
func (r *replicated) set(change func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change()
}

func (r *replicated) respond(msg *nats.Msg, answer any) {
	body, err := json.Marshal(answer)
	if err == nil {
		err = msg.Respond(body)
	}
	if err != nil {
		r.t.Error(err)
	}
}

func apiError(code int, errCode js.ErrorCode, text string) any {
	return map[string]any{"error": map[string]any{"code": code, "err_code": errCode, "description": text}}
}

func (r *replicated) answerInfo(msg *nats.Msg) {
	r.mu.Lock()
	defer r.mu.Unlock()
	last := r.leader
	if r.info != nil {
		var failure any
		if last, failure = r.info(); failure != nil {
			r.respond(msg, failure)
			return
		}
	}
	state := js.StreamState{Msgs: last, FirstSeq: min(1, last), LastSeq: last}
	r.respond(msg, map[string]any{"state": state, "config": map[string]any{
		"name": "ALLOT", "subjects": []string{jetstream.Subject}, "storage": "file", "retention": "limits",
		"deny_delete": true, "deny_purge": true, "allow_direct": true, "max_msgs": -1, "max_bytes": -1, "max_consumers": -1,
		"max_msg_size": -1, "max_msgs_per_subject": -1, "num_replicas": 3,
	}, "cluster": r.cluster})
}

func data(sequence uint64) []byte { return fmt.Appendf(nil, "entry %d", sequence) }

func isData(e ledger.Entry) bool { return string(e.Data) == string(data(e.Sequence)) }

func (r *replicated) answerDirect(msg *nats.Msg) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.requests++
	if r.direct != nil && r.direct(msg) {
		return
	}
	ask := r.asked(msg)
	if ask.Sequence > r.replica {
		r.status(msg, "404", "Message Not Found")
		return
	}
	for sequence := ask.Sequence; sequence <= min(r.replica, ask.Sequence+ask.Batch-1); sequence++ {
		r.entry(msg, fmt.Sprint(sequence), data(sequence))
	}
	r.status(msg, "204", "EOB")
}

// request is what is asked for.
type request struct {
	Sequence uint64 `json:"seq"`
	Batch    uint64 `json:"batch"`
}

func (r *replicated) asked(msg *nats.Msg) (ask request) {
	if err := json.Unmarshal(msg.Data, &ask); err != nil {
		r.t.Error(err)
	}
	return ask
}

func (r *replicated) entry(msg *nats.Msg, sequence string, data []byte) {
	answer := nats.NewMsg(msg.Reply)
	answer.Header.Set(js.SequenceHeader, sequence)
	answer.Data = data
	r.reply(msg, answer)
}

func (r *replicated) status(msg *nats.Msg, code, text string) {
	answer := nats.NewMsg(msg.Reply)
	answer.Header.Set("Status", code)
	answer.Header.Set("Description", text)
	r.reply(msg, answer)
}

// reply answers, unless the test has ended, and closed the connection.
func (r *replicated) reply(msg, answer *nats.Msg) {
	if err := msg.RespondMsg(answer); err != nil && !errors.Is(err, nats.ErrConnectionClosed) {
		r.t.Error(err)
	}
}

func (r *replicated) answerGet(msg *nats.Msg) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.gets++
	if r.get != nil && r.get(msg) {
		return
	}
	ask := r.asked(msg)
	if ask.Sequence > r.leader || r.lacks[ask.Sequence] > 0 {
		r.lacks[ask.Sequence]--
		r.respond(msg, apiError(404, js.JSErrCodeMessageNotFound, "no message found"))
		return
	}
	r.respond(msg, map[string]any{"message": map[string]any{"seq": ask.Sequence, "data": data(ask.Sequence)}})
}

// open opens the log, with little patience.
func (r *replicated) open(patience time.Duration) *jetstream.Log {
	r.t.Helper()
	log, err := jetstream.Open(context.Background(), r.nc, jetstream.Config{Patience: patience, AckTimeout: patience})
	ledgertest.OK(r.t, err)
	return log
}

// reads checks that the entries from..to come, each once and in order.
func reads(log ledger.Log, from, to uint64) error {
	next := from
	err := log.Read(context.Background(), from, to, ledgertest.InOrder(&next, isData))
	if err == nil && next != to+1 {
		return fmt.Errorf("only %d of %d came", next-from, to-from+1)
	}
	return err
}

// answered is a read of ten entries after the answers were changed.
type answered struct {
	change func(*replicated)
	want   error  // nil: another one than play knows, or none
	says   string // empty: there is no error
}

// play reads as each row says, and makes sure that the error is the one that is wanted, and none that means something
// else.
func play(t *testing.T, rows map[string]answered) {
	t.Helper()
	for name, c := range rows {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := startReplicated(t, 10)
			patience := hangLimit
			if errors.Is(c.want, ledger.ErrUnavailable) {
				patience = 500 * time.Millisecond // it comes to an end
			}
			log := r.open(patience)
			r.set(func() { c.change(r) })
			err := within(t, "reading", func() error { return reads(log, 1, 10) })
			if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v; want %q", err, c.says)
			}
			for _, one := range []error{ledger.ErrUnavailable, ledger.ErrLogGap, ledger.ErrLogBehind} {
				if errors.Is(err, one) != errors.Is(c.want, one) {
					t.Errorf("%v; want %v", err, c.want)
				}
			}
		})
	}
}

// TestLaggingReplicas: if a replica does not have an entry yet, or leaves one
// out, the leader is asked, and the log is read in order.
func TestLaggingReplicas(t *testing.T) {
	t.Parallel()
	play(t, map[string]answered{
		"it has some":      {change: func(r *replicated) { r.replica = 3 }},
		"it has nothing":   {change: func(r *replicated) { r.replica = 0 }},
		"it has caught up": {change: func(*replicated) {}},
		"it leaves one out": {change: func(r *replicated) {
			r.direct = func(msg *nats.Msg) bool {
				if !strings.Contains(string(msg.Data), `"seq":1,`) {
					return false
				}
				for _, sequence := range []uint64{1, 2, 4} {
					r.entry(msg, fmt.Sprint(sequence), data(sequence))
				}
				return true
			}
		}},
		"the leader has just been elected": {change: func(r *replicated) { r.replica, r.lacks[5] = 4, 3 }},
		"no server serves at first": {change: func(r *replicated) {
			refused := 0
			r.direct = func(msg *nats.Msg) bool {
				if refused++; refused < 3 {
					r.status(msg, "503", "")
				}
				return refused < 3
			}
		}},
		"its stream was not there at first": {change: func(r *replicated) {
			r.replica = 0
			r.lacks[1] = 1
			asked := 0
			r.info = func() (uint64, any) {
				if asked++; asked == 1 {
					return 0, apiError(404, js.JSErrCodeStreamNotFound, "stream not found")
				}
				return 10, nil
			}
		}},
	})
}

// TestLeadersWord: the leader's word counts, after it had time to reach what was seen of its stream.
func TestLeadersWord(t *testing.T) {
	t.Parallel()
	err := within(t, "reading", func() error { return reads(startReplicated(t, 10).open(hangLimit), 1, 11) })
	if !errors.Is(err, ledger.ErrLogBehind) || !strings.Contains(err.Error(), "ends at 10, but sequence 11") ||
		errors.Is(err, ledger.ErrUnavailable) {
		t.Errorf("it ends before: %v", err)
	}
	play(t, map[string]answered{
		"it goes on, and has a gap": {
			func(r *replicated) { r.replica, r.lacks[4] = 3, 1<<30 }, ledger.ErrLogGap, "no sequence 4",
		},
		"it has counted a gap": {func(r *replicated) {
			r.replica, r.lacks[4] = 3, 1<<30
			r.info = func() (uint64, any) {
				return 0, map[string]any{
					"config": map[string]any{"name": "ALLOT"}, "state": map[string]any{"messages": 9, "first_seq": 1, "last_seq": 10},
				}
			}
		}, ledger.ErrLogGap, "holds 9 messages from 1 to 10"},
	})
}

// directly has a replica answer each direct get.
func directly(answer func(*replicated, *nats.Msg)) func(*replicated) {
	return func(r *replicated) {
		r.direct = func(msg *nats.Msg) bool { answer(r, msg); return true }
	}
}

// leading has the leader answer each get, as the replica has nothing.
func leading(answer func(*replicated, *nats.Msg)) func(*replicated) {
	return func(r *replicated) {
		r.replica = 0
		r.get = func(msg *nats.Msg) bool { answer(r, msg); return true }
	}
}

// TestAnswersThatSayNothing: after an answer that says nothing about the log, the request is repeated, and at last
// the log is out of reach. An answer that no server should give is an error that quotes it.
func TestAnswersThatSayNothing(t *testing.T) {
	t.Parallel()
	play(t, map[string]answered{
		"no server serves": {
			directly(func(r *replicated, msg *nats.Msg) { r.status(msg, "503", "") }), ledger.ErrUnavailable,
			"no server has the stream",
		},
		"the leader is not ready": {leading(func(r *replicated, msg *nats.Msg) {
			r.respond(msg, apiError(503, 10008, "JetStream system temporarily unavailable"))
		}), ledger.ErrUnavailable, "temporarily unavailable"},
		"the leader is silent":  {leading(func(*replicated, *nats.Msg) {}), ledger.ErrUnavailable, "no answer"},
		"the replica is silent": {directly(func(*replicated, *nats.Msg) {}), ledger.ErrUnavailable, "no answer"},
		"the stream is gone": {func(r *replicated) {
			r.replica, r.leader = 0, 0
			r.info = func() (uint64, any) { return 0, apiError(404, js.JSErrCodeStreamNotFound, "stream not found") }
		}, ledger.ErrUnavailable, "does not exist"},
		"a batch without an end": {
			directly(func(r *replicated, msg *nats.Msg) { r.status(msg, "204", "EOB") }), ledger.ErrUnavailable, "no answer",
		},
		"another status": {
			directly(func(r *replicated, msg *nats.Msg) { r.status(msg, "408", "Bad Request") }), nil, "408 Bad Request",
		},
		"a sequence that is no number": {
			directly(func(r *replicated, msg *nats.Msg) { r.entry(msg, "one", nil) }), nil, `sequence "one"`,
		},
		"the leader answers something else": {leading(func(r *replicated, msg *nats.Msg) {
			r.reply(msg, &nats.Msg{Subject: msg.Reply, Data: []byte("hello")})
		}), nil, "cannot be read"},
		"the leader may not say": {func(r *replicated) {
			r.replica, r.lacks[1] = 0, 1<<30
			r.info = func() (uint64, any) { return 0, apiError(403, 10050, "not for you") }
		}, nil, "not for you"},
	})
}

// TestLastWaits: a leader that is behind what was seen of its stream was just
// elected, and gets some time. If the stream stays behind, that is reported.
func TestLastWaits(t *testing.T) {
	t.Parallel()
	r := startReplicated(t, 10)
	log := r.open(hangLimit)
	endsAt(t, log, 10)
	asked := 0
	r.set(func() {
		r.info = func() (uint64, any) {
			if asked++; asked < 4 {
				return 7, nil
			}
			return 10, nil
		}
	})
	endsAt(t, log, 10)
	r.set(func() { r.info = func() (uint64, any) { return 7, nil } })
	ended, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	if last, err := log.Last(ended); !errors.Is(err, ledger.ErrUnavailable) {
		t.Errorf("before it could catch up: %d, %v", last, err)
	}
	endsAt(t, log, 7)
	r.set(func() { r.info = func() (uint64, any) { return 0, nil } })
	endsAt(t, r.open(hangLimit), 0)
}

func endsAt(t *testing.T, log ledger.Log, want uint64) {
	t.Helper()
	if last, err := log.Last(context.Background()); last != want || err != nil {
		t.Errorf("it ends at %d, not %d: %v", last, want, err)
	}
}

// groupOf is what a server says about the servers of a stream: who leads, and the others, but for itself.
func groupOf(leader string, others ...string) *js.ClusterInfo {
	group := &js.ClusterInfo{Leader: leader}
	for _, name := range others {
		group.Replicas = append(group.Replicas, &js.PeerInfo{Name: name, Current: true})
	}
	return group
}

// TestLastIsTheLeaders: what a server that does not lead says about the end of the stream
// is waited out. It answers in its first seconds, and while no server leads.
func TestLastIsTheLeaders(t *testing.T) {
	t.Parallel()
	for name, group := range map[string]*js.ClusterInfo{
		"a server that does not lead": groupOf("a", "a", "c"),
		"one while no server leads":   groupOf("", "a", "b", "c"),
		"one that has just started":   groupOf("b"),
		"one that does not say":       nil,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := startReplicated(t, 10)
			log := r.open(hangLimit)
			asked := 0
			r.set(func() {
				r.info = func() (uint64, any) {
					if asked++; asked < 3 {
						r.cluster = group
						return 7, nil
					}
					r.cluster = groupOf("a", "b", "c")
					return 10, nil
				}
			})
			if endsAt(t, log, 10); asked != 3 {
				t.Errorf("asked %d times", asked)
			}
			r.set(func() {
				r.info = func() (uint64, any) {
					r.cluster = group
					return 7, nil
				}
			})
			ended, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
			defer cancel()
			if last, err := log.Last(ended); !errors.Is(err, ledger.ErrUnavailable) {
				t.Errorf("no leader has answered: %d, %v", last, err)
			}
		})
	}
}

// TestAppendsAnswers: only the answer that the commit is stored under its sequence makes it durable. Every other
// answer leaves its fate known to be bad, or unknown.
func TestAppendsAnswers(t *testing.T) {
	t.Parallel()
	r := startReplicated(t, 0)
	log, patient := r.open(300*time.Millisecond), r.open(hangLimit)
	var mu sync.Mutex
	var answer any
	sub, err := r.nc.Subscribe(jetstream.Subject, func(msg *nats.Msg) {
		mu.Lock()
		defer mu.Unlock()
		if got := msg.Header.Get(js.ExpectedLastSeqHeader); got != "6" || msg.Header.Get(js.ExpectedStreamHeader) != "ALLOT" {
			t.Errorf("sent with %v", msg.Header)
		}
		if answer != nil {
			r.respond(msg, answer)
		}
	})
	ledgertest.OK(t, err)
	ack := func(sequence uint64, duplicate bool) any {
		return js.PubAck{Stream: "ALLOT", Sequence: sequence, Duplicate: duplicate}
	}
	for name, c := range map[string]struct {
		answer any
		want   error
	}{
		"stored":                        {ack(7, false), nil},
		"stored under another sequence": {ack(8, false), ledger.ErrUnknownFate},
		"stored before":                 {ack(7, true), ledger.ErrUnknownFate},
		"another was first":             {apiError(400, 10071, "wrong last sequence: 7"), ledger.ErrConflict},
		"another was first, replicated": {apiError(400, 10164, "wrong last sequence"), ledger.ErrConflict},
		"too large":                     {apiError(400, 10054, "message size exceeds maximum allowed"), ledger.ErrTooLarge},
		"the disk is full":              {apiError(503, 10077, "insufficient resources"), ledger.ErrUnknownFate},
		"silence":                       {nil, ledger.ErrUnknownFate},
	} {
		mu.Lock()
		answer = c.answer
		mu.Unlock()
		asked := patient
		if c.answer == nil {
			asked = log
		}
		if err := within(t, name, func() error { return appended(asked, 7) }); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
	ledgertest.OK(t, sub.Unsubscribe())
	if err := within(t, "append", func() error { return appended(log, 7) }); !errors.Is(err, ledger.ErrUnknownFate) {
		t.Errorf("no server listens: %v", err)
	}
	large := make(chan error, 1)
	log.Append(7, make([]byte, log.MaxCommitBytes()+1), func(err error) { large <- err })
	if err := <-large; !errors.Is(err, ledger.ErrTooLarge) {
		t.Errorf("larger than messages can be: %v", err)
	}
	if n := log.Pending() + patient.Pending(); n > 0 {
		t.Errorf("%d appends are without an answer", n)
	}
	r.nc.Close()
	if err := within(t, "append", func() error { return appended(log, 7) }); !errors.Is(err, ledger.ErrUnknownFate) {
		t.Errorf("the connection is closed: %v", err)
	}
	if err := within(t, "read", func() error { return reads(log, 1, 1) }); !errors.Is(err, ledger.ErrUnavailable) {
		t.Errorf("read over a closed connection: %v", err)
	}
}

// TestRejectedStream: rejected commands are read newest first, past those that were removed meanwhile, until their
// reader has enough or fails.
func TestRejectedStream(t *testing.T) {
	t.Parallel()
	nc := dial(t, plainServer(t).ClientURL())
	kept, err := jetstream.OpenRejected(t.Context(), nc, jetstream.RejectedConfig{MaxBytes: 1 << 20, MaxAge: time.Hour})
	ledgertest.OK(t, err)
	for _, text := range []string{"one", "two", "three", "four"} {
		ledgertest.OK(t, kept.Append(t.Context(), []byte(text)))
	}
	api := ledgertest.Must(js.New(nc))
	stream := ledgertest.Must(api.Stream(t.Context(), jetstream.RejectedStream))
	ledgertest.OK(t, stream.DeleteMsg(t.Context(), 3))
	for most, want := range map[int]string{9: "four two one", 2: "four two"} {
		var texts []string
		err := kept.Newest(t.Context(), func(data []byte) (bool, error) {
			texts = append(texts, string(data))
			return len(texts) < most, nil
		})
		if got := strings.Join(texts, " "); err != nil || got != want {
			t.Errorf("%d: %q, %v", most, got, err)
		}
	}
}
