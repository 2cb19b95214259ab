package embedded

import (
	"context"
	"fmt"

	"github.com/nats-io/nats.go"

	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/blocks"
	"github.com/allot-project/allot/ledger/jetstream"
)

// Files returns the place where a server with this store directory keeps the log.
func Files(storeDir string) blocks.Folder {
	return blocks.Folder{Store: storeDir, Stream: jetstream.DefaultStream, Subject: jetstream.Subject}
}

// judge judges the log's files before the server opens them, because the server
// would cut away what it cannot read. It also changes the files so that the
// server has nothing to cut.
func judge(ctx context.Context, cfg Config) (*blocks.Verdict, error) {
	files, verdict := Files(cfg.StoreDir), cfg.Verdict
	if verdict == nil {
		look := files.Judge
		if cfg.Import {
			look = files.JudgeImport
		}
		var err error
		if verdict, err = look(ctx, cfg.Judge); err != nil {
			return nil, err
		}
	}
	if verdict.Report == nil {
		return verdict, files.SettleNothing()
	}
	if verdict.TornBytes > 0 && cfg.Logger != nil {
		why := "no client was told that it succeeded"
		if cfg.Cluster != nil {
			why = "if it succeeded, JetStream's agreements or the other replicas have it"
		}
		cfg.Logger.Warn("an unfinished write at the end of the log is cut off; "+why,
			"after", verdict.Last.Sequence, "bytes", verdict.TornBytes)
	}
	return verdict, files.Settle(verdict.Report)
}

// Log is the log of this server. It appends through JetStream, and reads from the
// files, because JetStream would cut what it finds damaged.
type Log struct {
	*jetstream.Log
	files *blocks.Log
}

var _ ledger.Log = (*Log)(nil)

// ReadFiles returns the log with reads from this server's files.
func (s *Server) ReadFiles(appending *jetstream.Log) (*Log, error) {
	folder := Files(s.storeDir)
	reading, err := folder.Open()
	if err == nil {
		err = folder.SyncStreams()
	}
	if err != nil {
		return nil, fmt.Errorf("embedded: %w", err)
	}
	return &Log{Log: appending, files: reading}, nil
}

// OpenLog opens the log on a connection of this server, or begins it if the
// configuration permits that.
func (s *Server) OpenLog(ctx context.Context, nc *nats.Conn, cfg jetstream.Config) (*Log, error) {
	appending, err := jetstream.Open(ctx, nc, cfg)
	if err != nil {
		return nil, err
	}
	return s.ReadFiles(appending)
}

// Read implements ledger.Log.
func (l *Log) Read(ctx context.Context, from, to uint64, yield func(ledger.Entry) error) error {
	return l.files.Read(ctx, from, to, yield)
}
