package server

import (
	"cmp"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/allot-project/allot/api/port"
	"github.com/allot-project/allot/cmd/internal/cli"
	"github.com/allot-project/allot/ledger/embedded"
)

// clusterFlags make the server one of several servers of one ledger.
type clusterFlags struct {
	Members []string      `name:"cluster" help:"HOST:PORT where each server of the cluster listens for the others, this one's among them: the same list for all." placeholder:"HOST:PORT,..." usual:""`
	Name    string        `name:"cluster-name" help:"Name of this server among them; default: the host's; with --nats-url, the host's and a mark of its data folder." placeholder:"NAME"`
	Listen  string        `name:"cluster-listen" help:"HOST:PORT that this server listens on for the others; default: the one of --cluster that is this machine's." placeholder:"HOST:PORT"`
	Secret  string        `name:"cluster-secret-file" help:"File with the cluster's shared secret, 16 bytes or more." type:"existingfile" placeholder:"FILE"`
	TLS     string        `name:"cluster-tls" help:"Folder with cert.pem and key.pem, this server's certificate for the others, and ca.pem, the authorities for theirs: servers check each other. cert.pem and key.pem are read again when they change, ca.pem at a start." type:"existingdir" placeholder:"FOLDER"`
	Plain   bool          `name:"cluster-plaintext" help:"Let the servers talk without TLS over a network: a listener there can read, and write, the log."`
	HTTP    string        `name:"cluster-http" help:"HOST:PORT that this server listens on to give the others copies of State and read models. Without it, it gives none, and gets none from them." placeholder:"HOST:PORT"`
	Lease   time.Duration `name:"cluster-lease" help:"Leader lease: a leader that cannot renew it for this long steps down. It is renewed six times in this time. The clocks of two servers may differ in speed by a tenth." default:"3s" least:"1s"`

	// REST is the URL of this server's REST API, as it is shown.
	REST string `kong:"-"`
}

// keyFile is the private key of this server; "": it has none.
func (f *clusterFlags) keyFile() string {
	if f.TLS == "" {
		return ""
	}
	return filepath.Join(f.TLS, "key.pem")
}

// on reports whether there is a cluster.
func (f *clusterFlags) on() bool { return len(f.Members) > 0 }

// shared reports whether other servers may serve the same ledger.
func (f *clusterFlags) shared() bool { return f.on() || f.Name != "" }

// givesCopies reports whether replicas give each other copies.
func (f *clusterFlags) givesCopies() bool { return f.shared() && f.HTTP != "" }

// wait is how long requests wait for a server to lead: JetStream and a new leader take that
// long, at most, on machines that are not busy.
func (f *clusterFlags) wait() time.Duration { return 10 * f.Lease / 3 }

// fill completes what was left out, and refuses what contradicts itself.
func (f *clusterFlags) fill(data string, external bool) (err error) {
	if external && !f.on() {
		return f.fillExternal(data)
	}
	if !f.on() {
		if f.Name != "" || f.Listen != "" || f.Secret != "" || f.HTTP != "" {
			return errors.New("--cluster-name, --cluster-listen, --cluster-http and --cluster-secret-file need --cluster, the list of all servers")
		}
		return nil
	}
	if f.Secret == "" {
		return errors.New("--cluster needs --cluster-secret-file: without a secret any server could join, and write the log")
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
	if err := cmp.Or(f.checkTLS(), f.checkHTTP()); err != nil {
		return err
	}
	of, err := f.embedded(slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	return of.Check() // The server checks this, too, but after it has written files.
}

// checkHTTP refuses to give copies to everybody.
func (f *clusterFlags) checkHTTP() error {
	if f.HTTP == "" {
		return nil
	}
	secret, err := f.secret()
	if err == nil && len(secret) < embedded.MinSecret {
		err = fmt.Errorf("--cluster-http needs --cluster-secret-file with %d bytes or more: copies hold everything", embedded.MinSecret)
	}
	return err
}

// secret is the cluster's shared secret; "": none.
func (f *clusterFlags) secret() (string, error) {
	if f.Secret == "" {
		return "", nil
	}
	text, err := os.ReadFile(f.Secret)
	if err != nil {
		return "", fmt.Errorf("--cluster-secret-file: %w", err)
	}
	return strings.TrimSpace(string(text)), nil
}

// reached is an address by which other machines reach this one: for one that stands for
// all of this machine's, with the host that --cluster has for this server, or its name.
func (f *clusterFlags) reached(address string) string {
	host, port, err := net.SplitHostPort(address)
	if ip := net.ParseIP(host); err != nil || host != "" && (ip == nil || !ip.IsUnspecified()) {
		return address
	}
	own, err := f.ownAddress()
	if err == nil {
		own, _, err = net.SplitHostPort(own)
	}
	if err != nil {
		if own, err = os.Hostname(); err != nil {
			return address
		}
	}
	return net.JoinHostPort(own, port)
}

// fillExternal is fill for a server on an external NATS. Others may serve the same log, whether it was meant
// or not, and two that both believe to be the only one would answer what is not so any more. So each takes
// part in the election, under a name that is its own: one is made of the host's name and of where its data
// is, which no two servers share.
func (f *clusterFlags) fillExternal(data string) error {
	if f.Name == "" {
		host, err := os.Hostname()
		if err != nil {
			return fmt.Errorf("--cluster-name: %w", err)
		}
		place := sha256.Sum256([]byte(data))
		f.Name = plainName(host) + "-" + hex.EncodeToString(place[:4])
	}
	return cmp.Or(f.checkName(), f.checkHTTP())
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

// checkTLS refuses to replicate without TLS over a network.
func (f *clusterFlags) checkTLS() error {
	local, err := cli.IsLocal(f.Listen)
	if err != nil {
		return fmt.Errorf("--cluster-listen: %w", err)
	}
	if !local && f.TLS == "" && !f.Plain {
		return fmt.Errorf("other machines can reach --cluster-listen %s, and the servers send each other everything: "+
			"give them certificates with --cluster-tls, or accept the risk with --cluster-plaintext", f.Listen)
	}
	return nil
}

// tls returns the TLS configuration of the servers among each other; nil: no TLS.
func (f *clusterFlags) tls(logger *slog.Logger) (*tls.Config, error) {
	if f.TLS == "" {
		return nil, nil
	}
	pair, err := port.NewCertificates(filepath.Join(f.TLS, "cert.pem"), f.keyFile(), logger)
	if err != nil {
		return nil, fmt.Errorf("--cluster-tls: %w", err)
	}
	signers, err := cli.Trusted(filepath.Join(f.TLS, "ca.pem"))
	if err != nil {
		return nil, fmt.Errorf("--cluster-tls: %w", err)
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS13, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: signers, RootCAs: signers,
		GetCertificate:       func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return pair.Current(), nil },
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return pair.Current(), nil },
	}, nil
}

// proof returns how replicas that give each other copies prove what they are: by certificates, or without any by the
// secret; and the secret.
func (f *clusterFlags) proof(logger *slog.Logger) (secure *tls.Config, secret string, err error) {
	if secret, err = f.secret(); err != nil {
		return nil, "", err
	}
	if secure, err = f.tls(logger); secure == nil && err == nil {
		secure, err = embedded.SecretTLS(secret)
	}
	return secure, secret, err
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

// sameName refuses a name that two servers have.
func sameName(name string) error {
	return fmt.Errorf("another running server of the cluster is called %q, too: give each its own --cluster-name, and start "+
		"a server that was in the cluster before with the name that it had", name)
}

// embedded returns the cluster of the NATS server in the process; nil: none.
func (f *clusterFlags) embedded(logger *slog.Logger) (*embedded.Cluster, error) {
	if !f.on() {
		return nil, nil
	}
	secret, err := f.secret()
	if err != nil {
		return nil, err
	}
	encrypted, err := f.tls(logger)
	if err != nil {
		return nil, err
	}
	return &embedded.Cluster{
		Member: f.Name, Listen: f.Listen, Members: slices.Clone(f.Members), Secret: secret,
		TLS: encrypted, Plain: f.Plain,
	}, nil
}
