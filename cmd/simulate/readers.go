package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"

	"github.com/allot-project/allot/cmd/simulate/judge"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/proof"
)

// record is one of the log, as servers tell it.
type record struct {
	ledger.Address
	ID string `json:"command_id"`
}

// read is what was read of a moment, which a read of the past must show again.
type read struct {
	path     string
	sequence uint64
	text     string
}

// mostReads is how many are kept, to be compared in the end.
const mostReads = 60

// audit notes now and then where a server says that the log is, and what it shows; what was
// shown before must be the same at its moment, on every server.
func (r *run) audit(c *caller, random *rand.Rand) {
	for ; !r.resting; c.Sleep(time.Duration(300+random.IntN(700)) * time.Millisecond) {
		s := r.servers[random.IntN(servers)]
		switch random.IntN(4) {
		case 0:
			r.noteWhere(c, s)
			continue
		case 1:
			r.noteSigned(c, s)
			continue
		}
		if n := len(r.reads); n > 0 && random.IntN(2) == 0 {
			r.readAgain(c, s, r.reads[random.IntN(n)])
			continue
		}
		g, path := r.grounds[random.IntN(providers)], ""
		switch random.IntN(4) {
		case 0:
			path = "/resource_providers/" + g.uuid + "/usages"
		case 1:
			path = "/resource_providers/" + r.pool.providers[random.IntN(pools)] + "/allocations"
		case 2:
			path = "/usages?project_id=project0"
		case 3:
			path = "/limits?project_id=project1"
		}
		found, err := c.ask(s.IP, http.MethodGet, path, "")
		if err == nil && found.status == http.StatusOK && found.sequence > 0 && len(r.reads) < mostReads {
			r.reads = append(r.reads, read{path, found.sequence, found.text})
		}
	}
}

// noteSigned notes a checkpoint that a server signs.
func (r *run) noteSigned(c *caller, s *server) {
	found, err := c.ask(s.IP, http.MethodGet, "/audit/checkpoint", "")
	if err == nil && found.status == http.StatusOK {
		r.signed = append(r.signed, proof.Kept{Path: fmt.Sprintf("of %s at %v", s.Name, c.Now()), Signed: []byte(found.text)})
	}
}

// noteWhere notes where a server says that the log is.
func (r *run) noteWhere(c *caller, s *server) {
	told := judge.Told{Server: s.Name}
	found, err := c.ask(s.IP, http.MethodGet, "/audit/digest", "")
	if err != nil || found.status != http.StatusOK {
		return
	}
	if err := json.Unmarshal([]byte(found.text), &told); err != nil {
		r.complain("%s: a digest cannot be read: %v: %s", s.Name, err, found.text)
	}
	r.told = append(r.told, told)
}

// readAgain reads the past. It reports whether there was an answer.
func (r *run) readAgain(c *caller, s *server, was read) bool {
	sign := "?"
	if strings.Contains(was.path, sign) {
		sign = "&"
	}
	found, err := c.ask(s.IP, http.MethodGet, fmt.Sprintf("%s%sat=%d", was.path, sign, was.sequence), "")
	if err != nil || found.status == http.StatusServiceUnavailable {
		return false
	}
	if found.status != http.StatusOK || found.text != was.text {
		r.complain("%s: %s of sequence %d is %d %s, and was %s", s.Name, was.path, was.sequence, found.status, found.text, was.text)
	}
	return true
}

// follow follows the records of the log through one server after the other.
func (r *run) follow(c *caller, random *rand.Rand) {
	for !r.resting {
		next := uint64(1)
		if n := len(r.followed); n > 0 {
			next = r.followed[n-1].Sequence // again, since there may be more records in it
		}
		s := r.servers[random.IntN(servers)]
		err := r.followOne(c, s, next)
		r.tell(c.Name, "follows %s no more, after %d records: %v", s.Name, len(r.followed), err)
		c.Sleep(200 * time.Millisecond)
	}
}

func (r *run) followOne(c *caller, s *server, next uint64) error {
	conn, err := c.Dial(s.IP, httpPort, patience)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }() // nothing waits for it
	conn.Patience = 2 * time.Second
	_, err = fmt.Fprintf(conn, "GET /audit/records?from=%d&follow=true HTTP/1.1\r\nHost: localhost\r\nX-Auth-Token: admin\r\n"+
		"Accept: text/event-stream\r\n\r\n", next)
	if err != nil {
		return err
	}
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil || response.StatusCode != http.StatusOK {
		return fmt.Errorf("%v, %w", response, err)
	}
	lines := bufio.NewScanner(response.Body)
	for lines.Scan() && !r.resting {
		text, isData := strings.CutPrefix(lines.Text(), "data:")
		if !isData {
			continue
		}
		var one record
		if err := json.Unmarshal([]byte(text), &one); err != nil {
			return err
		}
		if n := len(r.followed); n > 0 && !after(one.Address, r.followed[n-1].Address) {
			continue // it was told before
		}
		r.followed = append(r.followed, one)
	}
	return lines.Err()
}

func after(a, b ledger.Address) bool {
	return a.Sequence > b.Sequence || a.Sequence == b.Sequence && a.Index > b.Index
}

// judgeReads compares all that was read and followed with what the log has.
func (r *run) judgeReads(c *caller, records []record) {
	for i, one := range r.followed {
		if i >= len(records) || records[i] != one {
			r.complain("record %d of those that were followed is %v, and not in its place of the log", i, one)
			break
		}
	}
	for i, was := range r.reads {
		if !r.readAgain(c, r.servers[i%servers], was) {
			r.complain("%s of sequence %d cannot be read again", was.path, was.sequence)
		}
	}
}
