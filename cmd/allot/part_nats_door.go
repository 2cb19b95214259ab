package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/allot-project/allot/api/natsapi"
	"github.com/allot-project/allot/cmd/internal/cli"
	"github.com/allot-project/allot/commands"
)

// natsActor is the actor in records of commands over NATS where there are no
// users.
const natsActor = "nats:client"

// natsUsers reads the file of users, if there is one.
func (c *serveCommand) natsUsers() (*natsapi.Users, error) {
	if c.NATSUsers == "" {
		return nil, nil
	}
	data, err := os.ReadFile(c.NATSUsers)
	if err != nil {
		return nil, err
	}
	users, err := natsapi.LoadUsers(data)
	if err != nil {
		return nil, fmt.Errorf("--nats-users %s: %w", c.NATSUsers, err)
	}
	return users, nil
}

// connectDoor opens the connection that takes clients' requests.
func (s *server) connectDoor(context.Context) (err error) {
	if s.log.nats != nil {
		s.doorNC, err = s.log.nats.ConnectDoor()
		return err
	}
	s.doorNC, err = s.dialDoor("door")
	return err
}

func (s *server) closeDoor() error {
	s.doorNC.Close()
	return nil
}

// connectNotices opens the connection that sends notices.
func (s *server) connectNotices(context.Context) (err error) {
	if s.log.nats != nil {
		s.noticesNC, err = s.log.nats.ConnectNotices()
		return err
	}
	s.noticesNC, err = s.dialDoor("notices")
	return err
}

func (s *server) closeNotices() error {
	s.noticesNC.Close()
	return nil
}

// dialDoor connects to the external server with the login that answers clients.
func (s *server) dialDoor(as string) (*nats.Conn, error) {
	address, creds := s.config.doorLogin()
	return s.config.dial(address, creds, as)
}

// startNATSDoor starts to answer commands and queries over NATS.
func (s *server) startNATSDoor(context.Context) (err error) {
	queries := &natsapi.Queries{
		Views: s.views, Log: s.log.all, Notary: s.notary, MaxSteps: candidatesBudget, Now: time.Now,
	}
	if s.rejected != nil {
		queries.Rejected = s.rejected
	}
	s.leader.natsDoor, err = natsapi.Start(s.doorNC, natsapi.Config{
		Commands: s.commands, Fresh: s.freshness(), Queries: queries, Version: cli.Version(),
		Actor: natsActor, Users: s.users,
		Direct: s.log.nats == nil, Fair: s.fair, Logger: s.logger,
		Trace: s.messages(), Observe: s.instruments.messages(),
	})
	return err
}

func (s *server) stopNATSDoor() error {
	return s.leader.natsDoor.Stop()
}

// freshness returns nil for a single server.
func (s *server) freshness() commands.Freshness {
	if s.replica == nil {
		return nil
	}
	return s.replica
}
