package leading

import (
	"testing"

	"github.com/allot-project/allot/ledger/jetstream"
)

// TestQuorate: a stream's servers count as well if one leads and most of them are
// there.
func TestQuorate(t *testing.T) {
	well, lags, away := jetstream.Peer{Current: true}, jetstream.Peer{}, jetstream.Peer{Current: true, Offline: true}
	for name, c := range map[string]struct {
		peers jetstream.Peers
		want  bool
	}{
		"all":           {jetstream.Peers{Leader: "1", Others: []jetstream.Peer{well, well}}, true},
		"one away":      {jetstream.Peers{Leader: "1", Others: []jetstream.Peer{well, away}}, true},
		"one lags":      {jetstream.Peers{Leader: "1", Others: []jetstream.Peer{lags, well}}, true},
		"alone":         {jetstream.Peers{Leader: "1", Others: []jetstream.Peer{away, away}}, false},
		"others lag":    {jetstream.Peers{Leader: "1", Others: []jetstream.Peer{lags, lags}}, false},
		"none leads":    {jetstream.Peers{Others: []jetstream.Peer{well, well}}, false},
		"one that lags": {jetstream.Peers{Leader: "1", Others: []jetstream.Peer{lags, away}}, false},
	} {
		if got := quorate(c.peers); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestUpToDate: the leadership of a stream is given only to a server that has all
// of it.
func TestUpToDate(t *testing.T) {
	peers := jetstream.Peers{Leader: "1", Others: []jetstream.Peer{
		{Name: "2", Current: true}, {Name: "3", Current: true, Lag: 1}, {Name: "4", Current: true, Offline: true}, {Name: "5"},
	}}
	for name, want := range map[string]bool{"1": false, "2": true, "3": false, "4": false, "5": false, "6": false} {
		if got := upToDate(peers, name); got != want {
			t.Errorf("server %s: %v", name, got)
		}
	}
}
