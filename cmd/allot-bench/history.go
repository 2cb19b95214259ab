package main

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/allot-project/allot/api/client"
	"github.com/allot-project/allot/cmd/internal/cli"
	"github.com/allot-project/allot/cmd/internal/datafolder"
	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/ledger"
)

// benchHistoryCommand is "allot-bench history": a long history of consumers who come and go, made as fast as it
// goes; how much each store has of it, and how long questions about its past take.
type benchHistoryCommand struct {
	serverFlags `embed:""`

	Data      string `help:"Data folder, which stays. A folder that has a history from this command gets a longer one." required:"" type:"path" placeholder:"DIR"`
	Commands  int64  `help:"Commands to add: each consumer's allocation, and its release; 0: only ask about the history that is there." default:"1000000" least:"0"`
	Live      int64  `help:"Consumers that hold something at a time." default:"10000" least:"1"`
	Providers int    `help:"Providers that they hold it from." default:"1000" least:"1"`
	UnderWay  int    `name:"under-way" help:"Commands under way at a time." default:"4096" least:"1"`
	Questions int    `help:"Questions of each kind about random consumers, asked over HTTP, one after the other, twice; 0: none." default:"1000" least:"0"`

	Serve []string `arg:"" optional:"" help:"Flags for the server, after --, such as -- --archive file:///srv/archive."`
}

// Connections of the load, which share the commands under way.
const historyConnections = 8

// historySlices is how often the command tells how far it is.
const historySlices = 10

// Run makes the history, and measures.
func (c *benchHistoryCommand) Run(ctx context.Context) (err error) {
	begun := time.Now()
	s, err := c.start(ctx, c.Data, c.Serve...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	fmt.Printf("started in %v\n", time.Since(begun).Round(time.Millisecond))
	clients, closeAll, err := connect(s.nats, historyConnections)
	if err != nil {
		return err
	}
	defer closeAll()
	ask := questionsTo(s.http)
	from, err := ask.consumers(ctx)
	if err != nil {
		return err
	}
	if err := c.prepare(ctx, clients[0]); err != nil {
		return err
	}
	to, err := c.extend(ctx, s, clients, from)
	if err != nil {
		return err
	}
	return c.ask(ctx, ask, to)
}

// historyID returns the id of a thing of the history.
func historyID(kind string, n int64) (id ledger.UUID) {
	sum := sha256.Sum256(binary.BigEndian.AppendUint64([]byte(kind), uint64(n)))
	copy(id[:], sum[:])
	id[6], id[8] = id[6]&0x0f|0x80, id[8]&0x3f|0x80 // version 8: custom
	return id
}

func (c *benchHistoryCommand) prepare(ctx context.Context, allot *client.Client) error {
	for n := range int64(c.Providers) {
		id := historyID("provider", n)
		for _, command := range []commands.Command{
			&commands.CreateProvider{Provider: id, Name: fmt.Sprint("bench-history-", n)},
			&commands.ReplaceInventories{Provider: id, Inventories: []commands.Inventory{
				{Class: "VCPU", Total: ledger.MaxAmount}, {Class: "MEMORY_MB", Total: ledger.MaxAmount},
				{Class: "DISK_GB", Total: ledger.MaxAmount},
			}},
		} {
			if _, err := allot.Submit(ctx, command); isRejection(err) { // a run before this one has made it
				break
			} else if err != nil {
				return err
			}
		}
	}
	return nil
}

// extend adds the commands, from a consumer on, and returns how many consumers there were then.
func (c *benchHistoryCommand) extend(
	ctx context.Context, s *server, clients []*client.Client, from int64,
) (to int64, err error) {
	to = from + c.Commands/2
	fmt.Printf("%14s %10s %10s  bytes in each store\n", "commands", "a second", "longest s")
	for slice := range int64(historySlices) {
		low, high := from+(to-from)*slice/historySlices, from+(to-from)*(slice+1)/historySlices
		if low == high {
			continue
		}
		begun := time.Now()
		longest, err := c.comeAndGo(ctx, clients, low, high)
		if err != nil {
			return 0, err
		}
		rate := float64(2*(high-low)) / time.Since(begun).Seconds()
		fmt.Printf("%14d %10.0f %10.2f  %s\n", 2*high, rate, longest.Seconds(), c.storesLine(s))
	}
	return to, nil
}

// storesLine tells how much is in each folder of the ledger, in archives that are folders, and
// in the server's memory.
func (c *benchHistoryCommand) storesLine(s *server) string {
	var line strings.Builder
	var folders []string
	for _, name := range []string{datafolder.Log, datafolder.ReadModels, datafolder.Snapshots} {
		folders = append(folders, filepath.Join(c.Data, name))
	}
	for _, arg := range c.Serve {
		if _, folder, is := strings.Cut(arg, "file://"); is {
			folders = append(folders, folder)
		}
	}
	for _, folder := range folders {
		bytes, err := datafolder.BytesIn(folder)
		if err != nil {
			fmt.Fprintf(&line, "%s: %v, ", folder, err)
			continue
		}
		fmt.Fprintf(&line, "%s %d, ", filepath.Base(folder), bytes)
	}
	fmt.Fprintf(&line, "memory %d", s.residentMemory())
	return line.String()
}

// comeAndGo has consumers come, and as many go that came before. It returns how long the slowest command took.
func (c *benchHistoryCommand) comeAndGo(
	ctx context.Context, clients []*client.Client, from, to int64,
) (longest time.Duration, _ error) {
	taken := newTimings()
	err := taken.run(ctx, c.UnderWay, below(int(2*(to-from))), func(ctx context.Context, n int) error {
		consumer := from + int64(n/2)
		command := c.allocation(consumer)
		if n%2 == 1 {
			if consumer < c.Live {
				return nil
			}
			command = &commands.ReleaseConsumer{Consumer: historyID("consumer", consumer-c.Live)}
		}
		// It is sent again, with the same id, until it is answered.
		if _, err := clients[n%len(clients)].Submit(ctx, command); err != nil {
			return fmt.Errorf("consumer %d: %w", consumer, err)
		}
		return nil
	})
	return time.Duration(taken.millis(100) * float64(time.Millisecond)), err
}

func (c *benchHistoryCommand) allocation(n int64) commands.Command {
	consumer := historyID("consumer", n)
	provider := historyID("provider", n%int64(c.Providers))
	size := 1 + n%8
	instance := "INSTANCE"
	return &commands.AllocateForConsumers{Allocations: []commands.ConsumerAllocations{{
		Consumer: consumer, AnyGeneration: true, Type: &instance,
		Project: historyID("project", n%200).String(), User: historyID("user", n%200).String(),
		Resources: []commands.ProviderAllocation{
			{Provider: provider, Class: "VCPU", Amount: size}, {Provider: provider, Class: "MEMORY_MB", Amount: 1024 * size},
			{Provider: provider, Class: "DISK_GB", Amount: 10 * size},
		},
	}}}
}

// ask asks about random consumers, and the same again.
func (c *benchHistoryCommand) ask(ctx context.Context, q historyQuestions, consumers int64) error {
	if consumers == 0 || c.Questions == 0 {
		return nil
	}
	fmt.Printf("%-44s %9s %9s %9s\n", "questions about the past", "p50 ms", "p99 ms", "most ms")
	random := rand.Perm(int(min(consumers, 1<<30)))[:min(int64(c.Questions), consumers)]
	for _, when := range []string{"the first time", "again"} {
		histories, held := newTimings(), newTimings()
		for _, n := range random {
			came, err := q.came(ctx, int64(n), histories)
			if err == nil {
				err = q.held(ctx, int64(n), came, held)
			}
			if err != nil {
				return err
			}
		}
		for _, one := range []struct {
			what  string
			taken *timings
		}{{"history of a consumer", histories}, {"what it held when it came", held}} {
			fmt.Printf("%-44s %9.2f %9.2f %9.2f\n", one.what+", "+when,
				one.taken.millis(50), one.taken.millis(99), one.taken.millis(100))
		}
	}
	return nil
}

type historyQuestions struct{ server *cli.Client }

func questionsTo(address string) historyQuestions {
	return historyQuestions{cli.NewClient(&url.URL{Scheme: "http", Host: address}, "admin", nil)}
}

func (q historyQuestions) consumers(ctx context.Context) (int64, error) {
	var failure error
	n := sort.Search(1<<40, func(n int) bool {
		if failure != nil {
			return true
		}
		var entries []historyEntry
		entries, failure = q.history(ctx, int64(n), newTimings())
		return len(entries) == 0
	})
	return int64(n), failure
}

type historyEntry struct {
	Address, Command string
}

func (q historyQuestions) history(ctx context.Context, n int64, taken *timings) ([]historyEntry, error) {
	var page struct{ Entries []historyEntry }
	query := url.Values{"consumer": {historyID("consumer", n).String()}}
	err := q.get(ctx, cli.Request{Path: "/audit/history", Query: query}, &page, taken)
	return page.Entries, err
}

func (q historyQuestions) came(ctx context.Context, n int64, taken *timings) (uint64, error) {
	entries, err := q.history(ctx, n, taken)
	if err != nil {
		return 0, err
	}
	if len(entries) == 0 || entries[len(entries)-1].Command != "AllocateForConsumers" {
		return 0, fmt.Errorf("the history of consumer %d does not begin with its allocation: %v", n, entries)
	}
	sequence, _, _ := strings.Cut(entries[len(entries)-1].Address, ".")
	return strconv.ParseUint(sequence, 10, 64)
}

// held asks what a consumer held as of a sequence, and compares it with what it was given.
func (q historyQuestions) held(ctx context.Context, n int64, at uint64, taken *timings) error {
	var answer struct {
		Allocations map[string]struct{ Resources map[string]int64 }
	}
	path, query := "/allocations/"+historyID("consumer", n).String(), url.Values{"at": {fmt.Sprint(at)}}
	if err := q.get(ctx, cli.Request{Path: path, Query: query}, &answer, taken); err != nil {
		return err
	}
	for _, one := range answer.Allocations {
		if len(answer.Allocations) == 1 && one.Resources["VCPU"] == 1+n%8 {
			return nil
		}
	}
	return fmt.Errorf("as of %d consumer %d held %v, and was given %d VCPU", at, n, answer.Allocations, 1+n%8)
}

func (q historyQuestions) get(ctx context.Context, request cli.Request, answer any, taken *timings) error {
	begun := time.Now()
	_, err := q.server.ReadJSON(ctx, request, answer)
	return errors.Join(err, taken.record(begun))
}
