package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"os"
	"slices"
	"time"

	"github.com/allot-project/allot/api/audit"
	"github.com/allot-project/allot/commands/wire"
	"github.com/allot-project/allot/ledger"
)

// orphansCommand is "allot orphans": it lists allocations without an owner, and
// owners without allocations.
type orphansCommand struct {
	serverFlags `embed:""`
	Consumers   string        `help:"All consumers that may hold something: a file with one uuid per line, a file with nova's list of servers as JSON, or the URL of a nova API, such as http://nova:8774/v2.1." required:"" placeholder:"FILE|URL"`
	NovaToken   string        `help:"Token for the nova API; not on the command line, where others see it." env:"OS_TOKEN" secret:""`
	Type        []string      `help:"Examine only consumers of these types; a consumer without a type has the type unknown. Default: all."`
	OlderThan   time.Duration `help:"Leave alone consumers that changed within this time, because their owners may not be listed yet; 0: none." default:"10m"`
	At          string        `help:"As of this sequence or RFC 3339 time; not with --yes."`
	JSON        bool          `name:"json" help:"Print one JSON object per finding."`
	Yes         bool          `help:"Release what orphans hold, unless it has changed meanwhile."`
}

// finding is a consumer that holds something and should not, or the other way
// round.
type finding struct {
	Finding  string             `json:"finding"` // orphan or missing
	Consumer ledger.UUID        `json:"consumer"`
	Holds    *wire.Allocations  `json:"holds,omitempty"`
	By       *wire.HistoryEntry `json:"by,omitempty"` // who made it, or removed the last of it
	Heal     string             `json:"heal"`
	Healed   string             `json:"healed,omitempty"`
}

const (
	orphan  = "orphan"
	missing = "missing"
	// unknownType is what Placement calls a consumer without a type.
	unknownType = "unknown"
)

// Run compares, prints and, with --yes, releases.
func (c *orphansCommand) Run(ctx context.Context) error {
	if c.At != "" && c.Yes {
		return errors.New("--yes changes the present, so it cannot be given together with --at")
	}
	known, err := c.known(ctx)
	if err != nil {
		return err
	}
	if len(known) == 0 {
		return errors.New("--consumers lists nobody, so every consumer would be an orphan")
	}
	holders, recent, err := c.holders(ctx)
	if err != nil {
		return err
	}
	var failures []error
	count := make(map[string]int)
	for _, f := range compare(known, holders) {
		count[f.Finding]++
		if err := c.explain(ctx, f); err != nil {
			return err
		}
		if c.Yes && f.Finding == orphan {
			err := c.heal(ctx, f)
			if f.Healed = "released"; err != nil {
				f.Healed = ""
				failures = append(failures, fmt.Errorf("consumer %s: %w", f.Consumer, err))
			}
		}
		if err := c.print(f); err != nil {
			return err
		}
	}
	fmt.Fprintf(
		os.Stderr,
		"%d known, %d hold something: %d orphans, %d owners without allocations; %d changed less than %s ago and were left alone\n",
		len(known), len(holders), count[orphan], count[missing], recent, c.OlderThan,
	)
	return errors.Join(failures...)
}

func compare(known map[ledger.UUID]bool, holders map[ledger.UUID]*holder) []*finding {
	var list []*finding
	for _, id := range slices.SortedFunc(maps.Keys(holders), ledger.UUID.Compare) {
		if h := holders[id]; !known[id] && h.looked {
			list = append(list, &finding{
				Finding: orphan, Consumer: id, Holds: h.Allocations,
				Heal: "openstack resource provider allocation delete " + id.String(),
			})
		}
	}
	for _, id := range slices.SortedFunc(maps.Keys(known), ledger.UUID.Compare) {
		if holders[id] == nil {
			list = append(
				list,
				&finding{Finding: missing, Consumer: id, Heal: "nova-manage placement heal_allocations --instance " + id.String()},
			)
		}
	}
	return list
}

// holder is a consumer that holds something.
type holder struct {
	*wire.Allocations
	looked bool // it may be an orphan: its type is examined, and it is old enough
}

// holders lists all consumers, as of one moment.
func (c *orphansCommand) holders(ctx context.Context) (all map[ledger.UUID]*holder, recent int, err error) {
	all = make(map[ledger.UUID]*holder)
	query := url.Values{}
	if c.At != "" {
		query.Set("at", c.At)
	}
	for {
		page, err := fetch[audit.Consumers](ctx, c.serverFlags, "/audit/consumers", query)
		if err != nil {
			return nil, 0, err
		}
		for _, one := range page.Consumers {
			changed, err := time.Parse(time.RFC3339Nano, one.Changed)
			if err != nil {
				return nil, 0, fmt.Errorf("consumer %s: %w", one.Consumer, err)
			}
			h := &holder{one, len(c.Type) == 0 || slices.Contains(c.Type, cmp.Or(one.Type, unknownType))}
			if h.looked && time.Since(changed) < c.OlderThan {
				h.looked = false
				recent++
			}
			all[one.Consumer] = h
		}
		if page.Next == "" {
			return all, recent, nil
		}
		query.Set("after", page.Next)
		query.Set("at", fmt.Sprint(page.Sequence))
	}
}

// explain finds out who made a consumer, or removed the last of what it held.
func (c *orphansCommand) explain(ctx context.Context, f *finding) error {
	query := url.Values{"consumer": {f.Consumer.String()}, "limit": {"1"}}
	if c.At != "" {
		query.Set("at", c.At)
	}
	for {
		page, err := fetch[wire.History](ctx, c.serverFlags, "/audit/history", query)
		if err != nil {
			return err
		}
		for i := range page.Entries {
			f.By = &page.Entries[i]
			if f.Finding == missing || f.By.Before == nil {
				return nil
			}
		}
		if page.Next == "" {
			return nil
		}
		query.Set("before", page.Next)
		query.Set("limit", "1000")
	}
}

// heal releases what an orphan holds, if that is unchanged.
func (c *orphansCommand) heal(ctx context.Context, f *finding) error {
	c.microversion = "placement 1.38"
	resp, err := c.send(ctx, http.MethodPut, "/allocations/"+f.Consumer.String(), nil, map[string]any{
		"allocations": map[string]any{}, "project_id": f.Holds.Project, "user_id": f.Holds.User,
		"consumer_generation": f.Holds.Generation, "consumer_type": cmp.Or(f.Holds.Type, unknownType),
	})
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

func (c *orphansCommand) print(f *finding) error {
	if c.JSON {
		return ledger.PlainEncoder(os.Stdout).Encode(f)
	}
	if f.Finding == orphan {
		fmt.Printf(
			"orphan   %s (%s of project %s) since %s\n", f.Consumer, cmp.Or(f.Holds.Type, unknownType), f.Holds.Project,
			f.Holds.Since,
		)
		for _, a := range f.Holds.Allocations {
			fmt.Printf("         %s:%d of provider %s\n", a.Class, a.Amount, a.Provider)
		}
	} else {
		fmt.Printf("missing  %s holds nothing\n", f.Consumer)
	}
	switch {
	case f.By != nil && f.Finding == orphan:
		fmt.Printf("         made by %s with %s, record %s\n", f.By.Actor, f.By.Command, f.By.Address)
	case f.By != nil:
		fmt.Printf("         since %s, by %s with %s, record %s\n", f.By.Time, f.By.Actor, f.By.Command, f.By.Address)
	case f.Finding == missing:
		fmt.Println("         and never did")
	}
	_, err := fmt.Println("         " + cmp.Or(f.Healed, f.Heal))
	return err
}
