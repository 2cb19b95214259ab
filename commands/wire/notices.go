package wire

import (
	"fmt"
	"strings"

	"github.com/allot-project/allot/ledger"
)

// NoticePrefix begins the subjects of notices: allot.notice.OF.NAME, where OF
// is the subject of a history and NAME its uuid or id, with every character
// but letters, digits, - and _ as %XX.
const NoticePrefix = "allot.notice"

// HeartbeatSubject carries a Heartbeat every second or so.
const HeartbeatSubject = NoticePrefix + ".heartbeat"

// HeaderNoticeMark changes when notices were not published, so that a
// follower whose mark is another one reads the history.
const HeaderNoticeMark = "Allot-Notice-Mark"

// CloudEvents' attributes as headers (binary content mode).
const (
	HeaderEventSpec    = "ce-specversion"
	HeaderEventID      = "ce-id"      // SEQUENCE.INDEX of the record
	HeaderEventSource  = "ce-source"  // /allot/LEDGER
	HeaderEventType    = "ce-type"    // NoticeType and the command's name
	HeaderEventTime    = "ce-time"    // RFC 3339, when the record was decided
	HeaderEventSubject = "ce-subject" // OF/NAME
)

// NoticeType begins the type of every notice.
const NoticeType = "org.allot.record."

// Heartbeat says how far the ledger is.
type Heartbeat struct {
	Sequence uint64 `json:"sequence"`
	Mark     string `json:"mark"`
}

// Notice is one record as it concerned what is followed. Its body is a
// HistoryEntry without the state before.
type Notice struct {
	Address ledger.Address
	HistoryEntry
}

// NoticeSubject is where what happens to one thing is published.
func NoticeSubject(of, name string) string { return NoticePrefix + "." + of + "." + token(name) }

// token writes a name so that NATS takes it as one part of a subject.
func token(name string) string {
	var b strings.Builder
	for i := range len(name) {
		c := name[i]
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_' {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}
