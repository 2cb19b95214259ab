package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"os"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/allot-project/allot/api/audit"
	"github.com/allot-project/allot/commands/wire"
	"github.com/allot-project/allot/ledger"
)

// newestPlacement is the microversion whose answers are printed.
const newestPlacement = "placement 1.39"

// getCommand is "allot get": it prints one entity.
type getCommand struct {
	serverFlags `embed:""`
	momentFlag  `embed:""`
	Of          string `arg:"" enum:"provider,consumer,project,node,allocation" help:"provider, consumer, project, node or allocation (of a whole node)."`
	Name        string `arg:"" help:"Uuid of the entity, or name of a provider, node or allocation."`
	JSON        bool   `name:"json" help:"Print the answer as JSON."`
}

// Run prints the entity.
func (c *getCommand) Run(ctx context.Context) error {
	c.microversion = newestPlacement
	switch c.Of {
	case "provider":
		return c.provider(ctx)
	case "consumer":
		return c.consumer(ctx)
	case "project":
		return c.project(ctx)
	case "node":
		return c.metal(ctx, "/baremetal/v1/nodes/", "node")
	}
	return c.metal(ctx, "/baremetal/v1/allocations/", "node_allocation")
}

// printed is an answer as a table of names and values, or as JSON.
type printed struct {
	raw  map[string]json.RawMessage
	rows [][2]string
}

func (p *printed) row(name, format string, args ...any) {
	p.rows = append(p.rows, [2]string{name, fmt.Sprintf(format, args...)})
}

func (p *printed) print(asJSON bool) error {
	if asJSON {
		return ledger.PlainEncoder(os.Stdout).Encode(p.raw)
	}
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	for _, row := range p.rows {
		if _, err := fmt.Fprintf(table, "%s\t%s\n", row[0], row[1]); err != nil {
			return err
		}
	}
	return table.Flush()
}

// read asks a path as of the moment, keeps the answer under a name, and decodes
// it.
func (c *getCommand) read(ctx context.Context, p *printed, name, path string, into any) error {
	text, err := c.readJSON(ctx, path, c.in(url.Values{}))
	if err != nil {
		return err
	}
	p.raw[name] = text
	return readAnswer(text, into)
}

// provider prints a provider, its inventories and their usage.
func (c *getCommand) provider(ctx context.Context) error {
	id, err := c.named(ctx, wire.OfProvider, c.Name, c.At)
	if err != nil {
		return err
	}
	var (
		p        = &printed{raw: make(map[string]json.RawMessage)}
		path     = "/resource_providers/" + url.PathEscape(id)
		provider struct {
			UUID, Name string
			Generation int64
			Parent     *string `json:"parent_provider_uuid"`
			Root       string  `json:"root_provider_uuid"`
		}
		inventories struct {
			Inventories map[string]struct {
				Total, Reserved int64
				Ratio           float64 `json:"allocation_ratio"`
			}
		}
		usages struct{ Usages map[string]int64 }
		groups struct{ Aggregates []string }
		traits struct{ Traits []string }
	)
	for _, part := range []struct {
		name, path string
		into       any
	}{
		{"provider", path, &provider}, {"inventories", path + "/inventories", &inventories},
		{"usages", path + "/usages", &usages}, {"aggregates", path + "/aggregates", &groups},
		{"traits", path + "/traits", &traits},
	} {
		if err := c.read(ctx, p, part.name, part.path, part.into); err != nil {
			return err
		}
	}
	p.row("uuid", "%s", provider.UUID)
	p.row("name", "%s", provider.Name)
	p.row("generation", "%d", provider.Generation)
	if provider.Parent != nil {
		p.row("parent", "%s", *provider.Parent)
		p.row("root", "%s", provider.Root)
	}
	for _, class := range slices.Sorted(maps.Keys(inventories.Inventories)) {
		i := inventories.Inventories[class]
		p.row(class, "%d used of %d (%d reserved, ratio %g)", usages.Usages[class], i.Total, i.Reserved, i.Ratio)
	}
	p.row("traits", "%s", cmp.Or(strings.Join(traits.Traits, ", "), "none"))
	p.row("aggregates", "%s", cmp.Or(strings.Join(groups.Aggregates, ", "), "none"))
	return p.print(c.JSON)
}

// consumer prints what a consumer holds, and its owner.
func (c *getCommand) consumer(ctx context.Context) error {
	var (
		p    = &printed{raw: make(map[string]json.RawMessage)}
		held struct {
			Allocations map[string]struct{ Resources map[string]int64 }
			Project     string `json:"project_id"`
			User        string `json:"user_id"`
			Type        string `json:"consumer_type"`
			Generation  *int64 `json:"consumer_generation"`
		}
	)
	if err := c.read(ctx, p, "consumer", "/allocations/"+url.PathEscape(c.Name), &held); err != nil {
		return err
	}
	if len(held.Allocations) == 0 {
		return fmt.Errorf("%w: consumer %s holds nothing", errNothing, c.Name)
	}
	p.row("consumer", "%s", c.Name)
	p.row("project", "%s", held.Project)
	p.row("user", "%s", held.User)
	p.row("type", "%s", held.Type)
	if held.Generation != nil {
		p.row("generation", "%d", *held.Generation)
	}
	for _, provider := range slices.Sorted(maps.Keys(held.Allocations)) {
		p.row("of "+provider, "%s", amounts(held.Allocations[provider].Resources))
	}
	return p.print(c.JSON)
}

// project prints what a project uses, by type of consumer.
func (c *getCommand) project(ctx context.Context) error {
	query := c.in(url.Values{"project_id": {c.Name}})
	text, err := c.readJSON(ctx, "/usages", query)
	if err != nil {
		return err
	}
	used, err := answerIn[struct{ Usages map[string]map[string]int64 }](text)
	if err != nil {
		return err
	}
	if len(used.Usages) == 0 {
		return fmt.Errorf("%w: project %s holds nothing", errNothing, c.Name)
	}
	p := &printed{raw: map[string]json.RawMessage{"usages": text}}
	p.row("project", "%s", c.Name)
	for _, kind := range slices.Sorted(maps.Keys(used.Usages)) {
		held, consumers := used.Usages[kind], used.Usages[kind]["consumer_count"]
		delete(held, "consumer_count")
		p.row(kind, "%d consumers: %s", consumers, amounts(held))
	}
	return p.print(c.JSON)
}

// metal prints a bare metal node, or an allocation of one.
func (c *getCommand) metal(ctx context.Context, path, of string) error {
	id, err := c.named(ctx, of, c.Name, c.At)
	if err != nil {
		return err
	}
	p := &printed{raw: make(map[string]json.RawMessage)}
	var fields map[string]any
	c.ironic = newestIronic
	if err := c.read(ctx, p, of, path+url.PathEscape(id), &fields); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		switch value := fields[name].(type) {
		case nil, []any, map[string]any:
			if name != "traits" {
				continue // --json has everything
			}
			p.row(name, "%v", value)
		default:
			p.row(name, "%v", value)
		}
	}
	return p.print(c.JSON)
}

// listCommand is "allot list": it lists all entities of a kind.
type listCommand struct {
	serverFlags `embed:""`
	momentFlag  `embed:""`
	Of          string `arg:"" enum:"providers,consumers,classes,traits,nodes,allocations" help:"providers, consumers, classes, traits, nodes or allocations (of whole nodes)."`
	JSON        bool   `name:"json" help:"Print the answers as JSON, one for each page."`
}

// Run prints the entities, one a line.
func (c *listCommand) Run(ctx context.Context) error {
	c.microversion = newestPlacement
	lines := &listing{table: tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0), asJSON: c.JSON}
	if err := c.list(ctx, lines); err != nil {
		return err
	}
	if err := lines.table.Flush(); err != nil {
		return err
	}
	if lines.count == 0 {
		return fmt.Errorf("%w: there are no %s", errNothing, c.Of)
	}
	return nil
}

// listing is what is printed of a list.
type listing struct {
	table  *tabwriter.Writer
	asJSON bool
	count  int
	failed error
}

func (l *listing) line(columns ...string) {
	l.count++
	if l.failed == nil && !l.asJSON {
		_, l.failed = fmt.Fprintln(l.table, strings.Join(columns, "\t"))
	}
}

func (c *listCommand) list(ctx context.Context, lines *listing) error {
	switch c.Of {
	case "providers":
		return page(ctx, c, lines, "/audit/providers", url.Values{}, func(list *audit.Providers) url.Values {
			for _, p := range list.Providers {
				var offers []string
				for _, i := range p.Inventories {
					offers = append(offers, fmt.Sprintf("%s %d/%d", i.Class, i.Used, i.Capacity))
				}
				lines.line(p.Provider.String(), p.Name, strings.Join(offers, ", "))
			}
			return nil
		})
	case "consumers":
		return page(ctx, c, lines, "/audit/consumers", url.Values{}, func(list *audit.Consumers) url.Values {
			for _, held := range list.Consumers {
				var holds []string
				for _, a := range held.Allocations {
					holds = append(holds, fmt.Sprintf("%s:%d of %s", a.Class, a.Amount, a.Provider))
				}
				lines.line(held.Consumer.String(), held.Project, cmp.Or(held.Type, ledger.UnknownType), strings.Join(holds, ", "))
			}
			if list.Next == "" {
				return nil
			}
			return url.Values{"after": {list.Next}, "at": {fmt.Sprint(list.Sequence)}} // all pages are of one moment
		})
	case "classes":
		type classes struct {
			Classes []struct{ Name string } `json:"resource_classes"`
		}
		return page(ctx, c, lines, "/resource_classes", url.Values{}, func(list *classes) url.Values {
			for _, class := range list.Classes {
				lines.line(class.Name)
			}
			return nil
		})
	case "traits":
		return page(ctx, c, lines, "/traits", url.Values{}, func(list *struct{ Traits []string }) url.Values {
			for _, trait := range list.Traits {
				lines.line(trait)
			}
			return nil
		})
	}
	return c.metal(ctx, lines)
}

// metal lists bare metal nodes, or allocations of them.
func (c *listCommand) metal(ctx context.Context, lines *listing) error {
	type metal struct {
		UUID, Name, State string
		Provision         string `json:"provision_state"`
		Class             string `json:"resource_class"`
		Node              string `json:"node_uuid"`
		Instance          string `json:"instance_uuid"`
	}
	type pageOf struct {
		Nodes, Allocations []metal
		Next               string
	}
	c.ironic = newestIronic
	query := url.Values{}
	if c.Of == "nodes" {
		query.Set("fields", "uuid,name,provision_state,resource_class,instance_uuid")
	}
	return page(ctx, c, lines, "/baremetal/v1/"+c.Of, query, func(list *pageOf) url.Values {
		last := ""
		for _, one := range append(list.Nodes, list.Allocations...) {
			lines.line(one.UUID, one.Name, one.Class, cmp.Or(one.Provision, one.State), cmp.Or(one.Node, one.Instance))
			last = one.UUID
		}
		if list.Next == "" {
			return nil
		}
		return url.Values{"marker": {last}}
	})
}

// page asks for a list page by page. show returns what the next page's query has
// in addition, or nil.
func page[T any](
	ctx context.Context, c *listCommand, lines *listing, path string, query url.Values, show func(*T) url.Values,
) error {
	query = c.in(query)
	for more := true; more; {
		err := ask(ctx, c.serverFlags, path, query, false, func(text *json.RawMessage) error {
			list, err := answerIn[T](*text)
			if err != nil {
				return err
			}
			next := show(list)
			for key, value := range next {
				query[key] = value
			}
			more = next != nil
			if c.JSON {
				return ledger.PlainEncoder(os.Stdout).Encode(text)
			}
			return lines.failed
		})
		if err != nil {
			return err
		}
	}
	return nil
}
