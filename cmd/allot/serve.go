package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"

	"github.com/allot-project/allot/api/answers"
	"github.com/allot-project/allot/api/audit"
	"github.com/allot-project/allot/api/auth"
	"github.com/allot-project/allot/api/baremetal"
	"github.com/allot-project/allot/api/console"
	"github.com/allot-project/allot/api/natsapi"
	"github.com/allot-project/allot/api/notices"
	"github.com/allot-project/allot/api/placement"
	"github.com/allot-project/allot/api/policy"
	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/allocator"
	"github.com/allot-project/allot/commands/expirer"
	"github.com/allot-project/allot/commands/rejected"
	"github.com/allot-project/allot/commands/wire"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/embedded"
	"github.com/allot-project/allot/ledger/jetstream"
	"github.com/allot-project/allot/projector"
	"github.com/allot-project/allot/projector/auditor"
	"github.com/allot-project/allot/projector/candidates"
	"github.com/allot-project/allot/snapshots"
)

// serveCommand is "allot serve".
type serveCommand struct {
	Data string `help:"Folder of the log, the read models and the snapshots." default:"data" type:"path"`
	HTTP string `name:"http" help:"HOST:PORT of the REST API." default:"127.0.0.1:8778"`
	NATS string `name:"nats" help:"HOST:PORT of the embedded NATS server for clients; empty keeps it in-process." default:"127.0.0.1:4222"`

	NATSURL             string        `name:"nats-url" help:"Use this NATS server instead of the embedded one."`
	NATSCreds           string        `name:"nats-creds" help:"Credentials file for --nats-url." type:"path"`
	NATSUsers           string        `name:"nats-users" help:"YAML file of the users of the embedded NATS server; without it anybody who reaches it is an operator." type:"existingfile" placeholder:"FILE"`
	NATSMonitor         []string      `name:"nats-monitor" help:"Monitoring URLs of all servers behind --nats-url; asked whether they sync always."`
	NATSReplicas        int           `name:"nats-replicas" help:"Replicas of a stream that is created behind --nats-url." default:"1"`
	AcceptLazySync      bool          `help:"Serve on an external NATS that may not sync every write. A power cut can lose answered commands."`
	LazySync            bool          `help:"Let the embedded NATS server sync every two minutes. Faster; a power cut loses answered commands."`
	AllowNoauth         bool          `help:"Serve without authentication on an address that other machines can reach."`
	TLS                 tlsFlags      `embed:"" prefix:"tls-" group:"TLS"`
	Keystone            keystoneFlags `embed:"" prefix:"keystone-" group:"Authentication"`
	CORS                corsFlags     `embed:"" prefix:"cors-" group:"Cross-origin requests"`
	PolicyFile          string        `help:"YAML file in oslo.policy's form with rules that replace Placement's own." type:"existingfile" placeholder:"FILE"`
	EnforceNewDefaults  bool          `help:"Leave out the policy rules that Placement has deprecated: reshapes are then for services only."`
	MaxCandidates       int           `help:"Most candidates that one request gets; 0: no bound." default:"0"`
	CandidatesBudget    int           `help:"Most providers and combinations that one request for candidates may look at." default:"5000000"`
	CandidatesOrder     string        `help:"depth-first: all candidates of a tree before the next tree's; breadth-first: from each tree in turn." enum:"depth-first,breadth-first" default:"depth-first"`
	RandomizeCandidates bool          `help:"Answer candidates in random order."`

	NodeProviders bool   `help:"Make each bare metal node a resource provider, too, with an inventory of one of its class."`
	BaremetalURL  string `name:"baremetal-url" help:"What links in answers of the bare metal API begin with; default: the host that the client named, and /baremetal." placeholder:"URL"`

	SigningKey string `help:"File with a private key that allot signing-key made: checkpoints of the log are signed with it." type:"existingfile" placeholder:"FILE"`

	Metrics    string        `help:"HOST:PORT that answers /metrics in Prometheus's form, to anybody; empty: none."`
	AuditEvery time.Duration `help:"Compare the ledger with its log in the background, this long after the last time; 0: never. Takes a second State in memory."`

	RejectedBytes int64         `help:"Keep at most this many bytes of rejected commands; 0: none." default:"67108864"`
	RejectedAge   time.Duration `help:"Keep rejected commands this long; 0: as long as there is room." default:"168h"`

	SnapshotRecords int           `help:"Write a snapshot after this many records; 0: never." default:"100000"`
	SnapshotAge     time.Duration `help:"Write a snapshot after this time, if there are records; 0: never." default:"1h"`
	LogLevel        slog.Level    `help:"debug, info, warn or error." default:"info"`
}

// Limits of the HTTP server.
const (
	readHeaderTimeout = 10 * time.Second
	readTimeout       = 60 * time.Second
	idleTimeout       = 2 * time.Minute
	maxHeaderBytes    = 64 << 10
	// drainTimeout is how long requests under way may take after SIGTERM.
	drainTimeout = 5 * time.Second
)

// Run serves until the context ends.
func (c *serveCommand) Run(ctx context.Context) error {
	logger := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: c.LogLevel}))
	if err := c.check(); err != nil {
		return err
	}
	n := &node{config: c, log: logger}
	err := n.start(ctx)
	if err == nil {
		logger.Info("serving", "http", n.http.Addr, "nats", n.natsURL, "sequence", n.views.Checkpoint().Sequence)
		err = n.wait(ctx)
	}
	return errors.Join(err, n.stop())
}

// check refuses settings that are dangerous or contradict each other.
func (c *serveCommand) check() error {
	local, err := isLocal(c.HTTP)
	if err != nil {
		return fmt.Errorf("--http: %w", err)
	}
	if !local && c.Keystone.URL == "" && !c.AllowNoauth {
		return fmt.Errorf("--http %s can be reached from other machines, and requests are not authenticated: "+
			"name a Keystone with --keystone-url, bind 127.0.0.1 behind an authenticating proxy, or accept it with --allow-noauth", c.HTTP)
	}
	if c.NATSURL != "" && c.NATSUsers != "" {
		return errors.New("--nats-users is for the embedded NATS server; the one at --nats-url has users of its own")
	}
	if c.NATSURL != "" || c.NATS == "" {
		return nil
	}
	if local, err = isLocal(c.NATS); err != nil {
		return fmt.Errorf("--nats: %w", err)
	}
	if !local && c.NATSUsers == "" && !c.AllowNoauth {
		return fmt.Errorf("--nats %s can be reached from other machines, and clients are not authenticated: "+
			"name users with --nats-users, bind 127.0.0.1, or accept it with --allow-noauth", c.NATS)
	}
	return nil
}

// isLocal reports whether only this machine can reach an address.
func isLocal(address string) (bool, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false, fmt.Errorf("%q is not HOST:PORT", address)
	}
	if ip := net.ParseIP(host); ip != nil {
		return ip.IsLoopback(), nil
	}
	return host == "localhost", nil
}

// node is a running server: the parts in the order in which they start.
type node struct {
	config *serveCommand
	log    *slog.Logger

	auth        auth.Authenticator
	policy      *policy.Rules
	tls         *tls.Config    // nil: none
	users       *natsapi.Users // nil: anybody
	lock        *os.File
	listener    net.Listener
	nats        *embedded.Server
	natsURL     string
	nc          *nats.Conn // of the log. Apart, so that they hold up no commit:
	noticesNC   *nats.Conn // for slow followers
	doorNC      *nats.Conn // for floods of requests
	ledger      *jetstream.Log
	views       *projector.Projector
	snaps       *snapshots.Store
	rejected    *jetstream.Rejected // nil: they are not kept
	keeper      *rejected.Keeper
	notary      *answers.Notary
	vouchers    *snapshots.Checkpoints // nil: there is no key
	notices     *notices.Publisher
	writer      *commands.Processor
	commands    *natsapi.Service
	allocator   *allocator.Allocator
	expirer     *expirer.Expirer
	auditor     *auditor.Auditor
	http        *http.Server
	metricsHTTP *http.Server
	failed      chan error
	stopping    chan struct{}
}

func (n *node) start(ctx context.Context) error {
	n.failed, n.stopping = make(chan error, 1), make(chan struct{})
	if err := n.lockData(); err != nil {
		return err
	}
	var err error
	if n.auth, n.policy, err = n.config.security(); err != nil {
		return err
	}
	if n.tls, err = n.config.TLS.config(n.log); err != nil {
		return err
	}
	if n.users, err = n.config.natsUsers(); err != nil {
		return err
	}
	if err := n.openCheckpoints(); err != nil {
		return err
	}
	// Bind first: a port that is taken should be known before a long replay.
	if n.listener, err = net.Listen("tcp", n.config.HTTP); err != nil {
		return err
	}
	if n.views, err = projector.Open(filepath.Join(n.config.Data, "readmodel"), n.log); err != nil {
		return err
	}
	if n.snaps, err = snapshots.Open(filepath.Join(n.config.Data, "snapshots"), n.log); err != nil {
		return err
	}
	if err := n.openLog(ctx); err != nil {
		return err
	}
	if err := n.startWriter(ctx); err != nil {
		return err
	}
	if n.doorNC, err = n.connect(); err != nil {
		return err
	}
	queries := &natsapi.Queries{Views: n.views, Log: n.ledger, Notary: n.notary, MaxSteps: n.config.CandidatesBudget, Now: time.Now}
	if n.rejected != nil {
		queries.Rejected = n.rejected
	}
	if n.commands, err = natsapi.Start(n.doorNC, natsapi.Config{
		Commands: n.writer, Version: version(), Actor: natsActor, Users: n.users, Logger: n.log,
		Queries: queries,
	}); err != nil {
		return err
	}
	n.allocator = allocator.Start(n.writer, n.views, n.log)
	n.expirer = expirer.Start(n.writer, n.views, time.Now, n.log)
	if n.config.AuditEvery > 0 {
		n.auditor = auditor.Start(auditor.Config{
			Log: n.ledger, Snapshots: n.snaps, Views: n.views, Fork: n.writer.Fork, Every: n.config.AuditEvery, Now: time.Now, Logger: n.log,
		})
	}
	if err := n.serveMetrics(); err != nil {
		return err
	}
	n.serveHTTP()
	return nil
}

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

func logins(users *natsapi.Users) []embedded.User {
	if users == nil {
		return nil
	}
	var list []embedded.User
	for _, l := range users.Logins() {
		list = append(list, embedded.User(l))
	}
	return list
}

// natsActor is whom records name for commands over NATS where there are no
// users.
const natsActor = "nats:client"

// lockData keeps a second server off the folder.
func (n *node) lockData() error {
	var err error
	n.lock, err = lockFolder(n.config.Data)
	return err
}

func (n *node) openLog(ctx context.Context) error {
	marks, err := n.snaps.Marks()
	if err != nil {
		return err
	}
	cfg := jetstream.Config{
		Replicas:  n.config.NATSReplicas,
		MayCreate: n.views.Mark().Sequence == 0 && n.views.Checkpoint().Sequence == 0 && len(marks) == 0,
	}
	if n.config.NATSURL != "" {
		err = n.connectOutside(ctx)
	} else {
		err = n.startInside()
	}
	if err != nil {
		return err
	}
	n.ledger, err = jetstream.Open(ctx, n.nc, cfg)
	if errors.Is(err, jetstream.ErrNoStream) {
		return fmt.Errorf("%w, but this data folder has seen commits of it: restore the log (%s or the NATS stream) "+
			"from a backup or a replica; nothing was changed", err, filepath.Join(n.config.Data, "log"))
	}
	return err
}

func (n *node) startInside() error {
	if n.config.LazySync {
		n.log.Warn("--lazy-sync: a power cut can lose commands that were answered")
	}
	var err error
	n.nats, err = embedded.Start(embedded.Config{
		StoreDir: filepath.Join(n.config.Data, "log"), Listen: n.config.NATS,
		LazySync: n.config.LazySync, Logger: n.log, TLS: n.tls,
		Users: logins(n.users), Services: natsapi.Services(), Streams: []string{wire.NoticePrefix + ".>"},
	})
	if err != nil {
		return err
	}
	n.natsURL = n.nats.ClientURL()
	n.nc, err = n.connect()
	return err
}

// connect opens a connection of the writer's.
func (n *node) connect() (*nats.Conn, error) {
	if n.nats != nil {
		return n.nats.Connect()
	}
	options := []nats.Option{nats.Name("allot writer"), nats.MaxReconnects(-1)}
	if n.config.NATSCreds != "" {
		options = append(options, nats.UserCredentials(n.config.NATSCreds))
	}
	nc, err := nats.Connect(n.config.NATSURL, options...)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", n.config.NATSURL, err)
	}
	return nc, nil
}

func (n *node) connectOutside(ctx context.Context) error {
	if err := jetstream.CheckSync(ctx, n.config.NATSMonitor); err != nil {
		if !n.config.AcceptLazySync {
			return fmt.Errorf("%w; name the servers' monitoring URLs with --nats-monitor, or accept the risk with --accept-lazy-sync", err)
		}
		n.log.Warn("--accept-lazy-sync: a power cut can lose commands that were answered", "because", err)
	}
	var err error
	if n.nc, err = n.connect(); err == nil {
		n.natsURL = n.nc.ConnectedUrlRedacted()
	}
	return err
}

func (n *node) startWriter(ctx context.Context) error {
	progress, end := replayProgress(n.log)
	state, err := commands.Restore(ctx, n.ledger, n.snaps, n.views, progress)
	end()
	if err != nil {
		return err
	}
	id := state.LedgerID()
	if id.IsNil() {
		id = ledger.UUID(uuid.New()) // the log is new
	}
	n.notary.Ledger = id
	if err := n.startNotices(id); err != nil {
		return err
	}
	tell := n.startKeeper(ctx)
	n.writer = commands.NewProcessor(n.ledger, n.notices, state, commands.Options{
		Now: time.Now, Logger: n.log, SaveSnapshot: n.saveSnapshot,
		SnapshotRecords: n.config.SnapshotRecords, SnapshotAge: n.config.SnapshotAge, Rejected: tell,
	})
	begin, err := commands.NewAddStandardNames(id)
	if err != nil {
		return err
	}
	outcome, err := n.writer.Submit(ctx, commands.Submission{ID: commands.NewID(), Actor: "allot", Command: begin})
	if err == nil && outcome.Rejection != nil {
		err = fmt.Errorf("the ledger cannot be begun: %s", outcome.Rejection)
	}
	if err != nil {
		return err
	}
	if err := n.setNodeProviders(ctx); err != nil {
		return err
	}
	n.saveCheckpoint()
	return nil
}

// startNotices puts the publisher of notices between writer and read models.
func (n *node) startNotices(id ledger.UUID) (err error) {
	if n.noticesNC, err = n.connect(); err != nil {
		return err
	}
	cfg := notices.Config{Conn: n.noticesNC, Ledger: id, Logger: n.log}
	if n.nats != nil {
		cfg.Interest = n.nats.Interest
		cfg.Listening = n.nats.Listening
	}
	n.notices = notices.Start(n.views, cfg)
	return nil
}

// startKeeper opens the stream of rejected commands, if they are kept. The
// server can do without it.
func (n *node) startKeeper(ctx context.Context) (tell func(commands.Rejected)) {
	if n.config.RejectedBytes == 0 {
		return nil
	}
	var err error
	n.rejected, err = jetstream.OpenRejected(ctx, n.nc, jetstream.RejectedConfig{
		MaxBytes: n.config.RejectedBytes, MaxAge: n.config.RejectedAge, Replicas: n.config.NATSReplicas,
	})
	if err != nil {
		n.log.Error("rejected commands are not kept", "error", err)
		return nil
	}
	n.keeper = rejected.Start(n.rejected, n.log)
	return n.keeper.Keep
}

// nodeProvidersAtATime bounds the record in which nodes become providers.
const nodeProvidersAtATime = 1000

// setNodeProviders turns node providers on or off, as configured.
func (n *node) setNodeProviders(ctx context.Context) error {
	for {
		outcome, err := n.writer.Submit(ctx, commands.Submission{
			ID: commands.NewID(), Actor: "allot",
			Command: &commands.SetNodeProviders{On: n.config.NodeProviders, Limit: nodeProvidersAtATime},
		})
		switch {
		case err != nil:
			return err
		case outcome.Rejection != nil:
			return fmt.Errorf("--node-providers: %s", outcome.Rejection)
		case outcome.Address.Sequence == 0:
			return nil // nothing left to do
		}
	}
}

func (n *node) saveSnapshot(state *ledger.State) {
	if err := n.snaps.Save(state); err != nil {
		n.log.Error("snapshot not written", "error", err)
	}
	n.saveCheckpoint()
}

// openCheckpoints reads the signing key, if there is one.
func (n *node) openCheckpoints() error {
	signer, err := loadSigner(n.config.SigningKey)
	n.notary = &answers.Notary{Key: signer}
	if err != nil || signer == nil {
		return err
	}
	n.vouchers, err = snapshots.OpenCheckpoints(filepath.Join(n.config.Data, checkpointsFolder))
	return err
}

// saveCheckpoint signs the log as it is, and keeps that.
func (n *node) saveCheckpoint() {
	view := n.views.View()
	if n.vouchers == nil || view.Sequence() == 0 {
		return
	}
	signed, err := n.notary.Checkpoint(view)
	if err == nil {
		err = n.vouchers.Save(view.Sequence(), signed)
	}
	if err != nil {
		n.log.Error("checkpoint not signed", "error", err)
	}
}

func (n *node) serveHTTP() {
	n.http = &http.Server{
		Addr: n.listener.Addr().String(), Handler: n.routes(), ErrorLog: slog.NewLogLogger(n.log.Handler(), slog.LevelWarn),
		ReadHeaderTimeout: readHeaderTimeout, ReadTimeout: readTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeaderBytes,
	}
	go func() {
		listener := n.listener
		if n.tls != nil {
			listener = tls.NewListener(listener, n.tls)
		}
		if err := n.http.Serve(plainErrors{listener}); !errors.Is(err, http.ErrServerClosed) {
			n.failed <- err
		}
	}()
}

func (c *serveCommand) candidateOptions() placement.CandidateOptions {
	options := placement.CandidateOptions{Max: c.MaxCandidates, MaxSteps: c.CandidatesBudget, Shuffle: c.RandomizeCandidates}
	if c.CandidatesOrder == "breadth-first" {
		options.Order = candidates.BreadthFirst
	}
	return options
}

// routes puts the facades behind one port: Placement at the root and below
// /placement, Ironic's below /baremetal, Allot's own reads below /audit.
func (n *node) routes() http.Handler {
	facade := func(prefix string) http.Handler {
		return &placement.Handler{
			Commands: n.writer, Views: n.views, Log: n.log, Prefix: prefix,
			IncompleteProject: placement.DefaultIncompleteID, IncompleteUser: placement.DefaultIncompleteID,
			Auth: n.auth, Policy: n.policy,
			Candidates: n.config.candidateOptions(),
		}
	}
	root, mounted := facade(""), facade("/placement")
	records := &audit.Records{
		Log: n.ledger, Views: n.views, Authorize: auth.Guard(n.auth, n.policy, "allot:audit"), Logger: n.log, Stop: n.stopping,
	}
	digest := &audit.Digest{Views: n.views, Authorize: records.Authorize, Logger: n.log}
	history := &audit.History{Views: n.views, Log: n.ledger, Authorize: records.Authorize, Logger: n.log}
	asked := &audit.Questions{
		Views: n.views, Log: n.ledger, Notary: n.notary, Authorize: records.Authorize, Logger: n.log,
		Writer: n.writer, Snapshots: n.snaps, MaxSteps: n.config.CandidatesBudget, Version: version(),
	}
	if n.auditor != nil {
		asked.LastAudit = n.auditor.Last
	}
	if n.rejected != nil {
		asked.Rejected = n.rejected
	}
	questions, page := asked.Handlers(), console.Handler()
	metal := &baremetal.Handler{
		Commands: n.writer, Views: n.views, Log: n.log, Prefix: "/baremetal", PublicURL: strings.TrimRight(n.config.BaremetalURL, "/"),
		Auth: n.auth, Policy: n.policy, Noauth: n.config.Keystone.URL == "",
	}
	return n.config.crossOrigin(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if n.tls != nil && r.TLS == nil {
			r.TLS = new(tls.ConnectionState) // plainErrors hides it from net/http
		}
		path := r.URL.EscapedPath()
		question, asked := questions[path]
		switch {
		case asked:
			question.ServeHTTP(w, r)
		case path == "/console":
			http.Redirect(w, r, console.Prefix, http.StatusMovedPermanently)
		case strings.HasPrefix(path, console.Prefix):
			page.ServeHTTP(w, r)
		case path == "/audit/records":
			records.ServeHTTP(w, r)
		case path == "/audit/digest":
			digest.ServeHTTP(w, r)
		case path == "/audit/history":
			history.ServeHTTP(w, r)
		case path == "/baremetal" || strings.HasPrefix(path, "/baremetal/"):
			metal.ServeHTTP(w, r)
		case path == "/placement" || strings.HasPrefix(path, "/placement/"):
			mounted.ServeHTTP(w, r)
		default:
			root.ServeHTTP(w, r)
		}
	}))
}

// wait returns when the server should stop.
func (n *node) wait(ctx context.Context) error {
	select {
	case <-ctx.Done():
		n.log.Info("stopping")
		return nil
	case err := <-n.failed:
		return err
	case <-n.writer.Done():
		return n.writer.Close()
	}
}

// stop ends the parts in reverse order: doors first, then the writer once
// everything that it took is answered, then the stores.
func (n *node) stop() error {
	var errs []error
	keep := func(err error) { errs = append(errs, err) }
	close(n.stopping)
	if n.http != nil {
		ctx, cancel := context.WithTimeout(context.Background(), drainTimeout)
		if err := n.http.Shutdown(ctx); err != nil {
			keep(n.http.Close())
		}
		cancel()
	} else if n.listener != nil {
		keep(n.listener.Close())
	}
	if n.metricsHTTP != nil {
		keep(n.metricsHTTP.Close())
	}
	if n.auditor != nil {
		n.auditor.Stop()
	}
	if n.commands != nil {
		keep(n.commands.Stop())
	}
	if n.allocator != nil {
		n.allocator.Stop()
	}
	if n.expirer != nil {
		n.expirer.Stop()
	}
	if n.writer != nil {
		keep(n.writer.Close())
		n.saveCheckpoint()
	}
	if n.keeper != nil {
		n.keeper.Stop()
	}
	if n.notices != nil {
		n.notices.Stop()
	}
	for _, nc := range []*nats.Conn{n.doorNC, n.noticesNC, n.nc} {
		if nc != nil {
			nc.Close()
		}
	}
	if n.nats != nil {
		n.nats.Shutdown()
	}
	if n.views != nil {
		keep(n.views.Close())
	}
	if n.lock != nil {
		keep(n.lock.Close())
	}
	return errors.Join(errs...)
}
