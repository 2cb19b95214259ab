package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"syscall"

	"github.com/allot-project/allot/cmd/internal/cli"
	"github.com/allot-project/allot/ledger/system"
)

// rehearse makes the checks of a start that can be made beside a running ledger's
// files, and changes nothing. It prints warnings, and returns every fault.
func (c *serveCommand) rehearse(out io.Writer) error {
	faults := []error{c.check()}
	if faults[0] == nil {
		faults = append(faults, c.checkFiles(), c.checkFolder())
		faults = append(faults, c.checkAddresses()...)
	}
	for _, file := range c.exposed() {
		_, err := fmt.Fprintf(out, "warning: every user of this machine can read %s: chmod o-rwx %s\n", file, file)
		faults = append(faults, err)
	}
	if err := errors.Join(faults...); err != nil {
		return err
	}
	_, err := fmt.Fprintln(out, "the server can start with these settings")
	return err
}

// checkFiles reads the files that flags name.
func (c *serveCommand) checkFiles() error {
	_, _, access := c.security()
	_, certificate := c.TLS.Config(slog.New(slog.DiscardHandler))
	_, users := c.natsUsers()
	_, signer := cli.LoadSigner(c.SigningKey)
	return errors.Join(access, certificate, users, signer)
}

// checkFolder reports why the data folder cannot be used, or made.
func (c *serveCommand) checkFolder() error {
	folder := c.Data
	info, err := os.Stat(folder)
	for errors.Is(err, fs.ErrNotExist) && folder != filepath.Dir(folder) {
		folder = filepath.Dir(folder)
		info, err = os.Stat(folder)
	}
	switch {
	case err != nil:
		return fmt.Errorf("--data %s: %w", c.Data, err)
	case !info.IsDir():
		return fmt.Errorf("--data %s: %s is a file: name a folder", c.Data, folder)
	}
	if err := system.Writable(folder); err != nil {
		return fmt.Errorf("--data %s: this user cannot write in %s: run this as the server's user, or change the owner of the folder", c.Data, folder)
	}
	return nil
}

// checkAddresses reports addresses that cannot be listened on.
func (c *serveCommand) checkAddresses() (faults []error) {
	for _, one := range []struct{ flag, address string }{
		{"--http", c.HTTP}, {"--metrics", c.Metrics}, {"--nats", c.natsListens()}, {"--cluster-listen", c.Cluster.Listen},
		{"--cluster-http", c.Cluster.HTTP},
	} {
		if one.address == "" {
			continue
		}
		listener, err := net.Listen("tcp", one.address)
		if err == nil {
			err = listener.Close()
		}
		if errors.Is(err, syscall.EADDRINUSE) {
			err = errors.New("another process has this address: stop it, or name another address")
		}
		if err != nil {
			faults = append(faults, fmt.Errorf("%s %s: %w", one.flag, one.address, err))
		}
	}
	return faults
}

// natsListens is where the embedded NATS server listens; empty: nowhere.
func (c *serveCommand) natsListens() string {
	if c.NATSURL != "" || c.natsIsBackDoor() {
		return ""
	}
	return c.NATS
}

// exposed lists files with secrets that every user of the machine can read.
func (c *serveCommand) exposed() (files []string) {
	for _, path := range []string{
		c.configFile, c.TLS.Key, c.Cluster.keyFile(), c.Cluster.Secret, c.SigningKey, c.NATSUsers, c.NATSCreds,
		c.NATSDoorCreds,
	} {
		info, err := os.Stat(cmp.Or(path, os.DevNull))
		if err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o004 != 0 {
			files = append(files, path)
		}
	}
	return files
}

// check refuses what is no URL. Whether Keystone answers is found out later, because it
// may start after Allot.
func (k *keystoneFlags) check() error {
	for _, one := range []struct{ flag, text string }{{"url", k.URL}, {"public-url", k.PublicURL}} {
		target, err := url.Parse(one.text)
		if one.text != "" && (err != nil || target.Host == "" || target.Scheme != "http" && target.Scheme != "https") {
			return fmt.Errorf("--keystone-%s %q is no URL such as https://keystone.example:5000/v3", one.flag, one.text)
		}
	}
	return nil
}
