package cli

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"
)

// TLSFlags name the server's certificate for REST and NATS.
type TLSFlags struct {
	Cert string `help:"Certificate chain of the server in PEM, for REST and NATS. The file is read again when it changes." type:"existingfile" placeholder:"FILE"`
	Key  string `help:"Private key of --tls-cert, in PEM." type:"existingfile" placeholder:"FILE"`
}

// Config returns nil without a certificate.
func (f TLSFlags) Config(logger *slog.Logger) (*tls.Config, error) {
	if f.Cert == "" && f.Key == "" {
		return nil, nil
	}
	if f.Cert == "" || f.Key == "" {
		return nil, fmt.Errorf("--tls-cert and --tls-key belong together: give both or neither")
	}
	c, err := NewCertificates(f, logger)
	if err != nil {
		return nil, err
	}
	return &tls.Config{
		MinVersion:     tls.VersionTLS12,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return c.Current(), nil },
	}, nil
}

// checkEvery is the shortest time between two looks at the files.
const checkEvery = time.Second

// Certificates reads the files of a certificate again when they have changed. If they cannot be
// used, it goes on with the last good certificate.
type Certificates struct {
	flags  TLSFlags
	logger *slog.Logger

	mu      sync.Mutex
	loaded  *tls.Certificate // guarded by mu
	changed [2]time.Time     // of the files; guarded by mu
	checked time.Time        // guarded by mu
}

// NewCertificates reads a certificate and its key.
func NewCertificates(flags TLSFlags, logger *slog.Logger) (*Certificates, error) {
	c := &Certificates{flags: flags, logger: logger}
	return c, c.load()
}

// Current returns the certificate of now.
func (c *Certificates) Current() *tls.Certificate {
	c.mu.Lock()
	due := time.Since(c.checked) >= checkEvery
	c.mu.Unlock()
	if due {
		if err := c.load(); err != nil {
			c.logger.Error("the changed certificate cannot be read; the server goes on with the one before", "error", err)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.loaded
}

// load reads the files if they have changed.
func (c *Certificates) load() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.checked = time.Now()
	var changed [2]time.Time
	for i, path := range []string{c.flags.Cert, c.flags.Key} {
		info, err := os.Stat(path)
		if err != nil {
			return err
		}
		changed[i] = info.ModTime()
	}
	if changed == c.changed {
		return nil
	}
	pair, err := tls.LoadX509KeyPair(c.flags.Cert, c.flags.Key)
	if err != nil {
		return fmt.Errorf("--tls-cert %s, --tls-key %s: %w", c.flags.Cert, c.flags.Key, err)
	}
	if c.loaded != nil {
		c.logger.Info("the certificate was read again", "file", c.flags.Cert)
	}
	c.loaded, c.changed = &pair, changed
	return nil
}
