package natsapi

import (
	"slices"
	"testing"
	"time"
)

// TestFloodsAreCutOff: a client that goes on after too many refusals within a
// second is cut off, once, on however many connections it sends. Others are not,
// nor is one that slows down, or one that cannot be told from others.
func TestFloodsAreCutOff(t *testing.T) {
	t.Parallel()
	var cut []uint64
	f := floods{most: mostRefused, cutOff: func(connection uint64) { cut = append(cut, connection) }}
	now := time.Unix(1000, 0)
	of := func(account string, connection uint64) origin {
		return origin{Account: account, Connection: connection}
	}
	eve := accountPrefix + "eve"
	refuse := func(from origin, times int) (reports int) {
		for range times {
			if f.count(from, now) {
				reports++
			}
		}
		return reports
	}
	if n := refuse(of("anybody:1", 1), mostRefused-1) + refuse(of("anybody:1", 2), mostRefused-1) +
		refuse(of("", 0), 2*mostRefused); n > 0 || len(cut) > 0 {
		t.Errorf("%v are cut off too soon", cut)
	}
	now = now.Add(time.Second)
	if n := refuse(of(eve, 1), mostRefused-1); n > 0 || len(cut) > 0 {
		t.Errorf("%v, which slowed down, are cut off", cut)
	}
	now = now.Add(time.Millisecond)
	if n := refuse(of(eve, 2), 10); n != 1 || !slices.Equal(cut, []uint64{2}) {
		t.Errorf("%v are cut off, reported %d times", cut, n)
	}
	nobody := floods{most: mostRefused}
	for range 2 * mostRefused {
		if nobody.count(of(eve, 1), now) {
			t.Fatal("cut off without a way to do so")
		}
	}
}
