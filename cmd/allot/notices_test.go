package main_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/allot-project/allot/api/wire"
)

// TestNoticesOnTheWire reads notices as any NATS client does.
func TestNoticesOnTheWire(t *testing.T) {
	t.Parallel()
	s := launchUnguarded(t)
	nc := s.connect()
	all, err := nc.SubscribeSync("allot.notice.>")
	must(t, err)
	must(t, nc.Flush())
	s.makeProvider(10)
	s.Must(204, "PUT", "/allocations/"+consumerID(2), allocation())
	wanted := []string{consumerNotice + consumerID(2), "allot.notice.project.p", "allot.notice.user.u", wire.HeartbeatSubject}
	for len(wanted) > 0 {
		msg, err := all.NextMsg(hang)
		must(t, err)
		wanted = slices.DeleteFunc(wanted, func(subject string) bool { return subject == msg.Subject })
		if msg.Subject == consumerNotice+consumerID(2) {
			says(t, fmt.Sprint(msg.Header), "ce-specversion:[1.0]", "ce-type:[org.allot.record.AllocateForConsumers]",
				"Content-Type:[application/json]", "ce-subject:[consumer/"+consumerID(2)+"]", "ce-id:[", "ce-source:[", "ce-time:[")
		}
	}
}
