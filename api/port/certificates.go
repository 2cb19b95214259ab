package port

import (
	"crypto/tls"
	"log/slog"
	"os"
	"sync"
	"time"
)

// checkEvery is the shortest time between two looks at the files.
const checkEvery = time.Second

// Certificates reads the files of a certificate again when they have changed. If they cannot be
// used, it goes on with the last good certificate.
type Certificates struct {
	cert   string
	key    string
	logger *slog.Logger

	mu      sync.Mutex
	loaded  *tls.Certificate // guarded by mu
	changed [2]time.Time     // of the files; guarded by mu
	checked time.Time        // guarded by mu
}

// NewCertificates reads the files of a certificate chain and of its key, in PEM.
func NewCertificates(cert, key string, logger *slog.Logger) (*Certificates, error) {
	c := &Certificates{cert: cert, key: key, logger: logger}
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

func (c *Certificates) load() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.checked = time.Now()
	var changed [2]time.Time
	for i, path := range []string{c.cert, c.key} {
		info, err := os.Stat(path)
		if err != nil {
			return err
		}
		changed[i] = info.ModTime()
	}
	if changed == c.changed {
		return nil
	}
	pair, err := tls.LoadX509KeyPair(c.cert, c.key)
	if err != nil {
		return err
	}
	if c.loaded != nil {
		c.logger.Info("the certificate was read again", "file", c.cert)
	}
	c.loaded, c.changed = &pair, changed
	return nil
}
