package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/jetstream"
)

// doctorCommand is "allot doctor": it finds what would keep a server with these
// flags from serving well. It changes nothing.
type doctorCommand struct {
	serveCommand `embed:""`
	JSON         bool `name:"json" help:"Print the findings as JSON, one a line."`
}

// The kinds of findings.
const (
	findingFine    = "ok"
	findingWarning = "warning"
	findingFault   = "fault"
)

// diagnosis is one finding, and what to do about it.
type diagnosis struct {
	What    string `json:"what"`
	Finding string `json:"finding"` // ok, warning or fault
	Says    string `json:"says"`
	Do      string `json:"do,omitempty"`
}

func fault(what string, err error, do string) diagnosis {
	return diagnosis{what, findingFault, err.Error(), do}
}

// errUnwell means that the doctor has found a fault.
var errUnwell = errors.New("something would keep the server from serving; see above")

// doctorWait is how long each question to another server may take.
const doctorWait = 5 * time.Second

// Run prints the findings. It fails if one of them is a fault.
func (c *doctorCommand) Run(ctx context.Context) error {
	unwell := false
	for _, look := range []func(context.Context) []diagnosis{
		c.flags, c.folder, c.disk, c.limits, c.clock, c.certificates, c.doors, c.natsServer, c.keystone, c.peers,
	} {
		for _, f := range look(ctx) {
			unwell = unwell || f.Finding == findingFault
			if err := c.tell(f); err != nil {
				return err
			}
		}
	}
	if unwell {
		return errUnwell
	}
	return nil
}

func (c *doctorCommand) tell(f diagnosis) error {
	if c.JSON {
		return ledger.PlainEncoder(os.Stdout).Encode(f)
	}
	_, err := fmt.Printf("%-8s %-14s %s\n", f.Finding, f.What, f.Says)
	if err == nil && f.Do != "" {
		_, err = fmt.Printf("%-8s %-14s -> %s\n", "", "", f.Do)
	}
	return err
}

// flags makes the server's own checks of its flags.
func (c *doctorCommand) flags(context.Context) []diagnosis {
	checked := c.serveCommand // check completes missing flags
	if err := checked.check(); err != nil {
		return []diagnosis{fault("flags", err, "change the flag, or the file that --config names")}
	}
	return []diagnosis{{"flags", findingFine, "they agree with each other", ""}}
}

// folder checks the permissions of the data folder.
func (c *doctorCommand) folder(context.Context) []diagnosis {
	info, err := os.Stat(c.Data)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return []diagnosis{{"data folder", findingFine, c.Data + " is not there yet: the first start makes it", ""}}
	case err != nil:
		return []diagnosis{fault("data folder", err, "let the server's user in, or name another with --data")}
	case !info.IsDir():
		return []diagnosis{{"data folder", findingFault, c.Data + " is no folder", "name another with --data"}}
	}
	if err := unix.Access(c.Data, unix.R_OK|unix.W_OK|unix.X_OK); err != nil {
		return []diagnosis{fault("data folder", fmt.Errorf("%s cannot be written by this user: %w", c.Data, err),
			"run this as the server's user; chown -R allot "+c.Data)}
	}
	if info.Mode().Perm()&0o007 != 0 {
		return []diagnosis{{"data folder", findingWarning,
			fmt.Sprintf("%s can be entered by anybody (%v)", c.Data, info.Mode().Perm()),
			"chmod o-rwx " + c.Data}}
	}
	return []diagnosis{{"data folder", findingFine, c.Data + " is closed to others", ""}}
}

// Bounds of what the doctor calls slow, and of what no disk can do.
const (
	syncs       = 32
	slowSync    = 20 * time.Millisecond
	tooGoodSync = 10 * time.Microsecond
)

// disk measures how long a sync takes where the log would be, and the free space.
func (c *doctorCommand) disk(context.Context) []diagnosis {
	folder := c.Data
	for {
		if _, err := os.Stat(folder); err == nil || folder == filepath.Dir(folder) {
			break
		}
		folder = filepath.Dir(folder)
	}
	var disk unix.Statfs_t
	if err := unix.Statfs(folder, &disk); err != nil {
		return []diagnosis{fault("disk", err, "look at the disk of "+folder)}
	}
	free := int64(disk.Bavail) * disk.Bsize
	room := diagnosis{"disk space", findingFine, fmt.Sprintf("%d MiB free in %s", free>>20, folder), ""}
	if free < 1<<30 {
		room.Finding, room.Do = findingWarning, "make room: commands are refused below --disk-reserve"
	}
	median, err := measureSyncs(folder)
	if err != nil {
		return []diagnosis{room, fault("disk sync", err, "look at the disk of "+folder)}
	}
	synced := diagnosis{"disk sync", findingFine, fmt.Sprintf("%v in the middle of %d", median, syncs), ""}
	switch {
	case median > slowSync:
		synced.Finding, synced.Do = findingWarning, "each commit waits for one: take a faster disk for --data"
	case median < tooGoodSync:
		synced.Finding, synced.Do = findingWarning, "no disk is that fast: a power cut loses what is in memory only"
	}
	return []diagnosis{room, synced}
}

// measureSyncs returns the median time of a small write with its sync.
func measureSyncs(folder string) (_ time.Duration, err error) {
	file, err := os.CreateTemp(folder, ".allot-doctor-*")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	// The file goes at once: whatever ends the doctor, it leaves nothing behind.
	if err := os.Remove(file.Name()); err != nil {
		return 0, err
	}
	var took []time.Duration
	for range syncs {
		began := time.Now()
		if _, err := file.Write(make([]byte, 4096)); err != nil {
			return 0, err
		}
		if err := file.Sync(); err != nil {
			return 0, err
		}
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	return took[len(took)/2].Round(time.Microsecond), nil
}

// leastFiles are enough open files for many clients and the stores.
const leastFiles = 8192

// limits checks the limits of this user's processes.
func (c *doctorCommand) limits(context.Context) []diagnosis {
	var files unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &files); err != nil {
		return []diagnosis{fault("open files", err, "")}
	}
	f := diagnosis{"open files", findingFine, fmt.Sprintf("at most %d", files.Max), ""}
	if files.Max < leastFiles {
		f.Finding, f.Do = findingWarning, fmt.Sprintf("ulimit -n %d, or LimitNOFILE= of the unit", leastFiles)
	}
	return []diagnosis{f}
}

// clock asks the kernel whether anything keeps the clock right, because records
// carry its time.
func (c *doctorCommand) clock(context.Context) []diagnosis {
	var state unix.Timex
	status, err := unix.Adjtimex(&state)
	switch {
	case err != nil:
		return []diagnosis{{"clock", findingWarning, "the kernel does not say whether it is kept right: " + err.Error(), ""}}
	case status == unix.TIME_ERROR || state.Status&unix.STA_UNSYNC != 0:
		return []diagnosis{{"clock", findingWarning, "nothing keeps it right, and records carry its time",
			"run chrony or systemd-timesyncd"}}
	}
	return []diagnosis{{"clock", findingFine, "it is kept right", ""}}
}

// soon is how long before a certificate ends the operator should know.
const soon = 21 * 24 * time.Hour

// certificates checks the certificates that the server would show.
func (c *doctorCommand) certificates(context.Context) (found []diagnosis) {
	for _, pair := range []struct{ flag, cert, key string }{
		{"--tls-cert", c.TLS.Cert, c.TLS.Key}, {"--cluster-tls-cert", c.Cluster.Cert, c.Cluster.Key},
	} {
		if pair.cert == "" {
			continue
		}
		loaded, err := tls.LoadX509KeyPair(pair.cert, pair.key)
		if err != nil {
			found = append(found, fault(pair.flag, err, "give a certificate and its key in PEM"))
			continue
		}
		leaf, err := x509.ParseCertificate(loaded.Certificate[0])
		if err != nil {
			found = append(found, fault(pair.flag, err, "give a certificate and its key in PEM"))
			continue
		}
		f := diagnosis{pair.flag, findingFine, "it ends " + leaf.NotAfter.Format(time.DateOnly), ""}
		switch left := time.Until(leaf.NotAfter); {
		case left < 0:
			f.Finding, f.Do = findingFault, "renew it; the server reads a file that changed again"
		case left < soon:
			f.Finding, f.Do = findingWarning, "renew it; the server reads a file that changed again"
		}
		found = append(found, f)
	}
	return found
}

// doors checks whether the addresses are free, or who uses them.
func (c *doctorCommand) doors(ctx context.Context) (found []diagnosis) {
	addresses := []struct{ flag, address string }{{"--http", c.HTTP}, {"--metrics", c.Metrics}}
	if c.NATSURL == "" {
		addresses = append(addresses, struct{ flag, address string }{"--nats", c.NATS})
	}
	for _, one := range addresses {
		if one.address == "" {
			continue
		}
		listener, err := net.Listen("tcp", one.address)
		switch {
		case err == nil:
			_ = listener.Close() // nobody had connected
			found = append(found, diagnosis{one.flag, findingFine, one.address + " is free", ""})
		case errors.Is(err, unix.EADDRINUSE) && one.flag == "--http":
			found = append(found, c.running(ctx))
		case errors.Is(err, unix.EADDRINUSE):
			found = append(found, diagnosis{one.flag, findingFine, one.address + " is taken, as it is while a server runs", ""})
		default:
			found = append(found, fault(one.flag, err, "name an address of this machine"))
		}
	}
	return found
}

// running asks the server that has the address whether it is ready.
func (c *doctorCommand) running(ctx context.Context) diagnosis {
	ctx, cancel := context.WithTimeout(ctx, doctorWait)
	defer cancel()
	const other = "another program has it: stop that, or name another address"
	scheme := "http"
	client := http.DefaultClient
	if c.TLS.Cert != "" {
		scheme = "https"
		client = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{
			MinVersion: tls.VersionTLS12, InsecureSkipVerify: true, // it is only asked for its health
		}}}
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, scheme+"://"+c.HTTP+readyPath, http.NoBody)
	if err != nil {
		return fault("--http", err, other)
	}
	resp, err := client.Do(req)
	if err != nil {
		return fault("--http", fmt.Errorf("%s is taken, and not by Allot: %w", c.HTTP, err), other)
	}
	defer func() { _ = resp.Body.Close() }() // the answer was read
	var h health
	if err := json.NewDecoder(resp.Body).Decode(&h); err != nil || h.Role == "" {
		return diagnosis{"--http", findingFault, c.HTTP + " is taken, and not by Allot", other}
	}
	says := fmt.Sprintf("it runs at %s as %s, at sequence %d", c.HTTP, h.Role, h.Sequence)
	f := diagnosis{"server", findingFine, says, ""}
	if h.Status != fine {
		f.Finding, f.Says, f.Do = findingFault, f.Says+": "+h.Status, "look at its log"
	}
	return f
}

// natsServer checks an external NATS server, and its monitoring URLs.
func (c *doctorCommand) natsServer(ctx context.Context) (found []diagnosis) {
	if c.NATSURL == "" {
		return nil
	}
	nc, err := c.dial(c.NATSURL, c.NATSCreds, "doctor")
	if err != nil {
		return []diagnosis{fault("--nats-url", err, "start the NATS server, or mend the address or --nats-creds")}
	}
	defer nc.Close()
	found = append(found, diagnosis{"--nats-url", findingFine,
		fmt.Sprintf("nats-server %s takes messages of up to %d bytes", nc.ConnectedServerVersion(), nc.MaxPayload()), ""})
	if c.Archive.bounded() {
		if err := jetstream.CheckMayContinue(nc); err != nil {
			found = append(found, fault("--hot-log-records", err, "give the user of --nats-url all permissions of allot-log in "+
				"docs/nats-server.conf"))
		}
	}
	ctx, cancel := context.WithTimeout(ctx, doctorWait)
	defer cancel()
	if _, err := jetstream.CheckSync(ctx, c.NATSMonitor); err != nil && !c.AcceptLazySync {
		return append(found, fault("--nats-monitor", err, "set jetstream { sync_interval: always } on each server"))
	}
	return append(found, diagnosis{"--nats-monitor", findingFine, "the servers sync every write, or that was waived", ""})
}

// keystone checks that Keystone answers.
func (c *doctorCommand) keystone(ctx context.Context) []diagnosis {
	if c.Keystone.URL == "" {
		return []diagnosis{{"--keystone-url", findingWarning, "requests are not authenticated",
			"name a Keystone, unless this is a trial"}}
	}
	ctx, cancel := context.WithTimeout(ctx, doctorWait)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.Keystone.URL, http.NoBody)
	if err != nil {
		return []diagnosis{fault("--keystone-url", err, "give its URL, such as https://keystone.example:5000/v3")}
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return []diagnosis{fault("--keystone-url", err, "without it nobody is let in")}
	}
	_ = resp.Body.Close() // only an answer matters
	if resp.StatusCode >= http.StatusInternalServerError {
		return []diagnosis{{"--keystone-url", findingFault, "it answers " + resp.Status, "look at Keystone"}}
	}
	return []diagnosis{{"--keystone-url", findingFine, "it answers", ""}}
}

// peers tries to reach the other servers of a cluster.
func (c *doctorCommand) peers(ctx context.Context) (found []diagnosis) {
	for _, address := range c.Cluster.Members {
		dialer := net.Dialer{Timeout: doctorWait}
		conn, err := dialer.DialContext(ctx, "tcp", strings.TrimSpace(address))
		if err != nil {
			found = append(found, diagnosis{"--cluster", findingWarning, err.Error(),
				"it may not run yet; else look at names and firewalls"})
			continue
		}
		_ = conn.Close() // nothing was sent
		found = append(found, diagnosis{"--cluster", findingFine, address + " can be reached", ""})
	}
	return found
}
