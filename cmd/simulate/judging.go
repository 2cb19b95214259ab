package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/note"

	"github.com/allot-project/allot/cmd/simulate/judge"
	"github.com/allot-project/allot/ledger/proof"
)

// theSame waits until all servers hold the same.
func (r *run) theSame(c *caller) bool {
	var texts [servers]string
	same := func() bool {
		for i, s := range r.servers {
			found, err := c.ask(s.IP, http.MethodGet, "/audit/digest", "")
			if err != nil || found.status != http.StatusOK {
				return false
			}
			texts[i] = found.text
		}
		return texts[0] == texts[1] && texts[0] == texts[2]
	}
	if !r.within(c, "all servers held the same", c.Now()+20*time.Second, same) {
		r.tell("judge", "the digests: %s", strings.Join(texts[:], "; "))
		return false
	}
	r.tell("judge", "all servers hold the same: %s", clip(texts[0]))
	return true
}

// compare compares what servers tell with each other, with the log and with what clients saw.
func (r *run) compare(c *caller) {
	var texts [servers]string
	for i, s := range r.servers {
		r.noteWhere(c, s)
		r.noteSigned(c, s)
		found, err := c.ask(s.IP, http.MethodGet, "/audit/records?from=1", "")
		if err != nil || found.status != http.StatusOK {
			r.complain("the records of %s cannot be read: %v", s.Name, err)
			return
		}
		if texts[i] = found.text; texts[i] != texts[0] {
			r.complain("%s tells other records than %s", s.Name, r.servers[0].Name)
		}
	}
	logged := map[string]int{}
	var records []record
	for text := range strings.Lines(texts[0]) {
		var one record
		if err := json.Unmarshal([]byte(text), &one); err != nil {
			r.complain("a record cannot be read: %v: %s", err, text)
			return
		}
		records = append(records, one)
		logged[one.ID]++
		r.commits = one.Sequence
	}
	for _, wrong := range append(judge.History(r.deeds, logged, capacity), judge.Commands(r.commands, logged)...) {
		r.complain("%s", wrong)
	}
	r.judgeReads(c, records)
	r.judgeNotices(c)
	r.judgeLog(c)
}

// signedLog reads the log up to the last checkpoint: no server has signed what came after it, such as the end of a
// reservation.
func (r *run) signedLog(c *caller) (log [][]byte, err error) {
	if len(r.signed) == 0 {
		return nil, errors.New("no server has signed a checkpoint")
	}
	last, err := proof.Unverified(r.signed[len(r.signed)-1].Signed)
	if err != nil {
		return nil, err
	}
	found, err := c.ask(r.servers[0].IP, http.MethodGet, "/audit/commits?limit=100000", "")
	if err != nil || found.status != http.StatusOK {
		return nil, fmt.Errorf("the commits cannot be read: %w", err)
	}
	for text := range strings.Lines(found.text) {
		var one struct{ Data []byte }
		if err := json.Unmarshal([]byte(text), &one); err != nil {
			return nil, fmt.Errorf("a commit cannot be read: %w: %s", err, text)
		}
		log = append(log, one.Data)
	}
	return log[:min(uint64(len(log)), last.Sequence)], nil
}

// judgeLog folds the log, and compares what servers have told with it.
func (r *run) judgeLog(c *caller) {
	log, err := r.signedLog(c)
	if err != nil {
		r.complain("%v", err)
		return
	}
	key, err := note.NewVerifier(publicKey)
	if err != nil {
		panic(err) // a mistake in the constant
	}
	var wrong []string
	r.roots, wrong = judge.Verify(context.Background(), log, r.signed, note.VerifierList(key))
	for _, wrong := range wrong {
		r.complain("%s", wrong)
	}
	dir, err := os.MkdirTemp("", "allot-simulate-")
	if err != nil {
		r.complain("%v", err)
		return
	}
	for _, wrong := range judge.Log(context.Background(), log, r.told, dir) {
		r.complain("%s", wrong)
	}
	if err := os.RemoveAll(dir); err != nil {
		r.complain("%v", err)
	}
}
