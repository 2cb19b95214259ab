package embedded_test

import (
	"slices"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/allot-project/allot/ledger/embedded"
	"github.com/allot-project/allot/ledger/ledgertest"
)

// TestClusterWithoutClients: servers that do not listen for clients find each
// other, too.
func TestClusterWithoutClients(t *testing.T) {
	var members []string
	for range 3 {
		members = append(members, ledgertest.FreeAddress(t))
	}
	var servers []*embedded.Server
	for i, listen := range members {
		s, err := embedded.Start(t.Context(), embedded.Config{
			StoreDir: t.TempDir(),
			Cluster: &embedded.Cluster{
				Member: string(rune('a' + i)), Listen: listen, Members: members, Secret: "a secret of sixteen bytes and more",
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.Shutdown)
		servers = append(servers, s)
	}
	ledgertest.WaitFor(t, "the servers to find each other", func() bool {
		return !slices.ContainsFunc(servers, func(s *embedded.Server) bool { return s.Peers() < 2 })
	})
	for i, s := range servers {
		if url := s.ClientURL(); url != "" {
			t.Errorf("server %d tells clients to connect to %s", i, url)
		}
	}
}

// TestNoOutsiderConnects: a server that serves only its process lets no other
// client in, although nats-server makes it listen.
func TestNoOutsiderConnects(t *testing.T) {
	s, err := embedded.Start(t.Context(), embedded.Config{
		StoreDir: t.TempDir(),
		Cluster: &embedded.Cluster{
			Member: "a", Listen: "127.0.0.1:0", Members: []string{"127.0.0.1:1", "127.0.0.1:2"}, Secret: "sixteen bytes or more",
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Shutdown)
	nc, err := nats.Connect("nats://" + embedded.AddressOf(s))
	if err == nil {
		nc.Close()
		t.Fatal("a client connected")
	}
	if own, err := s.Connect(); err != nil {
		t.Errorf("the process itself: %v", err)
	} else {
		own.Close()
	}
}
