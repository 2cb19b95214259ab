package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/allot-project/allot/api/wire"
	"github.com/allot-project/allot/ledger"
)

// notified is a client that follows a provider by notices, as the Go client does: it goes on after the last entry that
// it has, and reads the history when it connects and when the mark changes.
type notified struct {
	*caller
	run     *run
	name    string // of the provider
	entries []json.RawMessage
	last    ledger.Address
	mark    string
	over    time.Duration // when nothing more was to come; 0: something was
	done    bool
}

// newNotified begins after the first record, which is of no provider.
func newNotified(c *caller, r *run) *notified {
	return &notified{caller: c, run: r, name: r.grounds[0].uuid, last: ledger.Address{Sequence: 1}}
}

func (r *run) notify(c *caller, random *rand.Rand) {
	r.notified = newNotified(c, r)
	for f := r.notified; !f.done; c.Sleep(200 * time.Millisecond) {
		s := r.servers[random.IntN(servers)]
		err := f.follow(s)
		r.tell(c.Name, "hears %s no more, after %d notices: %v", s.Name, len(f.entries), err)
	}
}

// follow follows through one server, until it is heard no more.
func (f *notified) follow(s *server) error {
	nats, err := newRequester(f.Client, s.IP, patience)
	if err != nil {
		return err
	}
	defer func() { _ = nats.conn.Close() }() // nothing waits for it
	subject := wire.NoticeSubject("provider", f.name)
	if err := nats.subscribe(subject, wire.HeartbeatSubject); err != nil {
		return err
	}
	for f.mark = ""; !f.done; {
		m, err := nats.next()
		if err != nil {
			return err
		}
		if mark := markOf(m); mark != f.mark {
			if err := f.catchUp(nats); err != nil {
				return err
			}
			f.mark = mark
		}
		if m.subject == subject {
			if err := f.pass([]byte(m.text)); err != nil {
				return err
			}
			continue
		}
		f.end()
	}
	return nil
}

// markOf is the mark in a notice or a heartbeat.
func markOf(m message) string {
	if _, rest, is := strings.Cut(m.header, wire.HeaderNoticeMark+": "); is {
		mark, _, _ := strings.Cut(rest, "\r\n")
		return mark
	}
	var beat wire.Heartbeat
	if err := json.Unmarshal([]byte(m.text), &beat); err != nil {
		return ""
	}
	return beat.Mark
}

// end ends with the second heartbeat after all other clients rest: what they did was told before.
func (f *notified) end() {
	switch {
	case f.run.working > 1:
	case f.over == 0:
		f.over = f.Now()
	default:
		f.done = f.Now() > f.over+time.Second
	}
}

// catchUp takes from the history what is not known yet.
func (f *notified) catchUp(nats *requester) error {
	after := f.last.String()
	for after != "" {
		found, err := history(nats, f.name, after)
		if err != nil {
			return err
		}
		for _, one := range found.Entries {
			if err := f.pass(one); err != nil {
				return err
			}
		}
		after = found.Next
	}
	return nil
}

// page is one of a history.
type page struct {
	Entries []json.RawMessage `json:"entries"`
	Next    string            `json:"next"`
}

// history reads a page of a provider's history, oldest first.
func history(nats *requester, name, after string) (*page, error) {
	query := fmt.Sprintf(`{"of":"provider","name":%q,"after":%q,"limit":500,"brief":true}`, name, after)
	text, err := nats.request("allot.query.History", "", query)
	if err != nil {
		return nil, err
	}
	var found struct {
		Result *page           `json:"result"`
		Error  json.RawMessage `json:"error"`
	}
	if err := json.Unmarshal([]byte(text), &found); err != nil {
		return nil, err
	}
	if found.Result == nil {
		return nil, fmt.Errorf("no history: %s", found.Error)
	}
	return found.Result, nil
}

// pass takes an entry, unless it is known.
func (f *notified) pass(text json.RawMessage) error {
	var found struct{ Address string }
	if err := json.Unmarshal(text, &found); err != nil {
		return err
	}
	address, err := ledger.ParseAddress(found.Address)
	if err == nil && after(address, f.last) {
		f.entries, f.last = append(f.entries, text), address
	}
	return err
}

// judgeNotices compares what was told in notices with the whole history.
func (r *run) judgeNotices(c *caller) {
	nats, err := newRequester(c.Client, r.servers[0].IP, patience)
	if err != nil {
		r.complain("the history cannot be read: %v", err)
		return
	}
	whole := newNotified(c, r)
	if err := whole.catchUp(nats); err != nil {
		r.complain("the history cannot be read: %v", err)
		return
	}
	told := r.notified.entries
	for i, entry := range whole.entries {
		here := "none"
		if i < len(told) {
			here = string(told[i])
		}
		if here != string(entry) {
			r.complain("entry %d of %d of provider %s was not told as it is: %s; %d were told, here %s",
				i, len(whole.entries), whole.name, clip(string(entry)), len(told), clip(here))
			return
		}
	}
	if len(told) > len(whole.entries) {
		r.complain("%d notices of provider %s, and its history has %d entries", len(told), whole.name, len(whole.entries))
	}
	r.tell("judge", "%d notices were as the history is", len(told))
}
