package embedded

import (
	"context"
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"net/url"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/allot-project/allot/ledger/jetstream"
)

// The servers of replicas form one NATS cluster. They are connected by routes,
// over which JetStream replicates its streams, and requests find the server that
// answers them.

// clusterUser is the user name of servers among each other.
const clusterUser = "allot-replica"

// ClusterSubjects are the subjects of messages between replicas.
const ClusterSubjects = "allot.cluster.>"

// MinSecret is the length of the shortest secret between replicas, in bytes.
const MinSecret = 16

// Cluster makes the server one of several.
type Cluster struct {
	// Member names the server. No two servers of a cluster may have the same
	// name.
	Member string
	// Listen is HOST:PORT for the other servers.
	Listen string
	// Members are the addresses, HOST:PORT, on which all servers of the cluster
	// listen for each other, this one included.
	Members []string
	// Secret is the secret that a server must have to join the others.
	Secret string
	// TLS, if set, is used among the servers. Both sides show a certificate. Without it they
	// prove to each other that they have the secret before they send it.
	TLS *tls.Config
	// Plain sends the secret and the log without TLS: what listens on the network reads them.
	Plain bool
}

// Check refuses settings that cannot work.
func (c *Cluster) Check() error {
	switch {
	case c.Member == "":
		return errors.New("embedded: a server of a cluster needs a name")
	case len(c.Secret) < MinSecret:
		return fmt.Errorf("embedded: the cluster's secret is shorter than %d bytes", MinSecret)
	case len(c.Members) < 2:
		return errors.New("embedded: a cluster has at least two servers")
	}
	return nil
}

func (c *Cluster) join(opts *server.Options) error {
	host, port, err := splitHostPort(c.Listen)
	if err != nil {
		return err
	}
	opts.ServerName = c.Member
	opts.Cluster = server.ClusterOpts{
		Name: "allot", Host: host, Port: port, Username: clusterUser, Password: c.Secret,
		AuthTimeout: authTimeout.Seconds(), NoAdvertise: true, ConnectBackoff: false,
	}
	if opts.Cluster.TLSConfig = c.TLS; c.TLS == nil && !c.Plain {
		if opts.Cluster.TLSConfig, err = SecretTLS(c.Secret); err != nil {
			return err
		}
	}
	opts.Cluster.TLSTimeout = tlsTimeout.Seconds()
	for _, member := range c.Members {
		if _, _, err := splitHostPort(member); err != nil {
			return err
		}
		opts.Routes = append(opts.Routes, &url.URL{
			Scheme: "nats-route", Host: member, User: url.UserPassword(clusterUser, c.Secret),
		})
	}
	return nil
}

// Leads reports whether this server's JetStream leads the log's stream, so that
// commits reach the stream's leader without another hop. It is false while there is
// no leader, or if JetStream is elsewhere.
func (s *Server) Leads() bool {
	return s.ns.JetStreamIsStreamLeader(ownAccount, jetstream.DefaultStream)
}

// Whole reports whether this server holds everything that the leaders of the log's
// stream and of the bucket have announced to it, and what the servers have agreed on
// about streams, and is not catching up.
func (s *Server) Whole() bool {
	for _, stream := range []string{jetstream.DefaultStream, "KV_" + jetstream.ValuesBucket} {
		if !s.ns.JetStreamIsStreamCurrent(ownAccount, stream) {
			return false
		}
	}
	return s.ns.JetStreamIsCurrent()
}

// Peers returns how many other servers of the cluster this one is connected to.
func (s *Server) Peers() int { return s.ns.NumRemotes() }

var errCalled = errors.New("the server that was called has another secret")

// SecretTLS is what servers without certificates speak. NATS sends the secret to any process that
// listens where another server should, so it is sent only after that one has proved that it has it:
// all make the same key of it, and TLS proves that both sides have the key.
func SecretTLS(secret string) (*tls.Config, error) {
	seed, err := hkdf.Key(sha256.New, []byte(secret), nil, "allot: servers of a cluster", ed25519.SeedSize)
	if err != nil {
		return nil, fmt.Errorf("embedded: %w", err)
	}
	key := ed25519.NewKeyFromSeed(seed)
	template := &x509.Certificate{SerialNumber: big.NewInt(1)}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("embedded: %w", err)
	}
	sameKey := func(otherwise error) func(tls.ConnectionState) error {
		return func(c tls.ConnectionState) error {
			if other, is := c.PeerCertificates[0].PublicKey.(ed25519.PublicKey); is && other.Equal(key.Public()) {
				return nil
			}
			return otherwise
		}
	}
	calls := &tls.Config{
		MinVersion: tls.VersionTLS13, SessionTicketsDisabled: true, ClientAuth: tls.RequireAnyClientCert,
		Certificates:       []tls.Certificate{{Certificate: [][]byte{certificate}, PrivateKey: key}},
		InsecureSkipVerify: true, //nolint:gosec // names and authorities say nothing here: the key counts
		VerifyConnection:   sameKey(errCalled),
	}
	isCalled := calls.Clone()
	isCalled.VerifyConnection = sameKey(errors.New("the caller has another secret"))
	calls.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) { return isCalled, nil }
	return calls, nil
}

// Forget takes the vote about where streams are from a server that is gone. It does nothing
// if that has none.
func (s *Server) Forget(ctx context.Context, name string) error {
	nc, err := s.connect(systemRole)
	if err != nil {
		return err
	}
	defer nc.Close()
	body, err := json.Marshal(server.JSApiMetaServerRemoveRequest{Server: name, Peer: peerOf(name)})
	if err != nil {
		return err
	}
	answer, err := nc.RequestWithContext(ctx, server.JSApiRemoveServer, body)
	if err != nil {
		return fmt.Errorf("embedded: %s is not forgotten: most of the servers must be there: %w", name, err)
	}
	var told server.JSApiMetaServerRemoveResponse
	if err := json.Unmarshal(answer.Data, &told); err != nil {
		return fmt.Errorf("embedded: %w", err)
	}
	if told.Error != nil && !server.IsNatsErr(told.Error, server.JSClusterServerNotMemberErr) {
		return fmt.Errorf("embedded: %s is not forgotten: %w", name, told.Error)
	}
	return nil
}

// peerOf is what JetStream calls a server, which it knows by that alone if it was away at all starts since.
func peerOf(name string) string {
	const digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	sum := sha256.Sum256([]byte(name))
	peer := sum[:8]
	for i, b := range peer {
		peer[i] = digits[int(b)%len(digits)]
	}
	return string(peer)
}
