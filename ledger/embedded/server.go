// Package embedded runs a NATS server with JetStream inside the process. It
// is the only package that knows nats-server.
package embedded

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/base64"
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
	"golang.org/x/crypto/bcrypt"

	"github.com/allot-project/allot/ledger/blocks"
	"github.com/allot-project/allot/ledger/jetstream"
)

// MaxPayload is the largest message: a reshape of 10,000 consumers is one
// message, and takes about 3 MiB.
const MaxPayload = 8 << 20

// startTimeout bounds the recovery of the stream at start.
const startTimeout = 10 * time.Minute

// Users of the embedded server. Their permissions are the least they need.
const (
	// ClientUser is who connects without credentials: it may submit
	// commands and discover the service, and nothing else.
	ClientUser = "client"
	// writerUser is the process itself. It alone may publish commits.
	writerUser = "writer"
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
	// Users may connect, and nobody else; none: anybody may, as ClientUser.
	Users []User
	// Services are the subjects that users may be given to send requests on;
	// the server adds who sent each. The rest of this server's own account is
	// out of their reach.
	Services []string
	// Streams are the subjects that users may be given to listen on.
	Streams []string
	// TLS, if set, is what clients outside of the process must speak.
	TLS    *tls.Config
	Logger *slog.Logger
	// Verdict is what was said of the log's files just now; without it they
	// are judged at the start, by Judge. Context ends that.
	Verdict *blocks.Verdict
	Judge   blocks.JudgeOptions
	Context context.Context
	// Import opens a log that an import has not finished.
	Import bool
}

// User is one that may connect, with a password or an nkey, and what it may do.
type User struct {
	Name, PasswordHash, NKey string
	Publish, Subscribe       []string
}

// usersAccount is the account of Users. It is apart from the writer's, so
// that they reach what is exported to them and nothing else, and so that the
// server says with each request who sent it.
const usersAccount = "CLIENTS"

// Server is a running NATS server.
type Server struct {
	ns        *server.Server
	verdict   *blocks.Verdict
	password  string
	listening listening
	log       *natsLogger
	users     bool
	store     *server.Options
}

// Verdict is what was found in the log's files before the server opened them.
func (s *Server) Verdict() *blocks.Verdict { return s.verdict }

// Start starts a server and waits until it is ready. It changes nothing on
// disk, and fails with what blocks.Folder.Judge says, unless the log's files
// are good.
func Start(cfg Config) (*Server, error) {
	verdict, err := judge(cfg)
	if err != nil {
		return nil, err
	}
	secret := make([]byte, 32)
	if _, err := rand.Read(secret); err != nil {
		return nil, fmt.Errorf("embedded: %w", err)
	}
	password := base64.RawURLEncoding.EncodeToString(secret)
	hash, err := bcrypt.GenerateFromPassword([]byte(password), bcrypt.MinCost) // the password has 256 random bits
	if err != nil {
		return nil, fmt.Errorf("embedded: %w", err)
	}
	opts, err := options(cfg, string(hash))
	if err != nil {
		return nil, err
	}
	ns, err := server.NewServer(opts)
	if err != nil {
		return nil, fmt.Errorf("embedded: NATS server: %w", err)
	}
	if err := export(ns, cfg); err != nil {
		return nil, err
	}
	log := &natsLogger{log: cfg.Logger, store: cfg.StoreDir}
	ns.SetLoggerV2(log, false, false, false)
	go ns.Start()
	if !ns.ReadyForConnections(startTimeout) {
		ns.Shutdown()
		return nil, fmt.Errorf("embedded: the NATS server did not start: %w", log.lastError())
	}
	s := &Server{ns: ns, verdict: verdict, password: password, log: log, users: len(cfg.Users) > 0, store: opts}
	if err := s.enableAccount(); err != nil {
		ns.Shutdown()
		return nil, err
	}
	if cfg.Listen != "" && ns.Addr() == nil {
		ns.Shutdown()
		return nil, fmt.Errorf("embedded: the NATS server does not listen on %s: %w", cfg.Listen, log.lastError())
	}
	return s, nil
}

func options(cfg Config, passwordHash string) (*server.Options, error) {
	opts := &server.Options{
		ServerName: "allot",
		JetStream:  true,
		StoreDir:   cfg.StoreDir,
		SyncAlways: !cfg.LazySync,

		JetStreamMaxStore:  noLimit,
		JetStreamMaxMemory: noLimit,

		MaxPayload:     MaxPayload,
		MaxPending:     64 << 20,
		MaxControlLine: 4096,
		NoSigs:         true,
		DontListen:     cfg.Listen == "",
		NoAuthUser:     ClientUser,
		Users: []*server.User{
			{Username: writerUser, Password: passwordHash},
			{Username: ClientUser, Permissions: clientPermissions()},
		},
	}
	if len(cfg.Users) > 0 {
		addUsers(opts, cfg.Users)
	}
	if cfg.TLS != nil {
		opts.TLS, opts.TLSConfig, opts.TLSTimeout = true, cfg.TLS, tlsTimeout.Seconds()
	}
	var err error
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

const tlsTimeout = 5 * time.Second

// addUsers puts users in the place of the one who needs no credentials.
func addUsers(opts *server.Options, users []User) {
	account := server.NewAccount(usersAccount)
	opts.Accounts = []*server.Account{account}
	opts.NoAuthUser = ""
	opts.Users = opts.Users[:1] // the writer
	for _, u := range users {
		permissions := &server.Permissions{
			Publish:   &server.SubjectPermission{Allow: u.Publish},
			Subscribe: &server.SubjectPermission{Allow: u.Subscribe},
		}
		if u.NKey != "" {
			opts.Nkeys = append(opts.Nkeys, &server.NkeyUser{Nkey: u.NKey, Permissions: permissions, Account: account})
			continue
		}
		opts.Users = append(opts.Users, &server.User{Username: u.Name, Password: u.PasswordHash, Permissions: permissions, Account: account})
	}
}

// export lets the users' account reach the service and hear the notices.
func export(ns *server.Server, cfg Config) error {
	if len(cfg.Users) == 0 {
		return nil
	}
	own := ns.GlobalAccount()
	users, err := ns.LookupAccount(usersAccount)
	if err != nil {
		return fmt.Errorf("embedded: %w", err)
	}
	for _, subject := range cfg.Services {
		err := errors.Join(own.AddServiceExport(subject, nil), users.AddServiceImport(own, subject, subject), users.SetServiceImportSharing(own, subject, true))
		if err != nil {
			return fmt.Errorf("embedded: %s: %w", subject, err)
		}
	}
	for _, subject := range cfg.Streams {
		if err := errors.Join(own.AddStreamExport(subject, nil), users.AddStreamImport(own, subject, "")); err != nil {
			return fmt.Errorf("embedded: %s: %w", subject, err)
		}
	}
	return nil
}

// clientPermissions: commands out, answers in, discovery. Commit subjects and
// the JetStream API are out of reach.
func clientPermissions() *server.Permissions {
	return &server.Permissions{
		Publish: &server.SubjectPermission{
			Allow: []string{"allot.command.>", "allot.batch", "allot.query.>", "$SRV.PING", "$SRV.PING.>", "$SRV.INFO", "$SRV.INFO.>", "$SRV.STATS", "$SRV.STATS.>"},
			Deny:  []string{jetstream.Subject, "$JS.>", "$SYS.>"},
		},
		Subscribe: &server.SubjectPermission{Allow: []string{"_INBOX.>", "allot.notice.>"}},
	}
}

// splitHostPort reads HOST:PORT; port 0 lets the system choose one.
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

// ClientURL is where clients connect, or empty if the server serves this
// process only.
func (s *Server) ClientURL() string {
	if s.ns.Addr() == nil {
		return ""
	}
	return s.ns.ClientURL()
}

// MonitorURL is the monitoring endpoint, or empty.
func (s *Server) MonitorURL() string {
	if addr := s.ns.MonitorAddr(); addr != nil {
		return "http://" + addr.String()
	}
	return ""
}

// Connect opens the writer's connection inside the process.
func (s *Server) Connect() (*nats.Conn, error) {
	nc, err := nats.Connect("", nats.InProcessServer(s.ns), nats.UserInfo(writerUser, s.password),
		nats.Name("allot writer"), nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond))
	if err != nil {
		return nil, fmt.Errorf("embedded: connect in process: %w", err)
	}
	return nc, nil
}

// Listening picks the names that some client may listen on, on subjects that
// begin with a prefix, a dot and the name. It costs little unless clients have
// begun to listen on something since it was asked last; prefix and names must
// be the same every time.
func (s *Server) Listening(prefix string, names []string) []string {
	s.listening.mu.Lock()
	defer s.listening.mu.Unlock()
	now, err := s.ns.Subsz(&server.SubszOptions{})
	if err != nil {
		return names
	}
	l := &s.listening
	if now.NumInserts != l.inserts || time.Since(l.at) >= rescan {
		all, err := s.ns.Subsz(&server.SubszOptions{Subscriptions: true, Limit: maxListed})
		if err != nil || all.Total > maxListed {
			return names
		}
		l.inserts, l.at, l.found = now.NumInserts, time.Now(), make(map[string]bool)
		for _, name := range names {
			l.found[name] = slices.ContainsFunc(all.Subs, func(sub server.SubDetail) bool { return mayMatch(sub.Subject, prefix+"."+name) })
		}
	}
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !l.found[name] })
}

const (
	// rescan is after what time those that have gone are noticed.
	rescan = time.Second
	// maxListed is how many subscriptions are looked through.
	maxListed = 10_000
)

// listening is what Listening found last.
type listening struct {
	mu      sync.Mutex
	inserts uint64          // subscriptions ever made, when it was looked; guarded by mu
	at      time.Time       // guarded by mu
	found   map[string]bool // by name; guarded by mu
}

// mayMatch reports whether a subscription's subject, which may have
// wildcards, can match subjects that begin with the tokens of a prefix.
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

// Shutdown stops the server and waits until its files are closed.
func (s *Server) Shutdown() {
	_, _, files := s.log.trouble.get()
	s.ns.Shutdown()
	s.ns.WaitForShutdown()
	if err := files.putBack(); err != nil && s.log.log != nil {
		s.log.log.Error("a write to the log failed, and its files could not be put back to what they were then", "error", err)
	}
}

// natsLogger passes NATS's log lines on. Routine notices become debug lines.
type natsLogger struct {
	log     *slog.Logger
	last    errorLine
	store   string // the folder
	trouble trouble
}

func (l *natsLogger) lastError() error { return l.last.get() }

func (l *natsLogger) line(level slog.Level, format string, v []any) {
	text := fmt.Sprintf(format, v...)
	if strings.HasPrefix(text, "Plaintext passwords detected") {
		level = slog.LevelDebug // it means the empty one of clients, who come in without credentials
	}
	if level >= slog.LevelError {
		l.last.set(errors.New(strings.TrimSpace(text)))
		l.trouble.note(text, l.store)
	}
	if l.log != nil {
		l.log.Log(nil, level, text, "from", "nats") //nolint:staticcheck // slog accepts a nil context
	}
}

func (l *natsLogger) Noticef(format string, v ...any) { l.line(slog.LevelDebug, format, v) }
func (l *natsLogger) Warnf(format string, v ...any)   { l.line(slog.LevelWarn, format, v) }
func (l *natsLogger) Errorf(format string, v ...any)  { l.line(slog.LevelError, format, v) }
func (l *natsLogger) Fatalf(format string, v ...any)  { l.line(slog.LevelError, format, v) }
func (l *natsLogger) Debugf(format string, v ...any)  { l.line(slog.LevelDebug, format, v) }
func (l *natsLogger) Tracef(format string, v ...any)  { l.line(slog.LevelDebug, format, v) }
