// Package embedded runs a NATS server with JetStream inside the process. No other
// package knows nats-server.
package embedded

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/allot-project/allot/ledger/blocks"
	"github.com/allot-project/allot/ledger/jetstream"
)

// MaxPayload is the largest message, and so the largest record: a reshape of
// 10,000 consumers is one message of the log, and takes about 3 MiB.
const MaxPayload = 8 << 20

// What clients may take. The server makes room for the whole of a message as soon as it
// has begun to come, and cannot tell how much of it has come: what one user can make the
// server hold is the product of the two. Larger commands go over REST.
const (
	// DefaultPayload is the largest message of a client: some 500 allocations.
	DefaultPayload = 128 << 10
	// userConnections are those of one user, which may be a service with a process on
	// each of hundreds of machines.
	userConnections = 512
)

// startTimeout bounds the recovery of the stream at start.
const startTimeout = 10 * time.Minute

// interruptTimeout is how long a server that is to stop may go on starting.
const interruptTimeout = 5 * time.Second

// Bounds of what connections may take.
const (
	// MaxConnections are those of all clients, and maxAnonymous those without a name.
	MaxConnections = 4096
	maxAnonymous   = 1024
	// maxSubscriptions are those of one connection.
	maxSubscriptions = 4096
	// maxPending is what the server keeps for one connection until it reads. Beyond
	// it the server closes the connection, and what was for it is lost: of a client
	// that does not read, and of the door, if clients flood it.
	maxPending = 64 << 20
	// writeDeadline is how long a client with a full socket may take nothing at
	// all, until it is cut off. A client that reads slowly is not cut off.
	writeDeadline = 2 * time.Second
	// authTimeout is how long a client may take to authenticate.
	authTimeout = 5 * time.Second
	// pingEvery is how often a client that sends nothing is asked whether it is
	// there; the third time that it has not answered it is cut off. Who is in the
	// middle of a message cannot answer: a message must have come by then.
	pingEvery   = 10 * time.Second
	maxPingsOut = 2
)

// Config says how the server runs.
type Config struct {
	StoreDir string // where JetStream keeps the log
	// Listen is HOST:PORT for clients, or empty to serve this process only.
	Listen string
	// Monitor is HOST:PORT for NATS's own monitoring endpoint, or empty.
	Monitor string
	// LazySync makes JetStream sync every two minutes instead of before each
	// acknowledgement. A power cut then loses acknowledged commits.
	LazySync bool
	// Users are the users that may connect. If there are none, every client may
	// connect, send requests to all Services and listen on all Streams.
	Users []User
	// Services are the subjects on which clients may be permitted to send
	// requests. Clients cannot reach the rest of this process's own account.
	Services []string
	// Door begins the subjects on which the requests come to this process: the name of
	// the client's account follows, and then the subject of the service.
	Door string
	// Streams are the subjects on which clients may be permitted to listen.
	Streams []string
	// TLS, if set, is what clients outside of the process must speak.
	TLS    *tls.Config
	Logger *slog.Logger
	// Verdict is a recent verdict about the log's files. Without it they are
	// judged at the start, by Judge.
	Verdict *blocks.Verdict
	Judge   blocks.JudgeOptions
	// Import opens a log that an import has not finished.
	Import bool
	// Outside keeps JetStream off: the server passes messages on, but stores
	// nothing and has no vote.
	Outside bool
	// Cluster makes it one of several servers; nil: a single server.
	Cluster *Cluster
}

// comesAs returns the subject on which requests of an account to a service come to this process.
func (c Config) comesAs(account, service string) string {
	return c.Door + "." + account + "." + service
}

// User is one that may connect, with a password or an nkey, and what it may do.
type User struct {
	Name, PasswordHash, NKey string
	Account                  string // the user's own account, a token that its requests carry
	Publish, Subscribe       []string
}

// Server is a running NATS server.
type Server struct {
	ns        *server.Server
	verdict   *blocks.Verdict
	replica   bool // one of several servers
	logins    *logins
	log       *slog.Logger
	lines     *natsLogger
	storeDir  string
	listening listening
	ending    sync.Once
}

// Verdict returns what was found in the log's files before the server opened
// them.
func (s *Server) Verdict() *blocks.Verdict { return s.verdict }

// Start starts a server and waits until it is ready, or the context ends. If the
// log's files are not good it fails with the error of blocks.Folder.Judge, and
// changes nothing on the disk.
func Start(ctx context.Context, cfg Config) (*Server, error) {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	for flag, address := range map[string]string{"clients": cfg.Listen, "monitoring": cfg.Monitor} {
		if err := checkFree(address); err != nil {
			return nil, fmt.Errorf("embedded: the NATS server cannot listen for %s: %w", flag, err)
		}
	}
	logins := newLogins(cfg)
	opts, err := options(cfg, logins)
	if err != nil {
		return nil, err
	}
	var verdict *blocks.Verdict
	if !cfg.Outside {
		if verdict, err = judge(ctx, cfg); err != nil {
			return nil, err
		}
		if err := Files(cfg.StoreDir).WriteAgain(); err != nil {
			return nil, err
		}
	}
	ns, err := server.NewServer(opts)
	if err != nil {
		return nil, fmt.Errorf("embedded: NATS server: %w", err)
	}
	log := newNATSLogger(cfg.Logger)
	if cfg.Cluster != nil {
		log.joinRefused.member = cfg.Cluster.Member
	}
	ns.SetLoggerV2(log, false, false, false)
	if err := logins.open(ns); err != nil {
		return nil, err
	}
	started := make(chan struct{})
	go func() {
		defer close(started)
		ns.Start()
	}()
	if err := ready(ctx, ns, log); err != nil {
		interrupt(ns, started)
		return nil, err
	}
	s := &Server{
		ns: ns, verdict: verdict, replica: cfg.Cluster != nil, logins: logins, log: cfg.Logger, lines: log,
		storeDir: cfg.StoreDir,
	}
	if cfg.Outside {
		return s, nil
	}
	// With more than one account the server does not do that itself.
	if err := ns.GlobalAccount().EnableJetStream(nil, nil); err != nil {
		ns.Shutdown()
		return nil, fmt.Errorf("embedded: %w", err)
	}
	return s, nil
}

// checkFree checks that an address can be listened on, before anything that takes
// time or touches the log's files.
func checkFree(address string) error {
	if address == "" {
		return nil
	}
	if _, _, err := splitHostPort(address); err != nil {
		return err
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	return l.Close()
}

// interrupt shuts down a server that may still be starting. Its Start begins goroutines
// for which Shutdown waits, so that both at once may panic: Start has some time to
// return, which it needs only where it reads a large log.
func interrupt(ns *server.Server, started <-chan struct{}) {
	select {
	case <-started:
	case <-time.After(interruptTimeout):
	}
	ns.Shutdown()
}

// ready waits until the server is ready, has failed, or is to stop.
func ready(ctx context.Context, ns *server.Server, log *natsLogger) error {
	up := make(chan bool, 1)
	go func() { up <- ns.ReadyForConnections(startTimeout) }()
	select {
	case ok := <-up:
		if !ok {
			return fmt.Errorf("embedded: the NATS server did not start: %w", log.lastError())
		}
		return nil
	case err := <-log.fatal:
		return fmt.Errorf("embedded: the NATS server did not start: %w", err)
	case <-ctx.Done():
		return fmt.Errorf("embedded: the NATS server was told to stop before it was ready: %w", ctx.Err())
	}
}

func options(cfg Config, auth server.Authentication) (*server.Options, error) {
	opts := &server.Options{
		ServerName: "allot",
		JetStream:  !cfg.Outside,
		StoreDir:   cfg.StoreDir,
		SyncAlways: !cfg.LazySync,

		JetStreamMaxStore:  noLimit,
		JetStreamMaxMemory: noLimit,

		MaxPayload:     MaxPayload,
		MaxPending:     maxPending,
		MaxConn:        MaxConnections,
		MaxSubs:        maxSubscriptions,
		MaxControlLine: 4096,
		WriteDeadline:  writeDeadline,
		WriteTimeout:   server.WriteTimeoutPolicyRetry,
		PingInterval:   pingEvery,
		MaxPingsOut:    maxPingsOut,
		NoSigs:         true,
		DontListen:     cfg.Listen == "",

		CustomClientAuthentication: auth,
		AlwaysEnableNonce:          true, // for clients that sign in with an nkey
		AuthTimeout:                authTimeout.Seconds(),
	}
	if cfg.TLS != nil {
		opts.TLS, opts.TLSConfig, opts.TLSTimeout = true, cfg.TLS, tlsTimeout.Seconds()
	}
	var err error
	if cfg.Cluster != nil {
		if err := errors.Join(cfg.Cluster.Check(), cfg.Cluster.join(opts)); err != nil {
			return nil, err
		}
	}
	if shut(cfg) {
		// Without a listener for clients NATS opens no routes, either.
		opts.DontListen, opts.Host, opts.Port = false, "127.0.0.1", server.RANDOM_PORT
	}
	if cfg.Listen != "" {
		if opts.Host, opts.Port, err = splitHostPort(cfg.Listen); err != nil {
			return nil, err
		}
	}
	if cfg.Monitor != "" {
		if opts.HTTPHost, opts.HTTPPort, err = splitHostPort(cfg.Monitor); err != nil {
			return nil, err
		}
	}
	return opts, nil
}

// shut reports whether the server has a listener for clients but admits only this
// process.
func shut(cfg Config) bool { return cfg.Listen == "" && cfg.Cluster != nil }

// noLimit replaces JetStream's own limits. Otherwise JetStream limits itself to
// three quarters of the free space at its start, even if the disk grows later.
const noLimit = 1 << 60

const tlsTimeout = 5 * time.Second

// splitHostPort reads HOST:PORT; with port 0 the system chooses one.
func splitHostPort(address string) (string, int, error) {
	host, portText, err := net.SplitHostPort(address)
	if err != nil {
		return "", 0, fmt.Errorf("embedded: %q is not HOST:PORT", address)
	}
	port, err := strconv.Atoi(portText)
	if err != nil || port < 0 || port > 65535 {
		return "", 0, fmt.Errorf("embedded: %q has no valid port", address)
	}
	if port == 0 {
		port = server.RANDOM_PORT
	}
	return host, port, nil
}

// ClientURL returns the address for clients, or "" if the server serves this
// process only.
func (s *Server) ClientURL() string {
	if s.ns.Addr() == nil || shut(s.logins.cfg) {
		return ""
	}
	return s.ns.ClientURL()
}

// Connect opens a connection for the log. Only this connection may publish on the
// log's subjects and use JetStream, and it may do nothing else.
func (s *Server) Connect() (*nats.Conn, error) { return s.connect(logRole) }

// ConnectDoor opens a connection that takes the requests of clients. It can
// publish replies to them, and nothing else.
func (s *Server) ConnectDoor() (*nats.Conn, error) { return s.connect(doorRole) }

// ConnectNotices opens a connection that can publish notices, and nothing else.
func (s *Server) ConnectNotices() (*nats.Conn, error) { return s.connect(noticesRole) }

// ConnectReplica opens a connection for messages between replicas, which no
// client can hear.
func (s *Server) ConnectReplica() (*nats.Conn, error) { return s.connect(peerRole) }

// connectTimeout allows for a server that recovers its streams meanwhile.
// nats.go's default of 2 s ended processes on busy machines.
const connectTimeout = time.Minute

func (s *Server) connect(role string) (*nats.Conn, error) {
	nc, err := nats.Connect(
		"",
		nats.InProcessServer(s.ns),
		nats.UserInfo(role, s.logins.secret),
		nats.Name(nameOf(role)),
		nats.Timeout(connectTimeout),
		nats.MaxReconnects(-1),
		nats.ReconnectWait(50*time.Millisecond),
		jetstream.LogRefusals(s.log, role),
	)
	if err != nil {
		return nil, fmt.Errorf("embedded: connect in process: %w", err)
	}
	return nc, nil
}

// Listening returns the names that some client may listen on, on subjects of a
// prefix, a dot and the name. It costs little unless clients have begun to listen
// on something since the last call. prefix and names must be the same in every
// call. In a cluster it returns all: what clients of other servers listen on is not listed.
func (s *Server) Listening(prefix string, names []string) []string {
	if s.replica {
		return names
	}
	s.listening.mu.Lock()
	defer s.listening.mu.Unlock()
	now, err := s.ns.Subsz(&server.SubszOptions{Account: ownAccount})
	if err != nil {
		return names
	}
	l := &s.listening
	if now.NumInserts != l.inserts || time.Since(l.at) >= rescan {
		all, err := s.ns.Subsz(&server.SubszOptions{Account: ownAccount, Subscriptions: true, Limit: maxListed})
		if err != nil || all.Total > maxListed {
			return names
		}
		l.inserts, l.at, l.found = now.NumInserts, time.Now(), make(map[string]bool)
		for _, name := range names {
			l.found[name] = slices.ContainsFunc(
				all.Subs, func(sub server.SubDetail) bool { return mayMatch(sub.Subject, prefix+"."+name) },
			)
		}
	}
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !l.found[name] })
}

// Ways tells the connections to the other servers of a cluster from those of another moment:
// what was sent to their clients may be lost whenever it changes.
func (s *Server) Ways() (ways [2]uint64) {
	if !s.replica {
		return ways
	}
	found, err := s.ns.Routez(nil)
	if err != nil {
		return ways // it has no way to fail
	}
	for _, r := range found.Routes {
		ways[0], ways[1] = ways[0]+1, max(ways[1], r.Rid) // a new one has a higher number
	}
	return ways
}

const (
	// rescan is the time after which ended subscriptions are noticed.
	rescan = time.Second
	// maxListed is how many subscriptions are examined.
	maxListed = 10_000
)

// listening is the last result of Listening.
type listening struct {
	mu      sync.Mutex
	inserts uint64          // number of subscriptions ever made at that time; guarded by mu
	at      time.Time       // guarded by mu
	found   map[string]bool // by name; guarded by mu
}

// mayMatch reports whether a subscription's subject, which may have wildcards,
// can match subjects that begin with the tokens of a prefix.
func mayMatch(subject, prefix string) bool {
	have, want := strings.Split(subject, "."), strings.Split(prefix, ".")
	for i, token := range want {
		if i >= len(have) {
			return false
		}
		if have[i] == ">" {
			return true
		}
		if have[i] != "*" && have[i] != token {
			return false
		}
	}
	return true
}

// Interest reports whether a client listens on a subject.
func (s *Server) Interest(subject string) bool {
	return s.ns.GlobalAccount().SubscriptionInterest(subject)
}

// Shutdown stops the server and waits until its files are closed. One with a broken store
// stays as it is: the process is to end.
func (s *Server) Shutdown() {
	s.ending.Do(func() {
		s.logins.throttle.stop()
		if s.WhyBroken() == nil {
			s.ns.Shutdown()
			s.ns.WaitForShutdown()
		}
	})
}

// Stored is how much JetStream stores.
type Stored struct {
	// Bytes and Messages are those of all streams: the log and, if they are kept,
	// rejected commands.
	Bytes, Messages uint64
	// Connections is the number of connections, including the process's own.
	Connections int
}

// Stored asks the NATS server.
func (s *Server) Stored() (Stored, error) {
	found, err := s.ns.Jsz(&server.JSzOptions{})
	if err != nil {
		return Stored{}, fmt.Errorf("embedded: JetStream does not say what it keeps: %w", err)
	}
	return Stored{Bytes: found.Store, Messages: found.Messages, Connections: s.ns.NumClients()}, nil
}
