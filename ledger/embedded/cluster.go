package embedded

import (
	"crypto/tls"
	"errors"
	"fmt"
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
		if opts.Cluster.TLSConfig, err = secretTLS(c.Secret); err != nil {
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
