package ask

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/allot-project/allot/cmd/internal/cli"
	"github.com/allot-project/allot/ledger"
)

// orphans is "allot orphans": it lists allocations without an owner, and owners without allocations.
type orphans struct {
	then
	Consumers string        `help:"All consumers that may hold something: a file with one uuid per line, or with nova's list of servers or openstack server list's as JSON." required:"" placeholder:"FILE"`
	Type      []string      `help:"Examine only consumers of these types; a consumer without a type has the type unknown. Default: all."`
	OlderThan time.Duration `help:"Leave alone consumers that changed within this time, because their owners may not be listed yet; 0: none." default:"10m"`
	Yes       bool          `help:"Release what orphans hold, unless it has changed meanwhile; not with --at."`
}

// finding is a consumer that holds something and should not, or the other way round.
type finding struct {
	Finding  string          `json:"finding"` // orphan or missing
	Consumer ledger.UUID     `json:"consumer"`
	Holds    json.RawMessage `json:"holds,omitempty"`
	By       json.RawMessage `json:"by,omitempty"` // the record that made it, or removed the last of it
	Heal     string          `json:"heal"`
	Healed   string          `json:"healed,omitempty"`

	holds, by any
}

const (
	orphan  = "orphan"
	missing = "missing"
	// unknownType is what Placement calls a consumer without a type.
	unknownType = "unknown"
)

// findOrphans compares, prints and, with --yes, releases.
func findOrphans(ctx context.Context, a *asked) error {
	c := a.flags.(*orphans)
	if c.At != "" && c.Yes {
		return errors.New("--yes changes the present, so it cannot be given together with --at")
	}
	known, err := c.known()
	if err != nil {
		return err
	}
	if len(known) == 0 {
		return errors.New("--consumers is empty: every consumer would count as an orphan")
	}
	holders, recent, err := a.holders(ctx, c)
	if err != nil {
		return err
	}
	a.Columns([]string{"finding", "consumer", "type", "project", "since"})
	var failures []error
	count := make(map[string]int)
	for _, f := range compare(known, holders) {
		count[f.Finding]++
		if err := a.explain(ctx, f); err != nil {
			return err
		}
		if c.Yes && f.Finding == orphan {
			if err := a.heal(ctx, f); err != nil {
				failures = append(failures, fmt.Errorf("consumer %s: %w", f.Consumer, err))
			} else {
				f.Healed = "released"
			}
		}
		text, err := ledger.PlainJSON(f)
		if err = errors.Join(err, a.Raw(text), a.Rows(f.row())); err != nil {
			return err
		}
	}
	_, err = fmt.Fprintf(a.notes,
		"%d known, %d hold something: %d orphans, %d owners without allocations; %d changed less than %s ago and were left alone\n",
		len(known), len(holders), count[orphan], count[missing], recent, c.OlderThan)
	return errors.Join(append(failures, err)...)
}

func compare(known map[ledger.UUID]bool, holders map[ledger.UUID]holder) []*finding {
	var list []*finding
	for _, id := range slices.SortedFunc(maps.Keys(holders), ledger.UUID.Compare) {
		if h := holders[id]; !known[id] && h.looked {
			list = append(list, &finding{
				Finding: orphan, Consumer: id, Holds: h.raw, holds: h.holds,
				Heal: "openstack resource provider allocation delete " + id.String(),
			})
		}
	}
	for _, id := range slices.SortedFunc(maps.Keys(known), ledger.UUID.Compare) {
		if _, holds := holders[id]; !holds {
			list = append(list, &finding{
				Finding: missing, Consumer: id, Heal: "nova-manage placement heal_allocations --instance " + id.String(),
			})
		}
	}
	return list
}

type holder struct {
	holds  any
	raw    json.RawMessage
	looked bool // it may be an orphan: its type is examined, and it is old enough
}

// holders lists all consumers, as of one moment.
func (a *asked) holders(ctx context.Context, c *orphans) (all map[ledger.UUID]holder, recent int, err error) {
	all = make(map[ledger.UUID]holder)
	request := cli.Request{Path: "/audit/consumers", Query: a.request().Query}
	for {
		page, came, err := a.answers(ctx, request, "consumers")
		if err != nil {
			return nil, 0, err
		}
		for i, one := range list(at(page, "consumers")) {
			id, err := ledger.ParseUUID(field(one, "consumer"))
			changed, err2 := time.Parse(time.RFC3339Nano, field(one, "changed"))
			if err != nil || err2 != nil {
				return nil, 0, cli.ErrNotAllot
			}
			h := holder{one, came[i], len(c.Type) == 0 || slices.Contains(c.Type, or(unknownType)(at(one, "type")))}
			if h.looked && time.Since(changed) < c.OlderThan {
				h.looked = false
				recent++
			}
			all[id] = h
		}
		next := afterLast(page, nil)
		if next == nil {
			return all, recent, nil
		}
		maps.Copy(request.Query, next)
	}
}

// answers gets a page, and the items of its list as they came.
func (a *asked) answers(
	ctx context.Context, request cli.Request, name string,
) (page any, list []json.RawMessage, err error) {
	page, raw, err := a.read(ctx, request, name)
	if err != nil {
		return nil, nil, err
	}
	list, err = items(raw, name)
	return page, list, err
}

// explain finds the record that made a consumer, or removed the last of what it held.
func (a *asked) explain(ctx context.Context, f *finding) error {
	request := cli.Request{Path: "/audit/history", Query: a.request().Query}
	maps.Copy(request.Query, url.Values{"consumer": {f.Consumer.String()}, "limit": {"1"}})
	for {
		page, came, err := a.answers(ctx, request, "entries")
		if err != nil {
			return err
		}
		for i, entry := range list(at(page, "entries")) {
			f.By, f.by = came[i], entry
			if f.Finding == missing || at(entry, "before") == nil {
				return nil
			}
		}
		next := field(page, "next")
		if next == "" {
			return nil
		}
		maps.Copy(request.Query, url.Values{"before": {next}, "limit": {"1000"}})
	}
}

// heal releases what an orphan holds, if that is unchanged.
func (a *asked) heal(ctx context.Context, f *finding) error {
	return a.Change(ctx, cli.Request{
		Method: http.MethodPut, Path: "/allocations/" + f.Consumer.String(),
		Header: map[string]string{"OpenStack-API-Version": "placement 1.38"},
		Body: map[string]any{
			"allocations": map[string]any{}, "project_id": at(f.holds, "project"), "user_id": at(f.holds, "user"),
			"consumer_generation": at(f.holds, "generation"), "consumer_type": or(unknownType)(at(f.holds, "type")),
		},
	})
}

func (f *finding) row() cli.Row {
	row := cli.Row{Cells: []string{f.Finding, f.Consumer.String(), "", "", ""}}
	by := fmt.Sprintf("by %s with %s, record %s", field(f.by, "actor"), field(f.by, "command"), field(f.by, "address"))
	if f.Finding == orphan {
		row.Cells = append(row.Cells[:2], or(unknownType)(at(f.holds, "type")), field(f.holds, "project"),
			field(f.holds, "since"))
		for _, one := range list(at(f.holds, "allocations")) {
			row.Details = append(row.Details, allocated(one)+" of provider "+field(one, "provider"))
		}
		row.Details = append(row.Details, "made "+by)
	} else if row.Details = []string{"holds nothing, and never did"}; f.by != nil {
		row.Details = []string{"holds nothing since " + field(f.by, "time") + ", " + by}
	}
	row.Details = append(row.Details, cmp.Or(f.Healed, f.Heal))
	return row
}

// known reads the list of consumers that may hold something.
func (c *orphans) known() (map[ledger.UUID]bool, error) {
	text, err := os.ReadFile(c.Consumers)
	if err != nil {
		return nil, err
	}
	known := make(map[ledger.UUID]bool)
	switch first := bytes.TrimSpace(text); {
	case bytes.HasPrefix(first, []byte("{")):
		err = addServers(text, known)
	case bytes.HasPrefix(first, []byte("[")): // as openstack server list prints it
		err = addServers(fmt.Appendf(nil, `{"servers":%s}`, text), known)
	default:
		err = addLines(string(text), known)
	}
	if err != nil {
		return nil, fmt.Errorf("--consumers %s: %w", c.Consumers, err)
	}
	return known, nil
}

// addLines adds the uuids in lines. What follows # is a comment.
func addLines(text string, known map[ledger.UUID]bool) error {
	for i, line := range strings.Split(text, "\n") {
		line, _, _ = strings.Cut(line, "#")
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		id, err := ledger.ParseUUID(line)
		if err != nil {
			return fmt.Errorf("line %d: %q is not a uuid", i+1, line)
		}
		known[id] = true
	}
	return nil
}

// addServers adds the servers in nova's list.
func addServers(text []byte, known map[ledger.UUID]bool) error {
	var list struct {
		Servers *[]struct {
			ID string `json:"id"`
		} `json:"servers"`
	}
	if json.Unmarshal(text, &list) != nil || list.Servers == nil {
		return errors.New("this is no list of servers: openstack server list --all-projects -f json prints one")
	}
	for _, s := range *list.Servers {
		id, err := ledger.ParseUUID(s.ID)
		if err != nil {
			return fmt.Errorf("server %q has no uuid", s.ID)
		}
		known[id] = true
	}
	return nil
}
