package main_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/allot-project/allot/api/wire"
	"github.com/allot-project/allot/commands/encoding"
)

// hostileDocuments are JSON texts that readers could understand differently, or
// that take much memory, and whether they are accepted.
func hostileDocuments() map[string]bool {
	deep := func(n int) string { return strings.Repeat(`{"a":`, n) + "1" + strings.Repeat("}", n) }
	return map[string]bool{
		`{"a":1,"A":2}`: true, `{"a":[1,"\ud83d\ude00",null,true,1e3]}`: true, deep(60): true,
		`{"a":1,"a":2}`: false, `{"a":1,"\u0061":2}`: false, `{"x":[{"a":1,"a":1}]}`: false, "{\"a\":\"\xff\"}": false,
		"{\"\xff\":1}":   false,
		`{"a":"\ud800"}`: false, `{"a":NaN}`: false, `{"a":01}`: false, `{"a":1,}`: false, `{'a':1}`: false,
		`{"a":1`: false, `{"a":1}}`: false,
		"{\"a\":\"\x00\"}": false, deep(80): false, `{"a":[` + strings.Repeat("1,", 300_000) + "1]}": false,
		`{"a":[` + strings.Repeat("{},", 300_000) + "{}]}": false,
	}
}

// TestDoorsReadAlike: all APIs accept and refuse the same documents, whichever
// decodes them: Placement, bare metal, audits and NATS.
func TestDoorsReadAlike(t *testing.T) {
	t.Parallel()
	s := launchUnguarded(t)
	nc := s.connect()
	admin := map[string]string{"X-Auth-Token": "admin"}
	command := `{"node":"22222222-2222-4222-8222-222222222222","name":"n","driver":"d","resource_class":"bm","extra":%s}`
	for document, good := range hostileDocuments() {
		read := map[string]bool{}
		status, text := s.send(
			"POST", "/baremetal/v1/nodes?dry_run=true",
			fmt.Sprintf(`{"driver":"d","name":"n","resource_class":"bm","extra":%s}`, document), admin,
		)
		read["bare metal"] = status < 300
		placement, answer := s.send("POST", "/resource_providers", fmt.Sprintf(`{"name":"n","extra":%s}`, document), admin)
		read["Placement"] = placement == http.StatusBadRequest && strings.Contains(answer, "does not validate")
		audit, told := s.send(
			"POST", "/audit/what-if", fmt.Sprintf(`{"steps":[{"command":"CreateNode","body":`+command+`}]}`, document), admin,
		)
		read["audits"] = audit == http.StatusOK
		msg := nats.NewMsg("allot.command.CreateNode")
		msg.Header.Set(wire.HeaderDryRun, "true")
		msg.Data = fmt.Appendf(nil, command, document)
		reply, err := nc.RequestMsg(msg, hang)
		var got wire.Reply
		if err == nil {
			err = encoding.DecodeReply(reply.Data, encoding.TypeJSON, &got)
		} else if errors.Is(err, nats.ErrMaxPayload) { // NATS refuses it by its size
			reply, err = msg, nil
			got.Error = &wire.Error{Code: wire.ErrorTooLarge}
		}
		must(t, err)
		read["NATS"] = got.Error == nil && got.Rejection == nil
		for door, isRead := range read {
			if isRead != good {
				t.Errorf(
					"%s reads %.60q: %t, want %t\n%d %.200s\n%d %.200s\n%d %.200s\n%.200s", door, document, isRead, good, status,
					text, placement, answer, audit, told, reply.Data,
				)
			}
		}
	}
}
