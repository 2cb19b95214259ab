package main

import (
	"net"
	"net/netip"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// arrival is a connection that tells when it is closed.
type arrival struct {
	net.Conn
	closed *atomic.Int64
}

func (a arrival) Close() error {
	a.closed.Add(1)
	return nil
}

// TestArrivals: beside others an address begins connections at a pace, and few if it
// was cut off. Without others nothing waits.
func TestArrivals(t *testing.T) {
	t.Parallel()
	const many, each = 5000, 3000
	for _, c := range []struct {
		name           string
		others, struck bool
		atOnce         int64 // begun at once
		soon           int64 // and within half a second
		closed         int64
	}{
		{name: "alone", atOnce: many, soon: many},
		{name: "alone, and cut off", struck: true, atOnce: many, soon: many},
		{name: "beside others", others: true, atOnce: 512, soon: 1512, closed: many - 512 - each},
		{name: "beside others, and cut off", others: true, struck: true, atOnce: 1, soon: 51, closed: many - 1 - each},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				from := netip.MustParsePrefix("192.0.2.1/32")
				var begun, closed atomic.Int64
				a := newArrivals(
					each, 2*each, func(netip.Prefix) bool { return c.others }, func(net.Conn, netip.Prefix) { begun.Add(1) },
				)
				defer a.end()
				if c.struck {
					a.strike(from)
				}
				for range many {
					a.came(arrival{closed: &closed}, from)
				}
				if begun.Load() != c.atOnce || closed.Load() != c.closed {
					t.Errorf("%d began at once and %d were closed, want %d and %d", begun.Load(), closed.Load(), c.atOnce, c.closed)
				}
				time.Sleep(500 * time.Millisecond)
				if got := begun.Load(); got < c.soon*9/10 || got > c.soon+c.soon/50 {
					t.Errorf("%d began within half a second, want %d", got, c.soon)
				}
				time.Sleep(10 * time.Second)
				if got := begun.Load() + closed.Load(); got != many {
					t.Errorf("%d of %d began in the end, or were closed", got, many)
				}
			})
		})
	}
}

// TestArrivalsOfOthers: those of one address do not wait for another's, and what waits
// at the end is closed.
func TestArrivalsOfOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		greedy, modest := netip.MustParsePrefix("192.0.2.1/32"), netip.MustParsePrefix("192.0.2.2/32")
		by := make(map[netip.Prefix]int)
		var closed atomic.Int64
		a := newArrivals(
			1000, 1000, func(netip.Prefix) bool { return true }, func(_ net.Conn, from netip.Prefix) { by[from]++ },
		)
		a.strike(greedy)
		for range 100 {
			a.came(arrival{closed: &closed}, greedy)
		}
		for range 100 {
			a.came(arrival{closed: &closed}, modest)
		}
		if by[greedy] != 1 || by[modest] != 100 {
			t.Errorf("%d of who was cut off began, and %d of another", by[greedy], by[modest])
		}
		a.end()
		synctest.Wait()
		if closed.Load() != 99 {
			t.Errorf("%d of 99 that waited were closed at the end", closed.Load())
		}
		a.came(arrival{closed: &closed}, greedy)
		if closed.Load() != 100 {
			t.Error("one that came after the end waits")
		}
	})
}

// TestAddressesAreForgotten: an address that need not wait takes no memory for long.
func TestAddressesAreForgotten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := newArrivals(1, 1, func(netip.Prefix) bool { return true }, func(net.Conn, netip.Prefix) {})
		defer a.end()
		var none atomic.Int64
		address := netip.MustParseAddr("192.0.2.1")
		for range 100 {
			address = address.Next()
			a.came(arrival{closed: &none}, netip.PrefixFrom(address, 32))
			time.Sleep(100 * time.Millisecond)
		}
		if n := len(a.of); n > 21 {
			t.Errorf("%d of 100 addresses are known, want those of two seconds", n)
		}
	})
}
