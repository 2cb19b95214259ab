package main

import (
	"cmp"
	"fmt"
	"net/url"

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
