package main

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"

	"github.com/allot-project/allot/api/natsapi"
	"github.com/allot-project/allot/api/present"
	"github.com/allot-project/allot/api/wire"
	"github.com/allot-project/allot/cmd/internal/cli"
	"github.com/allot-project/allot/cmd/internal/datafolder"
	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/writer"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/embedded"
	"github.com/allot-project/allot/ledger/jetstream"
	"github.com/allot-project/allot/projector"
)

// ownLedger is a ledger in this process: its log, its read models, its writer, and the door over
// NATS.
type ownLedger struct {
	nats   *embedded.Server
	nc     *nats.Conn // of the log
	door   *nats.Conn
	api    *natsapi.Service
	views  *projector.Projector
	writer *writer.Writer
}

// beginLedger begins a ledger in an empty folder.
func beginLedger(ctx context.Context, dir string) (l *ownLedger, err error) {
	l = new(ownLedger)
	defer func() {
		if err != nil {
			err = errors.Join(err, l.close())
		}
	}()
	quiet := slog.New(slog.DiscardHandler)
	l.nats, err = embedded.Start(ctx, embedded.Config{
		StoreDir: filepath.Join(dir, datafolder.Log), Listen: "127.0.0.1:0", Logger: quiet,
		Services: wire.Services(), Renamed: wire.Renamed(), Streams: wire.Streams(),
	})
	if err != nil {
		return l, err
	}
	if l.nc, err = l.nats.Connect(); err != nil {
		return l, err
	}
	log, err := l.nats.OpenLog(ctx, l.nc, jetstream.Config{MayCreate: true})
	if err != nil {
		return l, err
	}
	if l.views, err = projector.Open(filepath.Join(dir, datafolder.ReadModels), quiet); err != nil {
		return l, err
	}
	options := writer.Options{Now: time.Now, Logger: quiet, AnswerWithin: time.Minute}
	l.writer = writer.New(log, l.views, ledger.NewState(), options)
	id := ledger.UUID(uuid.New())
	names, err := commands.NewAddStandardNames(id)
	if err == nil {
		err = submitTo(l.writer)(ctx, names)
	}
	if err != nil {
		return l, err
	}
	if l.door, err = l.nats.ConnectDoor(); err != nil {
		return l, err
	}
	l.api, err = natsapi.Start(l.door, natsapi.Config{
		Commands: l.writer, Version: cli.Version(), Actor: "nats:client", Logger: quiet,
		Queries: &natsapi.Queries{Views: l.views, Log: log, Notary: &present.Notary{Ledger: id}, MaxSteps: 1, Now: time.Now},
	})
	return l, err
}

// close ends what has begun.
func (l *ownLedger) close() (err error) {
	if l.api != nil {
		err = l.api.Stop()
	}
	if l.door != nil {
		l.door.Close()
	}
	if l.writer != nil {
		err = errors.Join(err, l.writer.Close())
	}
	if l.views != nil {
		err = errors.Join(err, l.views.Close())
	}
	if l.nc != nil {
		l.nc.Close()
	}
	if l.nats != nil {
		l.nats.Shutdown()
	}
	return err
}
