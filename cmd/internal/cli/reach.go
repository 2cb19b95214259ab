package cli

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"

	"github.com/nats-io/nats.go"

	"github.com/allot-project/allot/api/port"
)

// TLSFlags name the server's certificate for REST and NATS.
type TLSFlags struct {
	Cert string `help:"Certificate chain of the server in PEM, for REST and NATS. The file is read again when it changes." type:"existingfile" placeholder:"FILE" usual:""`
	Key  string `help:"Private key of --tls-cert, in PEM." type:"existingfile" placeholder:"FILE" usual:""`
}

// Config returns nil without a certificate.
func (f TLSFlags) Config(logger *slog.Logger) (*tls.Config, error) {
	if f.Cert == "" && f.Key == "" {
		return nil, nil
	}
	if f.Cert == "" || f.Key == "" {
		return nil, fmt.Errorf("--tls-cert and --tls-key belong together: give both or neither")
	}
	c, err := port.NewCertificates(f.Cert, f.Key, logger)
	if err != nil {
		return nil, fmt.Errorf("--tls-cert %s, --tls-key %s: %w", f.Cert, f.Key, err)
	}
	return &tls.Config{
		MinVersion:     tls.VersionTLS12,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return c.Current(), nil },
	}, nil
}

// IsLocal reports whether only this machine can reach an address.
func IsLocal(address string) (bool, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false, fmt.Errorf("%q is not HOST:PORT", address)
	}
	if ip := net.ParseIP(host); ip != nil {
		return ip.IsLoopback(), nil
	}
	return host == "localhost", nil
}

// Silent suppresses nats.go's own messages about refusals: a probe hopes for them, and others tell
// them themselves.
var Silent = nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {})
