package main

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/allot-project/allot/ledger/embedded"
)

// clusterFlags make the server one of several servers of one ledger.
type clusterFlags struct {
	Members []string      `name:"cluster" help:"HOST:PORT on which each server of the cluster listens for the others, this one included. Give all servers the same list." placeholder:"HOST:PORT,..."`
	Name    string        `name:"cluster-name" help:"Name of this server in the cluster; default: the host name. With --nats-url a name makes the server one of several on that NATS." placeholder:"NAME"`
	Listen  string        `name:"cluster-listen" help:"HOST:PORT on which this server listens for the others; default: the address in --cluster that belongs to this machine." placeholder:"HOST:PORT"`
	Secret  string        `name:"cluster-secret-file" help:"File with the secret that lets a server join the cluster: the same for all servers, 16 bytes or more." type:"existingfile" placeholder:"FILE"`
	Cert    string        `name:"cluster-tls-cert" help:"Certificate that this server shows the others, in PEM; both sides check it. The file is read again when it changes." type:"existingfile" placeholder:"FILE"`
	Key     string        `name:"cluster-tls-key" help:"Private key of --cluster-tls-cert, in PEM." type:"existingfile" placeholder:"FILE"`
	CA      string        `name:"cluster-tls-ca" help:"Certificates of the authorities that sign the servers' certificates. Use authorities that sign for nobody else." type:"existingfile" placeholder:"FILE"`
	Plain   bool          `name:"cluster-plaintext" help:"Let the servers talk without TLS over a network. Anybody who can listen there can read and write the log."`
	HTTP    string        `name:"cluster-http" help:"URL of this server's REST API to show to clients and operators; default: --http." placeholder:"URL"`
	Lease   time.Duration `name:"cluster-lease" help:"A leader that is silent for this long loses its place; 1s or more. The speeds of two servers' clocks may differ by a tenth." default:"3s"`
	Wait    time.Duration `name:"cluster-wait" help:"How long requests wait for a leader." default:"10s"`
	Ack     time.Duration `name:"ack-timeout" help:"How long an append to a replicated log may take before the leader looks for it in the log; default: 2s, or 5s with --nats-url." placeholder:"DURATION"`
}

// on reports whether there is a cluster.
func (f *clusterFlags) on() bool { return len(f.Members) > 0 }

// fill completes missing settings, and refuses contradictory ones.
func (f *clusterFlags) fill(http string, external bool) (err error) {
	if f.Lease < time.Second {
		return fmt.Errorf("--cluster-lease %v is too short: the lease is renewed six times in its time, over the network and to a disk. Give 1s or more", f.Lease)
	}
	if external && !f.on() {
		return f.fillExternal(http)
	}
	if !f.on() {
		if f.Name != "" || f.Listen != "" || f.Secret != "" {
			return errors.New("--cluster-name, --cluster-listen and --cluster-secret-file need --cluster, the list of all servers")
		}
		return nil
	}
	if f.Secret == "" {
		return errors.New("--cluster needs --cluster-secret-file: without a secret anybody could join, and write the log")
	}
	if f.Name == "" {
		if f.Name, err = os.Hostname(); err != nil {
			return fmt.Errorf("--cluster-name: %w", err)
		}
	}
	if err := f.checkName(); err != nil {
		return err
	}
	if f.Listen == "" {
		if f.Listen, err = f.ownAddress(); err != nil {
			return err
		}
	}
	if len(f.Members) < 3 {
		return fmt.Errorf("--cluster names %d servers, but a ledger that outlives a server needs three", len(f.Members))
	}
	if external {
		return errors.New("--cluster makes a cluster of embedded NATS servers, but --nats-url names external ones: give only one of the two")
	}
	if err := f.checkTLS(); err != nil {
		return err
	}
	if f.HTTP == "" {
		f.HTTP = "http://" + http
	}
	of, err := f.embedded(slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	return of.Check() // The server checks this, too, but after it has written files.
}

// fillExternal is fill for an external NATS, where a name makes the server one of
// several.
func (f *clusterFlags) fillExternal(http string) error {
	if f.HTTP == "" {
		f.HTTP = "http://" + http
	}
	return f.checkName()
}

func (f *clusterFlags) checkName() error {
	if strings.ContainsAny(f.Name, " \t\n.*>/\\") {
		return fmt.Errorf("--cluster-name %q: a name must not contain blanks, dots, stars, slashes or angle brackets", f.Name)
	}
	return nil
}

// checkTLS refuses to talk without TLS over a network.
func (f *clusterFlags) checkTLS() error {
	some, all := f.Cert != "" || f.Key != "" || f.CA != "", f.Cert != "" && f.Key != "" && f.CA != ""
	if some != all {
		return errors.New("--cluster-tls-cert, --cluster-tls-key and --cluster-tls-ca belong together: give all or none")
	}
	local, err := isLocal(f.Listen)
	if err != nil {
		return fmt.Errorf("--cluster-listen: %w", err)
	}
	if !local && !all && !f.Plain {
		return fmt.Errorf("other machines can reach --cluster-listen %s, and the servers send each other the log: "+
			"give them certificates with --cluster-tls-cert, --cluster-tls-key and --cluster-tls-ca, or accept the risk with --cluster-plaintext", f.Listen)
	}
	return nil
}

// tls returns the TLS configuration of the servers among each other; nil: no TLS.
func (f *clusterFlags) tls(logger *slog.Logger) (*tls.Config, error) {
	if f.Cert == "" {
		return nil, nil
	}
	pair := &certificates{flags: tlsFlags{Cert: f.Cert, Key: f.Key}, logger: logger}
	if err := pair.load(); err != nil {
		return nil, fmt.Errorf("--cluster-tls-cert: %w", err)
	}
	signers, err := trusted(f.CA)
	if err != nil {
		return nil, fmt.Errorf("--cluster-tls-ca: %w", err)
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS13, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: signers, RootCAs: signers,
		GetCertificate:       func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return pair.current(), nil },
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return pair.current(), nil },
	}, nil
}

// ownAddress returns the address in the list that belongs to this machine.
func (f *clusterFlags) ownAddress() (string, error) {
	host, err := os.Hostname()
	if err != nil {
		return "", fmt.Errorf("--cluster-listen: %w", err)
	}
	var own []string
	for _, member := range f.Members {
		name, _, _ := strings.Cut(member, ":")
		short, _, _ := strings.Cut(name, ".")
		if name == host || short == f.Name || short == host {
			own = append(own, member)
		}
	}
	if len(own) != 1 {
		return "", fmt.Errorf("none of the addresses in --cluster %s, or more than one, belongs to this machine: name this server's with --cluster-listen", strings.Join(f.Members, ","))
	}
	return own[0], nil
}

// embedded returns the cluster of the NATS server in the process; nil: none.
func (f *clusterFlags) embedded(logger *slog.Logger) (*embedded.Cluster, error) {
	if !f.on() {
		return nil, nil
	}
	secret, err := os.ReadFile(f.Secret)
	if err != nil {
		return nil, fmt.Errorf("--cluster-secret-file: %w", err)
	}
	encrypted, err := f.tls(logger)
	if err != nil {
		return nil, err
	}
	return &embedded.Cluster{
		Member: f.Name, Listen: f.Listen, Members: slices.Clone(f.Members), Secret: strings.TrimSpace(string(secret)),
		TLS: encrypted,
	}, nil
}

// replicas returns how many replicas the streams of a cluster have: three, of
// which one may be lost.
func (f *clusterFlags) replicas() int { return min(len(f.Members), 3) }
