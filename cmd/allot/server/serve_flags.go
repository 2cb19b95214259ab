package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/allot-project/allot/api/placement"
	"github.com/allot-project/allot/api/rest"
	"github.com/allot-project/allot/cmd/allot/server/vitals"
	"github.com/allot-project/allot/cmd/internal/cli"
	"github.com/allot-project/allot/cmd/internal/datafolder"
	"github.com/allot-project/allot/ledger/archive"
	"github.com/allot-project/allot/ledger/system"
	"github.com/allot-project/allot/projector/candidates"
)

// Command is "allot serve".
type Command struct {
	Data string `help:"Folder of the log, the read models and the snapshots." default:"data" type:"path" usual:""`
	HTTP string `name:"http" help:"HOST:PORT of the REST API." default:"127.0.0.1:8778" usual:""`
	NATS string `name:"nats" help:"HOST:PORT of the embedded NATS server for clients. Empty keeps it inside the process, and so does --keystone-url without --nats-users." default:"127.0.0.1:4222" usual:""`

	TrustedProxy []rest.ProxyRange `name:"trusted-proxy" help:"Address or network of a proxy whose headers (Forwarded, X-Forwarded-Proto, -Host, -Prefix) say how clients called the server." placeholder:"ADDRESS" group:"Proxies and browsers:"`

	NATSURL            string        `name:"nats-url" help:"Use this NATS server instead of the embedded one." placeholder:"URL" usual:"" group:"NATS:"`
	NATSCreds          string        `name:"nats-creds" help:"Credentials file for --nats-url." type:"path" placeholder:"FILE" group:"NATS:"`
	NATSDoorURL        string        `name:"nats-door-url" help:"URL and user for client traffic and notices; default: --nats-url." placeholder:"URL" group:"NATS:"`
	NATSDoorCreds      string        `name:"nats-door-creds" help:"Credentials file for --nats-door-url; default: --nats-creds unless there is a --nats-door-url." type:"path" placeholder:"FILE" group:"NATS:"`
	NATSUsers          string        `name:"nats-users" help:"YAML file of the users of the embedded NATS server; without it every client has operator rights." type:"existingfile" placeholder:"FILE" usual:"" group:"NATS:"`
	NATSReplicas       int           `name:"nats-replicas" help:"Replicas of a stream that is created behind --nats-url; default: 3 if that is a cluster." default:"0" group:"NATS:"`
	LazySync           bool          `help:"Let the embedded NATS server sync every two minutes. Faster; a power cut loses answered commands." group:"NATS:"`
	AllowedHost        []string      `name:"allowed-host" help:"Name, beside localhost and addresses of this machine, that requests may call the server by." placeholder:"NAME" group:"Proxies and browsers:"`
	AllowNoauth        bool          `help:"Serve without authentication on an address that other machines can reach." usual:"" group:"Authentication:"`
	Cluster            clusterFlags  `embed:"" group:"Cluster:"`
	TLS                cli.TLSFlags  `embed:"" prefix:"tls-" group:"TLS:"`
	Keystone           keystoneFlags `embed:"" prefix:"keystone-" group:"Authentication:"`
	UnifiedLimits      string        `help:"Make the ledger's limits those of Keystone, each minute: of this service, by its id, and of a region if it is SERVICE@REGION. Then limits are not to be set in the ledger." placeholder:"SERVICE" group:"Authentication:"`
	CORSAllowedOrigin  []string      `name:"cors-allowed-origin" help:"Origins of web pages that may use the API; default: none, so cross-origin requests are refused." placeholder:"ORIGIN" group:"Proxies and browsers:"`
	PolicyFile         string        `help:"YAML file in oslo.policy's form with rules that replace Placement's own." type:"existingfile" placeholder:"FILE" group:"Authentication:"`
	EnforceNewDefaults bool          `help:"Leave out the policy rules that Placement has deprecated. Reshapes are then for services only." group:"Authentication:"`
	MaxCandidates      int           `help:"Largest number of candidates in one answer; 0: no bound." default:"0" group:"Answers:"`
	CandidatesOrder    string        `help:"Order of candidates. depth-first: all candidates of a tree before those of the next tree; breadth-first: from each tree in turn; random: any." enum:"depth-first,breadth-first,random" default:"depth-first" group:"Answers:"`

	NodeProviders bool   `help:"Make each bare metal node a resource provider, too, with an inventory of one unit of its class." group:"Answers:"`
	BaremetalURL  string `name:"baremetal-url" help:"Beginning of the links in answers of the bare metal API; default: the host that the client named, with /baremetal." placeholder:"URL" group:"Answers:"`

	SigningKey string   `help:"File with a private key that allot signing-key made. The server signs checkpoints of the log with it." type:"existingfile" placeholder:"FILE" usual:"" group:"Archives and checkpoints:"`
	Witness    []string `help:"Public key of a witness, a blank, and its URL (c2sp.org/tlog-witness): signed checkpoints of now are answered only with the cosignatures of more than half of them. May be repeated." placeholder:"\"VKEY URL\"" sep:"none" group:"Archives and checkpoints:"`

	Metrics string `help:"HOST:PORT that serves /metrics in Prometheus's format, without a token; empty: none." placeholder:"HOST:PORT" usual:"" group:"Messages, metrics and traces:"`

	DiskReserve vitals.DiskReserve `help:"Refuse commands while the disk of the data folder has less free space than this, such as 256MiB; auto: 256MiB, but at most a fiftieth of the disk." default:"auto" placeholder:"SIZE"`

	Archive []string  `help:"Archive the log there in the background: file:///FOLDER, or s3://BUCKET/PREFIX?endpoint=HOST:PORT with keys from AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY. May be repeated." placeholder:"URL" usual:"" group:"Archives and checkpoints:"`
	Pace    paceFlags `embed:"" prefix:"pace-"`

	Check bool `help:"Check the settings, the files that they name, the data folder and the addresses, and end without serving." usual:""`

	configFile string       // that the settings are from; empty: none
	Log        cli.LogFlags `embed:"" prefix:"log-" group:"Messages, metrics and traces:"`
	Trace      traceFlags   `embed:"" prefix:"trace-" group:"Messages, metrics and traces:"`
}

// check refuses settings that are dangerous or contradict each other.
func (c *Command) check() error {
	local, err := cli.IsLocal(c.HTTP)
	if err != nil {
		return fmt.Errorf("--http: %w", err)
	}
	if !local && c.Keystone.URL == "" && !c.AllowNoauth {
		return fmt.Errorf("other machines can reach --http %s, and requests are not authenticated: "+
			"name a Keystone with --keystone-url, bind 127.0.0.1 behind an authenticating proxy, or accept the risk with --allow-noauth", c.HTTP)
	}
	if _, err := archive.OpenURLs(c.Archive); err != nil {
		return fmt.Errorf("--archive: %w", err)
	}
	if _, err := c.witnesses(); err != nil {
		return err
	}
	if err := cmp.Or(c.Trace.check(), c.checkURLs()); err != nil {
		return err
	}
	if err := c.Cluster.fill(c.Data, c.NATSURL != ""); err != nil {
		return err
	}
	if c.Cluster.REST = "http://" + c.Cluster.reached(c.HTTP); c.TLS.Cert != "" {
		c.Cluster.REST = "https://" + c.Cluster.reached(c.HTTP)
	}
	if c.NATSURL != "" && c.NATSUsers != "" {
		return errors.New("--nats-users is for the embedded NATS server, but the server of --nats-url has its own users: give only one of the two")
	}
	if c.NATSURL != "" || c.NATS == "" {
		return nil
	}
	if local, err = cli.IsLocal(c.NATS); err != nil {
		return fmt.Errorf("--nats: %w", err)
	}
	if c.NATS != defaultNATS && c.natsIsBackDoor() {
		return fmt.Errorf("--keystone-url authenticates requests over REST, but at --nats %s every client is an operator: "+
			"name users with --nats-users, keep NATS in the process with --nats \"\", or accept the risk with --allow-noauth", c.NATS)
	}
	if !local && c.NATSUsers == "" && !c.AllowNoauth {
		return fmt.Errorf("other machines can reach --nats %s, and clients are not authenticated: "+
			"name users with --nats-users, bind 127.0.0.1, or accept the risk with --allow-noauth", c.NATS)
	}
	return nil
}

// mayTake reports whether there is a source of copies of State and read models.
func (c *Command) mayTake() bool { return c.Cluster.givesCopies() || len(c.Archive) > 0 }

// defaultNATS is where clients find NATS if nothing is said.
const defaultNATS = "127.0.0.1:4222"

// natsIsBackDoor reports whether every client that reaches NATS would be an
// operator, although Keystone must know the clients of REST.
func (c *Command) natsIsBackDoor() bool {
	return c.Keystone.URL != "" && c.NATSUsers == "" && c.NATSURL == "" && c.NATS != "" && !c.AllowNoauth
}

// candidatesBudget is the largest amount of work for one request for candidates: how many
// providers, combinations and parts of candidates it may examine. That takes some seconds.
const candidatesBudget = 50_000_000

// candidateOptions returns the bounds and the order of answers to requests for candidates.
func (c *Command) candidateOptions() placement.CandidateOptions {
	options := placement.CandidateOptions{
		Max: c.MaxCandidates, MaxSteps: candidatesBudget, Shuffle: c.CandidatesOrder == "random",
	}
	if c.CandidatesOrder == "breadth-first" {
		options.Order = candidates.BreadthFirst
	}
	return options
}

// rehearse makes the checks of a start that can be made beside a running ledger's
// files, and changes nothing. It prints warnings, and returns every fault.
func (c *Command) rehearse(out io.Writer) error {
	faults := []error{c.check()}
	if faults[0] == nil {
		files := &accessPart{server: &server{config: c, logger: slog.New(slog.DiscardHandler)}}
		_, signer := cli.LoadSigner(c.SigningKey)
		faults = append(faults, files.start(context.Background()), signer, c.checkFolder())
		faults = append(faults, c.checkAddresses()...)
	}
	for _, file := range c.exposed() {
		_, err := fmt.Fprintf(out, "warning: every user of this machine can read %s: chmod o-rwx %s\n", file, file)
		faults = append(faults, err)
	}
	if err := errors.Join(faults...); err != nil {
		return err
	}
	_, err := fmt.Fprintln(out, "the server can start with these settings")
	return err
}

func (c *Command) checkFolder() error {
	folder := c.Data
	info, err := os.Stat(folder)
	for errors.Is(err, fs.ErrNotExist) && folder != filepath.Dir(folder) {
		folder = filepath.Dir(folder)
		info, err = os.Stat(folder)
	}
	switch {
	case err != nil:
		return fmt.Errorf("--data %s: %w", c.Data, err)
	case !info.IsDir():
		return fmt.Errorf("--data %s: %s is a file: name a folder", c.Data, folder)
	}
	if err := system.Writable(folder); err != nil {
		return fmt.Errorf("--data %s: this user cannot write in %s: run this as the server's user, or change the owner of the folder", c.Data, folder)
	}
	data, err := datafolder.Look(c.Data)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	data.External = c.NATSURL != ""
	return cmp.Or(err, data.MayStart(c.Cluster.on()))
}

func (c *Command) checkAddresses() (faults []error) {
	nats := c.NATS // of the embedded server
	if c.NATSURL != "" || c.natsIsBackDoor() {
		nats = ""
	}
	for _, one := range []struct{ flag, address string }{
		{"--http", c.HTTP}, {"--metrics", c.Metrics}, {"--nats", nats}, {"--cluster-listen", c.Cluster.Listen},
		{"--cluster-http", c.Cluster.HTTP},
	} {
		if one.address == "" {
			continue
		}
		listener, err := net.Listen("tcp", one.address)
		if err != nil {
			faults = append(faults, fmt.Errorf("%s %s: %w", one.flag, one.address, err))
			continue
		}
		defer func() { _ = listener.Close() }() // at the end: two flags may name one address
	}
	return faults
}

// exposed lists files with secrets that every user of the machine can read.
func (c *Command) exposed() (files []string) {
	for _, path := range []string{
		c.configFile, c.TLS.Key, c.Cluster.keyFile(), c.Cluster.Secret, c.SigningKey, c.NATSUsers, c.NATSCreds,
		c.NATSDoorCreds,
	} {
		info, err := os.Stat(cmp.Or(path, os.DevNull))
		if err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o004 != 0 {
			files = append(files, path)
		}
	}
	return files
}

// checkURLs refuses what is no URL. Whether a server answers there is found out later, because it may start
// after this one.
func (c *Command) checkURLs() error {
	for _, one := range []struct{ flag, text, schemes, example string }{
		{"--keystone-url", c.Keystone.URL, "http https", "https://keystone.example:5000/v3"},
		{"--keystone-public-url", c.Keystone.PublicURL, "http https", "https://keystone.example:5000/v3"},
		{"--nats-url", c.NATSURL, "nats tls ws wss", "nats://nats.example:4222"},
		{"--nats-door-url", c.NATSDoorURL, "nats tls ws wss", "nats://nats.example:4222"},
	} {
		for text := range strings.SplitSeq(one.text, ",") { // nats.go takes several, and HOST:PORT
			if strings.HasPrefix(one.flag, "--nats") && !strings.Contains(text, "://") {
				continue
			}
			target, err := url.Parse(text)
			if text != "" && (err != nil || target.Host == "" || !slices.Contains(strings.Fields(one.schemes), target.Scheme)) {
				return fmt.Errorf("%s %q is no URL such as %s", one.flag, redacted(text), one.example)
			}
		}
	}
	return nil
}
