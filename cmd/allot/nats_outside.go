package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/allot-project/allot/ledger/jetstream"
)

// dial connects to the external server.
func (c *serveCommand) dial(address, creds, as string) (*nats.Conn, error) {
	options := append(jetstream.LogConnection(), nats.Name("allot "+as))
	if creds != "" {
		options = append(options, nats.UserCredentials(creds))
	}
	nc, err := nats.Connect(address, options...)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", redacted(address), err)
	}
	return nc, nil
}

// redacted returns an address without its password.
func redacted(address string) string {
	if parsed, err := url.Parse(address); err == nil {
		return parsed.Redacted()
	}
	return "the NATS server"
}

// doorLogin is the login of the connections that answer clients and send notices.
func (c *serveCommand) doorLogin() (address, creds string) {
	if c.NATSDoorURL == "" {
		return c.NATSURL, cmp.Or(c.NATSDoorCreds, c.NATSCreds)
	}
	return c.NATSDoorURL, c.NATSDoorCreds
}

// checkClosed makes sure that only the log's connection can write the log of an
// external server. It tries the login that answers clients (because it publishes
// what clients ask for), a client without credentials, and the clients of
// --nats-probe.
func (s *server) checkClosed(ctx context.Context) error {
	if s.log.nats != nil {
		return nil
	}
	err := s.probe(ctx)
	if err == nil || s.config.AcceptOpenNATS && errors.Is(err, jetstream.ErrOpen) {
		if err != nil {
			s.logger.Warn("--accept-open-nats: others may be able to destroy the log", "because", err)
		}
		return nil
	}
	if errors.Is(err, jetstream.ErrOpen) {
		return fmt.Errorf(
			"%w: one message there destroys the ledger. Give clients, and Allot's connection for them (--nats-door-url), users and "+
				"accounts of their own as in docs/nats-server.conf, or accept the risk with --accept-open-nats",
			err,
		)
	}
	return err
}

func (s *server) probe(ctx context.Context) error {
	closed := func(nc *nats.Conn) error { return jetstream.CheckClosed(nc, s.log.nc, "") }
	if err := closed(s.doorNC); err != nil {
		return fmt.Errorf("the connection that answers clients (--nats-door-url): %w", err)
	}
	stranger, err := withoutUser(s.config.NATSURL)
	if err != nil {
		return fmt.Errorf("--nats-url: %w", err)
	}
	if nc, err := nats.Connect(stranger, silent); err == nil { // A client that cannot connect can do no harm.
		err = closed(nc)
		nc.Close()
		if err != nil {
			return fmt.Errorf("a client without credentials: %w", err)
		}
	}
	for _, address := range s.config.NATSProbe {
		nc, err := nats.Connect(address, silent)
		if err != nil {
			return fmt.Errorf("--nats-probe %s: %w", redacted(address), err)
		}
		err = closed(nc)
		nc.Close()
		if err != nil {
			return fmt.Errorf("--nats-probe %s: %w", redacted(address), err)
		}
	}
	return nil
}

// silent suppresses nats.go's own messages about refusals: a probe hopes for them, and others tell
// them themselves.
var silent = nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {})

// withoutUser removes the credentials from the addresses of a NATS server.
func withoutUser(addresses string) (string, error) {
	var list []string
	for address := range strings.SplitSeq(addresses, ",") {
		address = strings.TrimSpace(address)
		if !strings.Contains(address, "://") {
			address = "nats://" + address
		}
		parsed, err := url.Parse(address)
		if err != nil {
			return "", errors.New("not an address")
		}
		parsed.User = nil
		list = append(list, parsed.String())
	}
	return strings.Join(list, ","), nil
}
