package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/allot-project/allot/commands/cluster"
	"github.com/allot-project/allot/ledger/jetstream"
)

// clusterCommand is "allot cluster".
type clusterCommand struct {
	Status   clusterStatusCommand   `cmd:"" help:"Print the servers of a cluster, the leader, and how far each server is behind."`
	StepDown clusterStepDownCommand `cmd:"" name:"step-down" help:"Make another server lead; requests wait meanwhile."`
	Remove   clusterRemoveCommand   `cmd:"" help:"Forget a server that will not come back."`
}

// clusterStatusCommand is "allot cluster status".
type clusterStatusCommand struct {
	serverFlags
	JSON bool `name:"json" help:"Print JSON."`
}

// Run prints a server's status of the whole cluster.
func (c *clusterStatusCommand) Run(ctx context.Context) error {
	text, err := c.read(ctx, clusterPath, nil)
	if err != nil {
		return err
	}
	if c.JSON {
		_, err = fmt.Println(string(text))
		return err
	}
	status, err := answerIn[cluster.Status](text)
	if err != nil {
		return err
	}
	return printStatus(os.Stdout, *status)
}

func printStatus(w io.Writer, s cluster.Status) error {
	var text bytes.Buffer
	fmt.Fprintf(&text, "leader  %s\nterm    %d\nlevel   %d\nstream  led by %s\n",
		cmp.Or(s.Leader, "none: commands wait"), s.Term, s.Level, cmp.Or(s.Stream.Leader, "none"))
	if n := len(s.Streams); n > 0 {
		fmt.Fprintf(&text, "log     from sequence %d on, in streams: %d\n", s.Streams[0].First, n)
	}
	text.WriteByte('\n')
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	row := func(cells ...any) error {
		_, err := fmt.Fprintf(table, "%v\t%v\t%v\t%v\t%v\t%v\t%v\t%v\n", cells...)
		return err
	}
	err := row("NAME", "ROLE", "HTTP", "SEQUENCE", "LAG", "BEHIND", "VERSION", "UP")
	for _, m := range s.Members {
		behind := time.Duration(m.LagSeconds * float64(time.Second)).Round(time.Millisecond)
		up := time.Since(time.Unix(m.Since, 0)).Round(time.Second)
		role := m.Role
		if m.Joining != nil {
			role = fmt.Sprintf("%s (%d of %d MiB from %s)", role, m.Joining.Bytes>>20, m.Joining.Of>>20, m.Joining.From)
		}
		err = errors.Join(err, row(m.Name, role, m.HTTP, m.Sequence, m.LagCommits, behind, m.Version, up))
	}
	if err := errors.Join(err, table.Flush()); err != nil {
		return err
	}
	for _, m := range s.Members {
		for _, reason := range m.Unsafe {
			fmt.Fprintf(&text, "\nNot safe, says %s: %s\n", m.Name, reason)
		}
	}
	for i := range s.Streams[:max(len(s.Streams)-1, 0)] {
		older := &s.Streams[i]
		printPeers(&text, "Stream "+older.Stream, "Stream "+older.Stream, older.Peers, s.Members)
	}
	printPeers(&text, "The log", "The stream", s.Stream, s.Members)
	if s.Problem != "" {
		fmt.Fprintf(&text, "\nThis status is incomplete: %s\n", s.Problem)
	}
	_, err = w.Write(text.Bytes())
	return err
}

// printPeers tells of a stream's servers that lack something of it. Those of an external
// NATS are not called as members are, and none of them is to join.
func printPeers(text *bytes.Buffer, log, stream string, peers jetstream.Peers, members []cluster.Member) {
	member := func(name string) bool {
		return slices.ContainsFunc(members, func(m cluster.Member) bool { return m.Name == name })
	}
	ours := func(p jetstream.Peer) bool { return member(p.Name) }
	outside := !member(peers.Leader) && !slices.ContainsFunc(peers.Others, ours)
	for _, p := range peers.Others {
		switch {
		case !outside && !member(p.Name) && !p.Current:
			fmt.Fprintf(text, "\n%s has a place on server %s, which is gone: start one of that name with an empty folder.\n", log, p.Name)
		case p.Offline:
			fmt.Fprintf(text, "\n%s's server %s is away.\n", stream, p.Name)
		case !p.Current:
			fmt.Fprintf(text, "\n%s's server %s lags by %d messages.\n", stream, p.Name, p.Lag)
		}
	}
}

// clusterStepDownCommand is "allot cluster step-down".
type clusterStepDownCommand struct {
	serverFlags
	To string `help:"Name of the server to lead; default: the server that lags least." placeholder:"NAME"`
}

// Run asks the leader to step down, and waits until another server leads.
func (c *clusterStepDownCommand) Run(ctx context.Context) error {
	before, err := c.leader(ctx)
	if err != nil {
		return err
	}
	if err := c.wish(ctx, stepDownPath, wish{To: c.To}); err != nil {
		return err
	}
	for limit := time.Now().Add(stepDownWait); time.Now().Before(limit); time.Sleep(stepDownLook) {
		now, err := c.leader(ctx)
		if err == nil && now.Leader != "" && now.Term != before.Term {
			if now.Leader == before.Leader || c.To != "" && now.Leader != c.To {
				return fmt.Errorf("%s leads, in term %d, because it was faster: ask again", now.Leader, now.Term)
			}
			fmt.Printf("%s leads, in term %d\n", now.Leader, now.Term)
			return nil
		}
	}
	return fmt.Errorf("%s was asked to step down, but no other server leads after %v: see allot cluster status", before.Leader, stepDownWait)
}

const (
	stepDownWait = 15 * time.Second
	stepDownLook = 20 * time.Millisecond
)

// leader asks a server for the name of the leader.
func (c *clusterStepDownCommand) leader(ctx context.Context) (h health, err error) {
	resp, err := c.get(ctx, healthPath, nil)
	if err != nil {
		return h, err
	}
	defer func() { _ = resp.Body.Close() }() // the answer was read
	return h, json.NewDecoder(resp.Body).Decode(&h)
}

// clusterRemoveCommand is "allot cluster remove".
type clusterRemoveCommand struct {
	serverFlags
	Name string `arg:"" help:"Name of the server."`
}

// Run asks the cluster to forget the server.
func (c *clusterRemoveCommand) Run(ctx context.Context) error {
	if err := c.wish(ctx, removePath, wish{Name: c.Name}); err != nil {
		return err
	}
	fmt.Printf("%s is forgotten\n", c.Name)
	return nil
}

// wish sends a request of an operator. The server answers once it has carried it
// out.
func (s serverFlags) wish(ctx context.Context, path string, body wish) error {
	resp, err := s.send(ctx, http.MethodPost, path, nil, body)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }() // the answer was read
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswerBytes))
	if err != nil {
		return err
	}
	done, err := answerIn[wish](text)
	if err != nil {
		return err
	}
	if *done != body {
		return fmt.Errorf("the server did not do what it was asked: %+v", *done)
	}
	return nil
}
