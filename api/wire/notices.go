package wire

import (
	"fmt"
	"strings"

	"github.com/allot-project/allot/ledger"
)

// NoticePrefix begins the subjects of notices: allot.notice.OF.NAME. OF is a
// subject of histories, and NAME its uuid or id, in which every character except
// letters, digits, - and _ is %XX.
const NoticePrefix = "allot.notice"

// HeartbeatSubject carries a Heartbeat about every second.
const HeartbeatSubject = NoticePrefix + ".heartbeat"

// HeaderNoticeMark changes when notices were not published. A follower that sees
// a new mark reads the history.
const HeaderNoticeMark = "Allot-Notice-Mark"

// CloudEvents' attributes as headers (binary content mode).
const (
	HeaderEventSpec    = "ce-specversion"
	HeaderEventID      = "ce-id"      // SEQUENCE.INDEX of the record
	HeaderEventSource  = "ce-source"  // /allot/LEDGER
	HeaderEventType    = "ce-type"    // NoticeType, followed by the command's name
	HeaderEventTime    = "ce-time"    // RFC 3339; time of the decision
	HeaderEventSubject = "ce-subject" // OF/NAME
)

// NoticeType begins the type of every notice.
const NoticeType = "org.allot.record."

// Heartbeat reports the position of the ledger.
type Heartbeat struct {
	Sequence uint64 `json:"sequence"`
	Mark     string `json:"mark"`
}

// Notice is one record as it concerned the followed entity. Its body is a
// HistoryEntry without the state before.
type Notice struct {
	Address ledger.Address
	HistoryEntry
}

// NoticeSubject returns the subject of notices about one entity.
func NoticeSubject(of, name string) string { return NoticePrefix + "." + of + "." + token(name) }

// token escapes a name, so that NATS takes it as one part of a subject.
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
