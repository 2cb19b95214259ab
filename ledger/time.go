package ledger

import (
	"fmt"
	"strings"
	"time"
)

// Nanoseconds is a time as the ledger counts it, in Unix nanoseconds; false: it is of a year
// before 1678 or after 2261, which has no such number.
func Nanoseconds(t time.Time) (int64, bool) {
	n := t.UnixNano()
	return n, time.Unix(0, n).Equal(t)
}

// ParseTime reads an RFC 3339 time that has Nanoseconds. A blank is a time zone's plus sign that
// was not escaped in a query string.
func ParseTime(text string) (time.Time, error) {
	t, err := time.Parse(time.RFC3339Nano, strings.ReplaceAll(text, " ", "+"))
	if _, counted := Nanoseconds(t); err != nil || !counted {
		return time.Time{}, fmt.Errorf("%q is not an RFC 3339 time of the years 1678 to 2261", text)
	}
	return t, nil
}
