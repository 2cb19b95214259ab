package embedded

import (
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"math/big"
)

var errCalled = errors.New("the server that was called has another secret")

// secretTLS is what servers without certificates speak. NATS sends the secret to any process that
// listens where another server should, so it is sent only after that one has proved that it has it:
// all make the same key of it, and TLS proves that both sides have the key.
func secretTLS(secret string) (*tls.Config, error) {
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
