package main

import (
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/allot-project/allot/cmd/internal/cli"
	"github.com/allot-project/allot/ledger/embedded"
)

// clusterFlags make the server one of several servers of one ledger.
type clusterFlags struct {
	Members []string      `name:"cluster" help:"HOST:PORT where each server of the cluster listens for the others, this one's among them: the same list for all." placeholder:"HOST:PORT,..."`
	Name    string        `name:"cluster-name" help:"Name of this server among them; default: the host's; with --nats-url, the host's and a mark of its data folder." placeholder:"NAME"`
	Listen  string        `name:"cluster-listen" help:"HOST:PORT that this server listens on for the others; default: the one of --cluster that is this machine's." placeholder:"HOST:PORT"`
	Secret  string        `name:"cluster-secret-file" help:"File with what the servers prove to each other that they belong together with: the same for all, 16 bytes or more." type:"existingfile" placeholder:"FILE"`
	Cert    string        `name:"cluster-tls-cert" help:"Certificate of this server for the others, in PEM: they check it, in both directions. A file that changes is read again." type:"existingfile" placeholder:"FILE"`
	Key     string        `name:"cluster-tls-key" help:"Its private key in PEM." type:"existingfile" placeholder:"FILE"`
	CA      string        `name:"cluster-tls-ca" help:"Certificates of who may sign those of the servers, and of nobody else." type:"existingfile" placeholder:"FILE"`
	Plain   bool          `name:"cluster-plaintext" help:"Let the servers talk without TLS over a network: whoever can listen there can read, and write, the log."`
	HTTP    string        `name:"cluster-http" help:"URL of this server's REST API for clients, to be shown; default: --http." placeholder:"URL"`
	Lease   time.Duration `name:"cluster-lease" help:"A server that leads and is silent for this long leads no more. It renews this six times in the time. The clocks of two servers may differ in speed by a tenth." default:"3s" least:"1s"`
	Wait    time.Duration `name:"cluster-wait" help:"How long requests wait for a server to lead." default:"10s" least:"10ms"`
	Copy    int64         `name:"cluster-copy-rate" help:"Send a copy of State and read models to a server that joins at this many bytes a second at most; 0: send none, and fetch none." default:"134217728" placeholder:"BYTES"`
	Ack     time.Duration `name:"ack-timeout" help:"How long an append to a replicated log may take before it is looked for; default: 2s, and 5s with --nats-url." placeholder:"DURATION"`
}

// minCopyRate is what some parts a second take.
const minCopyRate = 1 << 20

// on reports whether there is a cluster.
func (f *clusterFlags) on() bool { return len(f.Members) > 0 }

// fill completes what was left out, and refuses what contradicts itself.
func (f *clusterFlags) fill(http, data string, external bool) (err error) {
	if err := f.checkRates(); err != nil {
		return err
	}
	if external && !f.on() {
		return f.fillExternal(http, data)
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

// checkRates refuses what leaves others no time.
func (f *clusterFlags) checkRates() error {
	if f.Copy != 0 && f.Copy < minCopyRate {
		return fmt.Errorf("--cluster-copy-rate %d: a server that joins would take this one for gone: %d or more, or 0",
			f.Copy, minCopyRate)
	}
	return nil
}

// fillExternal is fill for a server on an external NATS. Others may serve the
// same log, whether it was meant or not, and two that both believe to be the
// only one would answer what is not so any more. So each takes part in the
// election, under a name that is its own: one is made of the host's name and of
// where its data is, which no two servers share.
func (f *clusterFlags) fillExternal(http, data string) error {
	if f.HTTP == "" {
		f.HTTP = "http://" + http
	}
	if f.Name == "" {
		host, err := os.Hostname()
		if err != nil {
			return fmt.Errorf("--cluster-name: %w", err)
		}
		place := sha256.Sum256([]byte(data))
		f.Name = plainName(host) + "-" + hex.EncodeToString(place[:4])
	}
	return f.checkName()
}

// plainName is a host's name as one of a server.
func plainName(host string) string {
	return strings.Map(func(r rune) rune {
		if strings.ContainsRune(notInNames, r) {
			return '-'
		}
		return r
	}, host)
}

// notInNames is what subjects and keys cannot have in a word.
const notInNames = " \t\n.*>/\\"

func (f *clusterFlags) checkName() error {
	if strings.ContainsAny(f.Name, notInNames) {
		return fmt.Errorf("--cluster-name %q: it must not contain blanks, dots, stars, slashes or angle brackets", f.Name)
	}
	return nil
}

// checkTLS refuses to talk without TLS over a network.
func (f *clusterFlags) checkTLS() error {
	some, all := f.Cert != "" || f.Key != "" || f.CA != "", f.Cert != "" && f.Key != "" && f.CA != ""
	if some != all {
		return errors.New("--cluster-tls-cert, --cluster-tls-key and --cluster-tls-ca belong together: give all or none")
	}
	local, err := cli.IsLocal(f.Listen)
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
	pair, err := cli.NewCertificates(cli.TLSFlags{Cert: f.Cert, Key: f.Key}, logger)
	if err != nil {
		return nil, fmt.Errorf("--cluster-tls-cert: %w", err)
	}
	signers, err := cli.Trusted(f.CA)
	if err != nil {
		return nil, fmt.Errorf("--cluster-tls-ca: %w", err)
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS13, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: signers, RootCAs: signers,
		GetCertificate:       func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return pair.Current(), nil },
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return pair.Current(), nil },
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
