package embedded

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net/url"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/allot-project/allot/ledger/jetstream"
)

// The servers of replicas are one NATS cluster: they know each other by routes,
// over which JetStream replicates its streams and requests find the server
// that answers them.

// clusterUser is what servers call themselves to each other.
const clusterUser = "allot-replica"

// ClusterSubjects are what replicas tell each other on.
const ClusterSubjects = "allot.cluster.>"

// minSecret is how long the secret between replicas must be, in bytes.
const minSecret = 16

// Cluster makes the server one of several.
type Cluster struct {
	// Member names the server. No two of a cluster may have the same.
	Member string
	// Listen is HOST:PORT for the other servers.
	Listen string
	// Members are the addresses, HOST:PORT, that all servers of the cluster listen
	// at for each other, this one's among them.
	Members []string
	// Secret is what servers prove to each other that they belong together with.
	Secret string
	// TLS, if set, is what they speak among each other, both sides with a
	// certificate.
	TLS *tls.Config
}

// Check refuses what could not work.
func (c *Cluster) Check() error {
	switch {
	case c.Member == "":
		return errors.New("embedded: a server of a cluster needs a name")
	case len(c.Secret) < minSecret:
		return fmt.Errorf("embedded: the cluster's secret is shorter than %d bytes", minSecret)
	case len(c.Members) < 2:
		return errors.New("embedded: a cluster has at least two servers")
	}
	return nil
}

// join has the server's options say that it is one of a cluster.
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
	if c.TLS != nil {
		opts.Cluster.TLSConfig, opts.Cluster.TLSTimeout = c.TLS, tlsTimeout.Seconds()
	}
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

// LeadsLog reports whether this server's JetStream leads the log's stream:
// commits then reach their leader without another hop. False while there is no
// leader, or it is elsewhere.
func (s *Server) LeadsLog() bool {
	return s.ns.JetStreamIsStreamLeader(ownAccount, jetstream.DefaultStream)
}

// Whole reports whether this server holds all that the leaders of the log's
// stream and of the bucket have told it of, and is not catching up.
func (s *Server) Whole() bool {
	return s.ns.JetStreamIsStreamCurrent(ownAccount, jetstream.DefaultStream) &&
		s.ns.JetStreamIsStreamCurrent(ownAccount, "KV_"+jetstream.ValuesBucket)
}

// Peers is how many other servers of the cluster this one is connected to.
func (s *Server) Peers() int { return s.ns.NumRemotes() }
