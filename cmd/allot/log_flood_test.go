package main_test

import (
	"fmt"
	"io"
	"net"
	"regexp"
	"strings"
	"testing"

	"github.com/allot-project/allot/ledger/ledgertest"
)

// TestStrangersFillNoLog: whatever clients do wrong, and however often, the server's log
// grows by a few lines, which say that there were more.
func TestStrangersFillNoLog(t *testing.T) {
	t.Parallel()
	const many = 2000
	g := launchGuarded(t)
	long := strings.Repeat("x", 2000)
	for name, do := range map[string]func(){
		"publishes what it may not": func() {
			nc := g.connect("eve")
			defer nc.Close()
			for range many {
				_ = nc.Publish("allot.log."+long, nil) // it may have been cut off
			}
			_ = nc.FlushTimeout(hang) // as above
		},
		"subscribes to what it may not": func() {
			nc := g.connect("eve")
			defer nc.Close()
			for range many {
				_, _ = nc.SubscribeSync("allot.log." + long) // as above
			}
			_ = nc.FlushTimeout(hang) // as above
		},
		"speaks another protocol": func() {
			for range 60 {
				if conn, err := net.Dial("tcp", g.nats); err == nil {
					_, _ = fmt.Fprintf(conn, "POST /%s HTTP/1.1\r\n\r\n", long[:500]) // it may have been closed
					_, _ = io.Copy(io.Discard, conn)                                  // until it is
					_ = conn.Close()
				}
			}
		},
	} {
		before := len(g.logs.String())
		do()
		if grown := g.logs.String()[before:]; len(grown) > 64<<10 || strings.Count(grown, "\n") > 60 {
			t.Errorf("%s: the log grows by %d bytes in %d lines: %.1000s", name, len(grown), strings.Count(grown, "\n"), grown)
		}
	}
	nc, leftOut := g.connect("eve"), regexp.MustCompile("Violation.*left_out=[1-9]")
	defer nc.Close()
	ledgertest.WaitFor(t, "a line that says that others were left out", func() bool {
		if err := nc.Publish("allot.log", nil); err != nil {
			t.Fatal(err)
		}
		return leftOut.MatchString(g.logs.String())
	})
}
