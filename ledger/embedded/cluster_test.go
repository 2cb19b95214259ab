package embedded_test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"io"
	"math/big"
	"net"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/allot-project/allot/ledger/embedded"
	"github.com/allot-project/allot/ledger/ledgertest"
)

const secret = "a secret of sixteen bytes and more"

// startReplica starts a server of a cluster that does not listen for clients.
func startReplica(t *testing.T, member, listen string, members []string) *embedded.Server {
	t.Helper()
	s, err := embedded.Start(t.Context(), embedded.Config{StoreDir: t.TempDir(), Cluster: &embedded.Cluster{
		Member: member, Listen: listen, Members: members, Secret: secret,
	}})
	ledgertest.OK(t, err)
	t.Cleanup(s.Shutdown)
	return s
}

// TestNoOutsiderConnects: a server that serves only its process lets no other
// client in, although nats-server makes it listen.
func TestNoOutsiderConnects(t *testing.T) {
	s := startReplica(t, "a", "127.0.0.1:0", []string{"127.0.0.1:1", "127.0.0.1:2"})
	nc, err := nats.Connect("nats://" + embedded.AddressOf(s))
	if err == nil {
		nc.Close()
		t.Fatal("a client connected")
	}
	own, err := s.Connect() // the process itself
	ledgertest.OK(t, err)
	own.Close()
}

// heard keeps what is read from a connection.
type heard struct {
	net.Conn
	bytes.Buffer
}

func (h *heard) Read(p []byte) (int, error)  { return io.TeeReader(h.Conn, &h.Buffer).Read(p) }
func (h *heard) Write(p []byte) (int, error) { return h.Conn.Write(p) }

// TestSecretIsProvedNotSent: a process that listens where another server of the cluster should is
// not told the secret, whether it speaks as NATS does, or TLS with a certificate of its own.
func TestSecretIsProvedNotSent(t *testing.T) {
	t.Parallel()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	ledgertest.OK(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1)}
	certificate := ledgertest.Must(x509.CreateCertificate(rand.Reader, template, template, public, private))
	own := &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{certificate}, PrivateKey: private}}}
	for name, listens := range map[string]func(net.Conn){
		"NATS": func(c net.Conn) {
			_, _ = io.WriteString(c, "INFO {\"server_id\":\"NX\",\"server_name\":\"b\",\"version\":\"2.15.3\",\"cluster\":\"allot\","+
				"\"auth_required\":true,\"headers\":true,\"max_payload\":1048576}\r\n")
			_, _ = c.Read(make([]byte, 64<<10))
		},
		"TLS": func(c net.Conn) {
			speaks := &heard{Conn: tls.Server(c, own)}
			_, _ = speaks.Read(make([]byte, 64<<10))
			_, _ = c.(*heard).Buffer.Write(speaks.Bytes())
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			listener := ledgertest.Must(net.Listen("tcp", "127.0.0.1:0"))
			defer func() { _ = listener.Close() }() // the test ends
			s := startReplica(t, "a", "127.0.0.1:0", []string{listener.Addr().String(), "127.0.0.1:1"})
			defer s.Shutdown()
			for range 2 {
				conn := ledgertest.Must(listener.Accept())
				h := &heard{Conn: conn}
				listens(h)
				_ = conn.Close() // the server calls again
				if h.Len() == 0 || bytes.Contains(h.Bytes(), []byte(secret)) {
					t.Errorf("it is told %q", h.Bytes())
				}
			}
		})
	}
}
