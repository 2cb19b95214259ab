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
	"os/signal"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/allot-project/allot/api/answers"
	"github.com/allot-project/allot/api/audit"
	"github.com/allot-project/allot/api/auth"
	"github.com/allot-project/allot/api/baremetal"
	"github.com/allot-project/allot/api/console"
	"github.com/allot-project/allot/api/intake"
	"github.com/allot-project/allot/api/natsapi"
	"github.com/allot-project/allot/api/notices"
	"github.com/allot-project/allot/api/placement"
	"github.com/allot-project/allot/api/policy"
	"github.com/allot-project/allot/api/turns"
	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/allocator"
	"github.com/allot-project/allot/commands/expirer"
	"github.com/allot-project/allot/commands/rejected"
	"github.com/allot-project/allot/commands/wire"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/blocks"
	"github.com/allot-project/allot/ledger/embedded"
	"github.com/allot-project/allot/ledger/jetstream"
	"github.com/allot-project/allot/projector"
	"github.com/allot-project/allot/projector/auditor"
	"github.com/allot-project/allot/projector/candidates"
	"github.com/allot-project/allot/projector/scrub"
	"github.com/allot-project/allot/snapshots"
)

// serveCommand is "allot serve".
type serveCommand struct {
	Data string `help:"Folder of the log, the read models and the snapshots." default:"data" type:"path"`
	HTTP string `name:"http" help:"HOST:PORT of the REST API." default:"127.0.0.1:8778"`
	NATS string `name:"nats" help:"HOST:PORT of the embedded NATS server for clients; empty keeps it in-process, as does --keystone-url without --nats-users." default:"127.0.0.1:4222"`

	NATSURL             string        `name:"nats-url" help:"Use this NATS server instead of the embedded one."`
	NATSCreds           string        `name:"nats-creds" help:"Credentials file for --nats-url." type:"path"`
	NATSDoorURL         string        `name:"nats-door-url" help:"The server at --nats-url again, with the user that answers clients and tells notices; default: --nats-url." placeholder:"URL"`
	NATSDoorCreds       string        `name:"nats-door-creds" help:"Credentials file for --nats-door-url; default: --nats-creds unless there is a --nats-door-url." type:"path" placeholder:"FILE"`
	NATSProbe           []string      `name:"nats-probe" help:"URLs of the server at --nats-url with ordinary clients' credentials: a start finds out whether they could write the log. Who has none is always tried." placeholder:"URL"`
	AcceptOpenNATS      bool          `name:"accept-open-nats" help:"Serve on an external NATS whose clients could write the log."`
	NATSUsers           string        `name:"nats-users" help:"YAML file of the users of the embedded NATS server; without it anybody who reaches it is an operator." type:"existingfile" placeholder:"FILE"`
	NATSMonitor         []string      `name:"nats-monitor" help:"Monitoring URLs of all servers behind --nats-url; asked whether they sync always."`
	NATSReplicas        int           `name:"nats-replicas" help:"Replicas of a stream that is created behind --nats-url." default:"1"`
	AcceptLazySync      bool          `help:"Serve on an external NATS that may not sync every write. A power cut can lose answered commands."`
	LazySync            bool          `help:"Let the embedded NATS server sync every two minutes. Faster; a power cut loses answered commands."`
	AllowedHost         []string      `name:"allowed-host" help:"Name, beside localhost and addresses of this machine, that requests may call the server by." placeholder:"NAME"`
	AllowNoauth         bool          `help:"Serve without authentication on an address that other machines can reach."`
	TLS                 tlsFlags      `embed:"" prefix:"tls-" group:"TLS"`
	Keystone            keystoneFlags `embed:"" prefix:"keystone-" group:"Authentication"`
	CORS                corsFlags     `embed:"" prefix:"cors-" group:"Cross-origin requests"`
	PolicyFile          string        `help:"YAML file in oslo.policy's form with rules that replace Placement's own." type:"existingfile" placeholder:"FILE"`
	EnforceNewDefaults  bool          `help:"Leave out the policy rules that Placement has deprecated: reshapes are then for services only."`
	MaxCandidates       int           `help:"Most candidates that one request gets; 0: no bound." default:"0"`
	CandidatesBudget    int           `help:"Most work that one request for candidates may take, in things looked at." default:"50000000"`
	CandidatesOrder     string        `help:"depth-first: all candidates of a tree before the next tree's; breadth-first: from each tree in turn." enum:"depth-first,breadth-first" default:"depth-first"`
	RandomizeCandidates bool          `help:"Answer candidates in random order."`

	NodeProviders bool   `help:"Make each bare metal node a resource provider, too, with an inventory of one of its class."`
	BaremetalURL  string `name:"baremetal-url" help:"What links in answers of the bare metal API begin with; default: the host that the client named, and /baremetal." placeholder:"URL"`

	SigningKey string `help:"File with a private key that allot signing-key made: checkpoints of the log are signed with it." type:"existingfile" placeholder:"FILE"`

	PassOver []uint64 `help:"Sequences of entries of the log that are no commits of this ledger: somebody else could publish in its stream. Needed until its next commit." placeholder:"SEQUENCE"`

	Metrics    string        `help:"HOST:PORT that answers /metrics in Prometheus's form, to anybody; empty: none."`
	AuditEvery time.Duration `help:"Compare the ledger with its log in the background, this long after the last time; 0: never. Takes a second State in memory."`

	ScrubRate  int64         `help:"Read the log's files, the read models and the snapshots again in the background, at most this many bytes a second; 0: never." default:"16777216"`
	ScrubPause time.Duration `help:"How long to rest between two rounds of that." default:"6h"`

	RejectedBytes int64         `help:"Keep at most this many bytes of rejected commands; 0: none." default:"67108864"`
	RejectedAge   time.Duration `help:"Keep rejected commands this long; 0: as long as there is room." default:"168h"`

	DiskReserve  diskReserve   `help:"Refuse commands while less than this is free on the disk of the data folder, such as 256MiB; auto: 256MiB, and at most a fiftieth of the disk." default:"auto" placeholder:"SIZE"`
	AnswerWithin time.Duration `help:"Answer commands 503 when the log has said nothing for this long; others then at once, until it answers." default:"5s"`
	StopTimeout  time.Duration `help:"After SIGTERM end within this time, whatever has not stopped by then; a second SIGTERM ends at once." default:"15s"`

	SnapshotRecords int           `help:"Write a snapshot after this many records; 0: never." default:"100000"`
	SnapshotAge     time.Duration `help:"Write a snapshot after this time, if there are records; 0: never." default:"1h"`
	CheckBudget     time.Duration `help:"After an unclean stop, check the older part of a large log for this long at the start, and the rest of it while the server runs; 0: all of it at the start." default:"30s"`
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

// Run serves until the context ends. It then returns within StopTimeout, or
// when another signal comes: what was answered is durable at any moment.
func (c *serveCommand) Run(ctx context.Context) error {
	ended := make(chan error, 1)
	go func() { ended <- c.serve(ctx) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	again := make(chan os.Signal, 1)
	signal.Notify(again, syscall.SIGTERM, os.Interrupt)
	select {
	case err := <-ended:
		return err
	case <-again:
		return errors.New("ended at once by a second signal; what was answered is in the log")
	case <-time.After(c.StopTimeout):
		return fmt.Errorf("not everything had stopped %v after the signal (--stop-timeout); what was answered is in the log", c.StopTimeout)
	}
}

func (c *serveCommand) serve(ctx context.Context) error {
	logger := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: c.LogLevel}))
	if err := c.check(); err != nil {
		return err
	}
	if c.NATS == defaultNATS && c.natsIsBackDoor() {
		logger.Warn("NATS stays inside of the process: REST is authenticated, and clients of NATS have no users; name them with --nats-users")
		c.NATS = ""
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
	if c.NATS != defaultNATS && c.natsIsBackDoor() {
		return fmt.Errorf("--keystone-url authenticates requests over REST, and at --nats %s anybody would be an operator: "+
			"name users with --nats-users, keep NATS in the process with --nats \"\", or accept it with --allow-noauth", c.NATS)
	}
	if !local && c.NATSUsers == "" && !c.AllowNoauth {
		return fmt.Errorf("--nats %s can be reached from other machines, and clients are not authenticated: "+
			"name users with --nats-users, bind 127.0.0.1, or accept it with --allow-noauth", c.NATS)
	}
	return nil
}

// defaultNATS is where clients find NATS if nothing is said.
const defaultNATS = "127.0.0.1:4222"

// natsIsBackDoor: anybody who reaches NATS would be an operator, whom over
// REST Keystone would have to know.
func (c *serveCommand) natsIsBackDoor() bool {
	return c.Keystone.URL != "" && c.NATSUsers == "" && c.NATSURL == "" && c.NATS != "" && !c.AllowNoauth
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
	data        *dataFolder
	verdict     *blocks.Verdict
	highWater   *blocks.HighWater
	listener    net.Listener
	nats        *embedded.Server
	natsURL     string
	nc          *nats.Conn // of the log. Apart, so that they hold up no commit:
	noticesNC   *nats.Conn // for slow followers
	doorNC      *nats.Conn // for floods of requests
	ledger      ledger.Log
	stream      *jetstream.Log // what the log is appended to
	readers     ledger.Log     // the log, for whoever is not the writer
	space       *space
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
	scrubber    *scrub.Scrubber
	http        *http.Server
	metricsHTTP *http.Server
	failed      chan error
	stopping    chan struct{}
	ceiling     *ceiling
}

func (n *node) start(ctx context.Context) error {
	n.failed, n.stopping, n.ceiling = make(chan error, 1), make(chan struct{}), startCeiling()
	var err error
	if n.data, err = openDataFolder(n.config.Data); err != nil {
		return err
	}
	n.data.external = n.config.NATSURL != ""
	if n.auth, n.policy, err = n.config.security(); err != nil {
		return err
	}
	if n.tls, err = n.config.TLS.config(n.log); err != nil {
		return err
	}
	if n.users, err = n.config.natsUsers(); err != nil {
		return err
	}
	// Bind first: a port that is taken should be known before a long replay.
	if n.listener, err = net.Listen("tcp", n.config.HTTP); err != nil {
		return err
	}
	// Judge before anything opens, or changes, what lies there.
	if err := n.judgeData(ctx); err != nil {
		return err
	}
	if err := n.openCheckpoints(); err != nil {
		return err
	}
	if n.views, err = projector.Open(n.data.path(readModelFolder), n.log); err != nil {
		return err
	}
	if n.snaps, err = snapshots.Open(n.data.path(snapshotsFolder), n.log); err != nil {
		return err
	}
	if err := n.openLog(ctx); err != nil {
		return err
	}
	if err := n.startWriter(ctx); err != nil {
		return err
	}
	if n.doorNC, err = n.connectDoor(); err != nil {
		return err
	}
	if err := n.checkClosed(); err != nil {
		return err
	}
	queries := &natsapi.Queries{Views: n.views, Log: n.readers, Notary: n.notary, MaxSteps: n.config.CandidatesBudget, Now: time.Now}
	if n.rejected != nil {
		queries.Rejected = n.rejected
	}
	if n.commands, err = natsapi.Start(n.doorNC, natsapi.Config{
		Commands: n.writer, Version: version(), Actor: natsActor, Users: n.users, Direct: n.config.AcceptOpenNATS, CutOff: n.cutOff(), Logger: n.log,
		Heavy:   n.ceiling.door(),
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
	n.startScrubber()
	if err := n.serveMetrics(); err != nil {
		return err
	}
	n.serveHTTP()
	return nil
}

// startScrubber begins to look for damage on the disk.
func (n *node) startScrubber() {
	if n.config.ScrubRate <= 0 {
		return
	}
	cfg := scrub.Config{
		Views: n.views, Snapshots: n.data.path(snapshotsFolder), BytesPerSecond: n.config.ScrubRate, Pause: n.config.ScrubPause,
		Now: time.Now, Logger: n.log,
	}
	if n.nats != nil {
		files := n.data.files()
		cfg.Log = &files
	}
	n.scrubber = scrub.Start(cfg)
}

// cutOff is how the door closes connections; those of an external server it cannot.
func (n *node) cutOff() func(uint64) {
	if n.nats == nil {
		return nil
	}
	return n.nats.CutOff
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

// cleanBudget is how long the older part of a log is checked at a start after
// a clean stop; the rest is checked while the server runs.
const cleanBudget = time.Second

// judgeData looks at what is in the data folder, and takes an empty one for a
// new ledger.
func (n *node) judgeData(ctx context.Context) (err error) {
	if err := n.data.mayBegin(); err != nil {
		return err
	}
	if n.config.NATSURL != "" {
		n.verdict = &blocks.Verdict{}
		n.verdict.Begin, err = n.data.files().Beginning()
		return err
	}
	show, end := checkProgress(n.log)
	n.verdict, err = n.data.judge(ctx, blocks.CheckOptions{
		PassOver: n.config.PassOver, Budget: n.config.CheckBudget, CleanBudget: min(cleanBudget, n.config.CheckBudget), Progress: show,
	})
	end()
	if err == nil && n.verdict.Report != nil && n.verdict.Unread > 0 {
		n.log.Warn("the log is large: its older part is checked while the server runs", "blocks", n.verdict.Unread)
	}
	return err
}

func (n *node) unsynced(err error) {
	n.log.Error("the high-water mark of the log is not synced", "error", err)
}

func (n *node) openLog(ctx context.Context) (err error) {
	cfg := jetstream.Config{Replicas: n.config.NATSReplicas, MayCreate: n.verdict.Begin != nil}
	if n.highWater, err = blocks.OpenHighWater(blocks.HighWaterPath(n.data.files().Store), n.unsynced); err != nil {
		return err
	}
	if n.config.NATSURL == "" {
		err = n.startInside(ctx)
	} else {
		cfg.AckTimeout = ackTimeout
		err = n.connectOutside(ctx)
	}
	if err != nil {
		return err
	}
	if n.stream, err = jetstream.Open(ctx, n.nc, cfg); err == nil {
		n.ledger = n.stream
	}
	if err == nil && n.nats != nil {
		n.ledger, err = n.nats.ReadFiles(n.stream)
	}
	if errors.Is(err, jetstream.ErrNoStream) {
		return fmt.Errorf("%w: %w", err, n.data.missing())
	}
	if err != nil {
		return unreached(err)
	}
	n.ledger = ledger.PassOver(n.ledger, n.config.PassOver)
	n.readers = jetstream.Share(n.ledger, logReaders)
	return n.watchSpace()
}

// unreached says what to do about a log that cannot be reached at the start.
func unreached(err error) error {
	if errors.Is(err, ledger.ErrUnavailable) {
		return fmt.Errorf("%w; nothing was changed: start again when the NATS server can be reached", err)
	}
	return err
}

// ackTimeout is how long an append to another machine may take.
const ackTimeout = 5 * time.Second

// logReaders is how many requests may read the log at a time. Each holds a few
// MiB, and none reads for longer than it takes to fill an answer's next part.
const logReaders = 32

func (n *node) startInside(ctx context.Context) error {
	if n.config.LazySync {
		n.log.Warn("--lazy-sync: a power cut can lose commands that were answered")
	}
	var err error
	n.nats, err = embedded.Start(ctx, embedded.Config{
		StoreDir: n.data.path(logFolder), Listen: n.config.NATS, Verdict: n.verdict,
		LazySync: n.config.LazySync, Logger: n.log, TLS: n.tls,
		Users: logins(n.users), Services: wire.Services(), Streams: wire.Streams(), Heavy: n.ceiling.door(),
	})
	if err != nil {
		return err
	}
	n.natsURL = n.nats.ClientURL()
	n.nc, err = n.nats.Connect()
	return err
}

func (n *node) startWriter(ctx context.Context) error {
	n.views.Heal(n.ledger)
	defer context.AfterFunc(ctx, n.views.Interrupt)()
	state, err := n.restore(ctx)
	if err != nil {
		return adviseToPassOver(unreached(err))
	}
	if last := state.Next() - 1; last > state.Head().Sequence {
		n.log.Error("somebody else has written into the log; what is no commit of this ledger is passed over. Find out who can publish there",
			"after", state.Head().Sequence, "last", last)
	}
	id := state.LedgerID()
	if id.IsNil() {
		if n.verdict.Begin == nil {
			return n.data.missing()
		}
		id = n.verdict.Begin.Ledger
	}
	n.notary.Ledger = id
	if err := n.startNotices(id); err != nil {
		return err
	}
	tell := n.startKeeper(ctx)
	n.writer = commands.NewProcessor(n.ledger, &marked{n.notices, n.highWater}, state, commands.Options{
		Now: time.Now, Logger: n.log, SaveSnapshot: n.saveSnapshot,
		SnapshotRecords: n.config.SnapshotRecords, SnapshotAge: n.config.SnapshotAge, Rejected: tell,
		AnswerWithin: n.config.AnswerWithin, Refuse: n.space.refuse,
	})
	begin, err := commands.NewAddStandardNames(id)
	if err != nil {
		return err
	}
	outcome, err := n.submit(ctx, commands.Submission{ID: commands.NewID(), Actor: "allot", Command: begin})
	if err == nil && outcome.Rejection != nil {
		err = fmt.Errorf("the ledger cannot be begun: %s", outcome.Rejection)
	}
	if err != nil {
		return err
	}
	if err := n.data.files().Begun(); err != nil {
		return err
	}
	if err := n.setNodeProviders(ctx); err != nil {
		return err
	}
	n.saveCheckpoint()
	n.space.arm()
	return nil
}

// restore brings State and read models to the end of the log, which must hold
// all that is known of it.
func (n *node) restore(ctx context.Context) (*ledger.State, error) {
	signed, err := n.data.signed()
	if err != nil {
		return nil, err
	}
	seen := []ledger.Head{n.highWater.Head()}
	for _, s := range signed {
		seen = append(seen, s.Head)
	}
	progress, end := replayProgress(n.log)
	defer end()
	return commands.Restore(ctx, n.ledger, n.snaps, &marked{n.views, n.highWater}, seen, progress)
}

// marked moves the high-water mark beside the log before anybody is told of a
// commit.
type marked struct {
	commands.Projection
	highWater *blocks.HighWater
}

// Fold implements commands.Projection.
func (m *marked) Fold(c *ledger.Commit, changes ledger.Changes) error {
	if err := m.highWater.Set(c.Head()); err != nil {
		return err
	}
	return m.Projection.Fold(c, changes)
}

// adviseToPassOver names the way out if the log ends with an entry that may
// be somebody else's.
func adviseToPassOver(err error) error {
	var bad *ledger.BadEntryError
	if !errors.As(err, &bad) {
		return err
	}
	return fmt.Errorf("%w. If somebody else wrote entry %d, and it is the log's last but for more of theirs, start with --pass-over %d "+
		"and find out who can publish there", err, bad.Sequence, bad.Sequence)
}

// startNotices puts the publisher of notices between writer and read models.
func (n *node) startNotices(id ledger.UUID) (err error) {
	if n.noticesNC, err = n.connectNotices(); err != nil {
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

// submit carries out a command of the start. Read models that turn out to be
// damaged meanwhile are waited for: they are being made again.
func (n *node) submit(ctx context.Context, s commands.Submission) (commands.Outcome, error) {
	for {
		outcome, err := n.writer.Submit(ctx, s)
		if !errors.Is(err, commands.ErrUnreadable) {
			return outcome, err
		}
		select {
		case <-time.After(submitPause):
		case <-ctx.Done():
			return outcome, err
		}
	}
}

// submitPause lies between tries of the start.
const submitPause = 50 * time.Millisecond

// nodeProvidersAtATime bounds the record in which nodes become providers.
const nodeProvidersAtATime = 1000

// setNodeProviders turns node providers on or off, as configured.
func (n *node) setNodeProviders(ctx context.Context) error {
	for {
		outcome, err := n.submit(ctx, commands.Submission{
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
	n.vouchers, err = snapshots.OpenCheckpoints(n.data.path(checkpointsFolder))
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
	bodies := &intake.Pool{Heavy: n.ceiling.door()}
	searches := turns.New(runtime.GOMAXPROCS(0) / 2) // the rest is for everything else
	facade := func(prefix string) http.Handler {
		return &placement.Handler{
			Commands: n.writer, Views: n.views, Log: n.log, Prefix: prefix,
			IncompleteProject: placement.DefaultIncompleteID, IncompleteUser: placement.DefaultIncompleteID,
			Auth: n.auth, Policy: n.policy, Intake: bodies, Searches: searches,
			Candidates: n.config.candidateOptions(),
		}
	}
	root, mounted := facade(""), facade("/placement")
	records := &audit.Records{
		Log: n.readers, Views: n.views, Authorize: auth.Guard(n.auth, n.policy, "allot:audit"), Logger: n.log, Stop: n.stopping,
	}
	digest := &audit.Digest{Views: n.views, Authorize: records.Authorize, Logger: n.log}
	history := &audit.History{Views: n.views, Log: n.readers, Authorize: records.Authorize, Logger: n.log}
	asked := &audit.Questions{
		Views: n.views, Log: n.readers, Notary: n.notary, Authorize: records.Authorize, Logger: n.log,
		Writer: n.writer, Snapshots: n.snaps, MaxSteps: n.config.CandidatesBudget, Version: version(), Intake: bodies, Searches: searches,
	}
	if n.auditor != nil {
		asked.LastAudit = n.auditor.Last
	}
	if n.scrubber != nil {
		asked.Scrub = n.scrubber.Status
	}
	if n.rejected != nil {
		asked.Rejected = n.rejected
	}
	audits, page := audit.Routes(asked, records, digest, history), console.Handler()
	metal := &baremetal.Handler{
		Commands: n.writer, Views: n.views, Log: n.log, Prefix: "/baremetal", PublicURL: strings.TrimRight(n.config.BaremetalURL, "/"),
		Auth: n.auth, Policy: n.policy, Intake: bodies, Noauth: n.config.Keystone.URL == "",
	}
	return n.config.fromBrowsers(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if n.tls != nil && r.TLS == nil {
			r.TLS = new(tls.ConnectionState) // plainErrors hides it from net/http
		}
		path := r.URL.EscapedPath()
		one, isAudit := audits[path]
		switch {
		case isAudit:
			one.ServeHTTP(w, r)
		case path == "/console":
			http.Redirect(w, r, console.Prefix, http.StatusMovedPermanently)
		case strings.HasPrefix(path, console.Prefix):
			page.ServeHTTP(w, r)
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
	defer n.ceiling.stop()
	if n.views != nil {
		n.views.Interrupt() // the writer may be waiting for it
	}
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
	if n.scrubber != nil {
		n.scrubber.Stop()
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
	if n.space != nil {
		n.space.stop()
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
	if n.highWater != nil {
		keep(n.highWater.Close())
	}
	if n.data != nil {
		keep(n.data.close())
	}
	return errors.Join(errs...)
}
