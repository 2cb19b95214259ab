package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/net/netutil"
	"golang.org/x/sync/errgroup"

	"github.com/allot-project/allot/api/console"
	"github.com/allot-project/allot/api/port"
	"github.com/allot-project/allot/api/rest"
	"github.com/allot-project/allot/cmd/allot-migrate/contents"
	"github.com/allot-project/allot/cmd/allot-migrate/contents/services"
	"github.com/allot-project/allot/cmd/allot-migrate/shadow"
	"github.com/allot-project/allot/cmd/internal/cli"
	"github.com/allot-project/allot/commands/fair"
	"github.com/allot-project/allot/ledger/durable"
)

type shadowCommand struct {
	Run  shadowRunCommand  `cmd:"" default:"withargs" help:"Run the proxy." example:"shadow run --upstream http://127.0.0.1:8778"`
	Lead shadowLeadCommand `cmd:"" help:"Make Placement or Allot the one that answers, while the proxy runs." example:"shadow lead allot"`
}

// defaultAdmin is where the page of the proxy is, if nothing is said.
const defaultAdmin = "127.0.0.1:8780"

// shadowRunCommand is "allot-migrate shadow" without more: the proxy.
type shadowRunCommand struct {
	placementLogin `embed:""`
	Upstream       string        `help:"Placement." required:"" placeholder:"URL"`
	Allot          string        `help:"The running Allot." default:"http://127.0.0.1:8779" placeholder:"URL"`
	HTTP           string        `name:"http" help:"HOST:PORT for clients, who get the answers of the one that leads." default:"127.0.0.1:8778"`
	Admin          string        `help:"HOST:PORT of /shadow, which shows differences with contents, of /metrics, and for allot-migrate shadow lead. Only this machine may reach it." default:"127.0.0.1:8780"`
	Data           string        `help:"Folder in which the proxy remembers who leads." default:"shadow" type:"path"`
	LeadNow        string        `name:"lead" help:"Which side answers: placement or allot; default: the last one, and placement at first. If the other side answered last, it goes on until both are equal." enum:"placement,allot," default:""`
	CompareEvery   time.Duration `help:"Compare everything, and bring the follower in line, this long after the last time; 0: only at the start." default:"1h"`
	CompareReads   bool          `help:"Repeat reads at the follower, and compare the answers." default:"true" negatable:""`
	QueueBytes     int64         `help:"Memory for requests that wait for the follower. What does not fit is brought in line later." default:"67108864" least:"1" placeholder:"BYTES"`
	SwitchWithin   time.Duration `help:"How long writes may wait while the lead changes." default:"5s" least:"10ms"`
	AllowedHost    []string      `name:"allowed-host" help:"Name, beside localhost and addresses of this machine, that requests may call the proxy by." placeholder:"NAME"`
	Connections    int           `name:"http-connections" help:"Most connections of clients at a time; more wait." default:"4096" least:"1" placeholder:"N"`
	TLS            cli.TLSFlags  `embed:"" prefix:"tls-" group:"TLS"`
	Log            cli.LogFlags  `embed:"" prefix:"log-" group:"Messages"`
}

// Run serves until the context ends.
func (c *shadowRunCommand) Run(ctx context.Context) error {
	logger := c.Log.Logger(os.Stderr)
	proxy, err := c.proxy(logger)
	if err != nil {
		return err
	}
	secure, err := c.TLS.Config(logger)
	if err != nil {
		return err
	}
	clients, err := net.Listen("tcp", c.HTTP)
	if err != nil {
		return fmt.Errorf("--http %s: %w", c.HTTP, err)
	}
	operators, err := net.Listen("tcp", c.Admin)
	if err != nil {
		return errors.Join(fmt.Errorf("--admin %s: %w", c.Admin, err), clients.Close())
	}
	clients = netutil.LimitListener(clients, c.Connections)
	guard := &rest.BrowserGuard{Hosts: c.AllowedHost, AnyAddress: true, CheckHost: true}
	pages := http.NewServeMux()
	pages.Handle("GET /metrics", promhttp.HandlerFor(proxy.Metrics(), promhttp.HandlerOpts{}))
	pages.Handle("/shadow", proxy.Page())
	pages.Handle("/shadow/", proxy.Page())
	pages.Handle("/{$}", http.RedirectHandler("/shadow", http.StatusFound))
	pages.Handle(console.Prefix, console.Handler()) // the page uses its style and scripts
	pages.Handle(console.Prefix+"{$}", http.RedirectHandler("/shadow", http.StatusFound))
	inside := &rest.BrowserGuard{CheckHost: true}
	doors := []*http.Server{c.door(guard.Handler(proxy), logger), c.door(inside.Handler(pages), logger)}
	doors[0].TLSConfig = secure
	logger.Info("the shadow serves", "http", clients.Addr(), "admin", operators.Addr(), "lead", proxy.Lead().String())
	return serveShadow(ctx, doors, []net.Listener{clients, operators}, proxy.Run, func(ctx context.Context) {
		c.follow(ctx, proxy, logger)
	})
}

// Bounds of both ports.
const (
	readHeaderTimeout = 10 * time.Second
	readTimeout       = 60 * time.Second
	idleTimeout       = 2 * time.Minute
	maxHeaderBytes    = 64 << 10
	maxStreams        = 100 // requests at a time on a connection of HTTP/2
	// drainTimeout is how long requests under way may take when the proxy ends.
	drainTimeout = 5 * time.Second
)

func (c *shadowRunCommand) door(handler http.Handler, logger *slog.Logger) *http.Server {
	return &http.Server{
		Handler: handler, ErrorLog: port.ErrorLog(logger),
		ReadHeaderTimeout: readHeaderTimeout, ReadTimeout: readTimeout, IdleTimeout: idleTimeout,
		MaxHeaderBytes: maxHeaderBytes, HTTP2: &http.HTTP2Config{MaxConcurrentStreams: maxStreams},
	}
}

// serveShadow serves until the context ends; then requests under way may end. Meanwhile it works.
func serveShadow(
	ctx context.Context, doors []*http.Server, listeners []net.Listener, work ...func(context.Context),
) error {
	group, ends := errgroup.WithContext(ctx)
	working, stop := context.WithCancel(context.WithoutCancel(ctx))
	var all sync.WaitGroup
	for _, one := range work {
		all.Go(func() { one(working) })
	}
	for i, door := range doors {
		group.Go(func() (err error) {
			if door.TLSConfig != nil {
				err = door.ServeTLS(listeners[i], "", "")
			} else {
				err = door.Serve(listeners[i])
			}
			if errors.Is(err, http.ErrServerClosed) {
				return nil
			}
			return err
		})
		group.Go(func() error {
			<-ends.Done()
			late, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTimeout)
			defer cancel()
			if err := door.Shutdown(late); err != nil {
				return door.Close()
			}
			return nil
		})
	}
	err := group.Wait()
	stop()
	all.Wait()
	return err
}

func (c *shadowRunCommand) proxy(logger *slog.Logger) (*shadow.Shadow, error) {
	if local, err := cli.IsLocal(c.Admin); err != nil || !local {
		return nil, errors.Join(fmt.Errorf("--admin %s: it shows contents and changes who leads, without "+
			"authentication, so it must be an address of this machine alone, such as %s", c.Admin, defaultAdmin), err)
	}
	lead, err := c.leader()
	if err != nil {
		return nil, err
	}
	config := shadow.Config{
		Lead: lead, Remember: c.remember, Contents: c.contents, CompareEvery: c.CompareEvery, CompareReads: c.CompareReads,
		QueueBytes: c.QueueBytes, SwitchWithin: c.SwitchWithin, Logger: logger, Bodies: fair.NewPool(),
	}
	for _, side := range shadow.Sides {
		if config.Peers[side], err = c.peer(side); err != nil {
			return nil, err
		}
	}
	return shadow.New(config), nil
}

func (c *shadowRunCommand) address(of shadow.Side) (flag, address string) {
	if of == shadow.Allot {
		return "--allot", c.Allot
	}
	return "--upstream", c.Upstream
}

func (c *shadowRunCommand) peer(side shadow.Side) (shadow.Peer, error) {
	flag, address := c.address(side)
	target, err := url.Parse(address)
	if err != nil || !isREST(address) || target.Host == "" || target.User != nil {
		return shadow.Peer{}, fmt.Errorf("%s is not http://HOST:PORT or https://HOST:PORT, without a user", flag)
	}
	source, err := c.source(address)
	if err != nil {
		return shadow.Peer{}, err
	}
	plain, err := placementLogin{CACert: c.CACert}.source(address)
	if err != nil {
		return shadow.Peer{}, err
	}
	own, err := services.New(side.String(), address, source.Token, source.HTTP)
	if err != nil {
		return shadow.Peer{}, err
	}
	own.Close = side == shadow.Placement // see Peer.Writes; a read would leave its connection to a write
	return shadow.Peer{
		URL: target, Own: own,
		Clients: carrier(plain.HTTP.Transport, true), Writes: carrier(plain.HTTP.Transport, side == shadow.Allot),
	}, nil
}

// mostIdle is how many connections to a side wait for the next request: as many as clients
// ask at once, or each answer would end one.
const mostIdle = 512

// carrier makes a transport for clients' requests. It leaves answers as they are.
func carrier(from http.RoundTripper, keep bool) http.RoundTripper {
	transport, is := from.(*http.Transport)
	if !is {
		return from
	}
	transport = transport.Clone()
	transport.DisableCompression, transport.DisableKeepAlives = true, !keep
	transport.MaxIdleConns, transport.MaxIdleConnsPerHost = mostIdle, mostIdle
	transport.IdleConnTimeout = idleTimeout / 2 // before Allot ends one that a write may just be using
	return transport
}

func (c *shadowRunCommand) contents(
	ctx context.Context, of shadow.Side, show func(done, total uint64),
) (*contents.Plan, error) {
	_, address := c.address(of)
	source, err := c.source(address)
	if err != nil {
		return nil, err
	}
	source.Moving = true
	rows, err := source.Read(ctx, show)
	if err != nil {
		return nil, err
	}
	return planFrom(rows)
}

func (c *shadowRunCommand) leadFile() string { return filepath.Join(c.Data, "lead") }

// leader returns the side that leads: the last one, and at first the flag's.
func (c *shadowRunCommand) leader() (shadow.Side, error) {
	if err := os.MkdirAll(c.Data, 0o700); err != nil {
		return 0, err
	}
	text, err := os.ReadFile(c.leadFile())
	if errors.Is(err, os.ErrNotExist) {
		lead := shadow.Sides[c.LeadNow] // the first side if nothing is said
		return lead, c.remember(lead)
	}
	if err != nil {
		return 0, err
	}
	name := strings.TrimSpace(string(text))
	lead, known := shadow.Sides[name]
	if !known {
		return 0, fmt.Errorf("%s holds %q, and neither placement nor allot: write there who led last", c.leadFile(), name)
	}
	return lead, nil
}

// leadAgain is how long it is until a change of the lead at the start is tried again.
const leadAgain = 2 * time.Second

// follow makes the side lead that --lead names. If the other one led last, it has writes
// that this one may lack, so it leads until both are equal.
func (c *shadowRunCommand) follow(ctx context.Context, proxy *shadow.Shadow, logger *slog.Logger) {
	want, named := shadow.Sides[c.LeadNow]
	if !named {
		return
	}
	for told := ""; proxy.Lead() != want; {
		err := proxy.SwitchTo(ctx, want)
		if err == nil || ctx.Err() != nil {
			return
		}
		if err.Error() != told {
			told = err.Error()
			logger.Warn("the other side led last, and goes on until both are equal", "lead", proxy.Lead().String(),
				"wanted", want.String(), "error", err)
		}
		select {
		case <-time.After(leadAgain):
		case <-ctx.Done():
		}
	}
}

func (c *shadowRunCommand) remember(lead shadow.Side) error {
	return durable.Replace(c.leadFile(), []byte(lead.String()+"\n"))
}

type shadowLeadCommand struct {
	Side  string        `arg:"" enum:"placement,allot" help:"placement or allot."`
	Admin string        `help:"The proxy's --admin." default:"127.0.0.1:8780" placeholder:"HOST:PORT"`
	Wait  time.Duration `help:"How long to wait for the comparison of everything, and for the follower." default:"30m" least:"1s"`
}

// Run asks the running proxy to change the lead.
func (c *shadowLeadCommand) Run(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, c.Wait)
	defer cancel()
	address := url.URL{Scheme: "http", Host: c.Admin}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address.JoinPath("shadow/lead", c.Side).String(), nil)
	if err != nil {
		return err
	}
	watching, stop := context.WithCancel(ctx)
	go c.tell(watching, cli.NewClient(&address, "", nil))
	answer, err := http.DefaultClient.Do(req)
	stop()
	if err != nil {
		return fmt.Errorf("no answer of the proxy at --admin %s; look at http://%s/shadow: %w", c.Admin, c.Admin, err)
	}
	defer func() { _ = answer.Body.Close() }() // nothing was written
	text, err := io.ReadAll(io.LimitReader(answer.Body, cli.MaxAnswerBytes))
	if err != nil {
		return err
	}
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("the lead stays: %s: %s", answer.Status, text)
	}
	fmt.Printf("%s leads\n", c.Side)
	return nil
}

// tellEvery is the time between two questions how far a change of the lead is.
const tellEvery = 2 * time.Second

// tell prints what the proxy is at until the context ends. What is wrong the change itself says.
func (c *shadowLeadCommand) tell(ctx context.Context, proxy *cli.Client) {
	tick := time.Tick(tellEvery)
	for last := ""; ; {
		select {
		case <-tick:
		case <-ctx.Done():
			return
		}
		var status shadow.Status
		_, err := proxy.ReadJSON(ctx, cli.Request{Path: "/shadow"}, &status)
		if err == nil && status.UnderWay != "" && status.UnderWay != last {
			last = status.UnderWay
			fmt.Fprintln(os.Stderr, last)
		}
	}
}
