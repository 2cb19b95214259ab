package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/allot-project/allot/ledger/embedded"
)

// clusterFlags make the server one of several that serve one ledger.
type clusterFlags struct {
	Members []string      `name:"cluster" help:"HOST:PORT where each server of the cluster listens for the others, this one's among them: the same list for all." placeholder:"HOST:PORT,..."`
	Name    string        `name:"cluster-name" help:"Name of this server among them; default: the host's." placeholder:"NAME"`
	Listen  string        `name:"cluster-listen" help:"HOST:PORT that this server listens on for the others; default: the one of --cluster that is this machine's." placeholder:"HOST:PORT"`
	Secret  string        `name:"cluster-secret-file" help:"File with what the servers prove to each other that they belong together with: the same for all, 16 bytes or more." type:"existingfile" placeholder:"FILE"`
	HTTP    string        `name:"cluster-http" help:"URL of this server's REST API for clients, to be shown; default: --http." placeholder:"URL"`
	Lease   time.Duration `name:"cluster-lease" help:"A server that leads and is silent for this long leads no more; the clocks of two servers may differ in speed by a tenth." default:"3s"`
	Wait    time.Duration `name:"cluster-wait" help:"How long requests wait for a server to lead." default:"10s"`
	Ack     time.Duration `name:"ack-timeout" help:"How long an append to a replicated log may take before it is looked for; default: 2s, and 5s with --nats-url." placeholder:"DURATION"`
}

// on reports whether there is a cluster.
func (f *clusterFlags) on() bool { return len(f.Members) > 0 }

// fill completes what was left out, and refuses what contradicts itself.
func (f *clusterFlags) fill(http string) (err error) {
	if !f.on() {
		if f.Name != "" || f.Listen != "" || f.Secret != "" {
			return errors.New("--cluster-name, --cluster-listen and --cluster-secret-file need --cluster, the list of all servers")
		}
		return nil
	}
	if f.Secret == "" {
		return errors.New("--cluster needs --cluster-secret-file: without it anybody could join, and write the log")
	}
	if f.Name == "" {
		if f.Name, err = os.Hostname(); err != nil {
			return fmt.Errorf("--cluster-name: %w", err)
		}
	}
	if strings.ContainsAny(f.Name, " \t\n.*>/\\") {
		return fmt.Errorf("--cluster-name %q: a name has no blanks, dots, stars, slashes or angle brackets", f.Name)
	}
	if f.Listen == "" {
		if f.Listen, err = f.ownAddress(); err != nil {
			return err
		}
	}
	if len(f.Members) < 3 {
		return fmt.Errorf("--cluster names %d servers: a ledger that outlives one of them needs three", len(f.Members))
	}
	if f.Lease < time.Second {
		return fmt.Errorf("--cluster-lease %v: it is renewed six times in its time, over the network and a disk: 1s or more", f.Lease)
	}
	if f.HTTP == "" {
		f.HTTP = "http://" + http
	}
	of, err := f.embedded()
	if err != nil {
		return err
	}
	return of.Check() // the server does, too, but after files were written
}

// ownAddress is the one of the list that is this machine's.
func (f *clusterFlags) ownAddress() (string, error) {
	host, err := os.Hostname()
	if err != nil {
		return "", fmt.Errorf("--cluster-listen: %w", err)
	}
	var own []string
	for _, member := range f.Members {
		name, _, _ := strings.Cut(member, ":")
		short, _, _ := strings.Cut(name, ".")
		if name == host || short == f.Name || short == host {
			own = append(own, member)
		}
	}
	if len(own) != 1 {
		return "", fmt.Errorf("which of --cluster %s is this server's? Say so with --cluster-listen", strings.Join(f.Members, ","))
	}
	return own[0], nil
}

// embedded is the cluster that the NATS server in the process belongs to; nil:
// none.
func (f *clusterFlags) embedded() (*embedded.Cluster, error) {
	if !f.on() {
		return nil, nil
	}
	secret, err := os.ReadFile(f.Secret)
	if err != nil {
		return nil, fmt.Errorf("--cluster-secret-file: %w", err)
	}
	return &embedded.Cluster{
		Member: f.Name, Listen: f.Listen, Members: slices.Clone(f.Members), Secret: strings.TrimSpace(string(secret)),
	}, nil
}

// replicas is how many replicas streams of a cluster have: three, of which one
// may be lost.
func (f *clusterFlags) replicas() int { return min(len(f.Members), 3) }
