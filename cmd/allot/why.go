package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/allot-project/allot/api/audit"
	"github.com/allot-project/allot/commands/wire"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/projector/candidates"
)

// ask gets an answer, prints it as it came if that is wanted, and decodes it
// otherwise.
func ask[T any](ctx context.Context, s serverFlags, path string, query url.Values, raw bool, print func(*T) error) error {
	for key, values := range query {
		if len(values) == 1 && values[0] == "" {
			query.Del(key)
		}
	}
	text, err := s.read(ctx, path, query)
	if err != nil {
		return err
	}
	if raw {
		_, err = os.Stdout.Write(text)
		return err
	}
	var answer T
	if err := json.Unmarshal(text, &answer); err != nil {
		return fmt.Errorf("the server sent something else than an answer: %w", err)
	}
	return print(&answer)
}

// whyCommand is "allot why": the records behind what a consumer holds.
type whyCommand struct {
	serverFlags `embed:""`
	Of          string `arg:"" enum:"consumer" help:"The word consumer."`
	Consumer    string `arg:"" help:"Its uuid."`
	On          string `arg:"" enum:"provider" help:"The word provider."`
	Provider    string `arg:"" help:"Its uuid."`
	At          string `help:"As of this sequence or RFC 3339 time."`
	JSON        bool   `name:"json" help:"The answer as JSON."`
}

// Run prints the records, newest first.
func (c *whyCommand) Run(ctx context.Context) error {
	query := url.Values{"consumer": {c.Consumer}, "provider": {c.Provider}, "at": {c.At}}
	return ask(ctx, c.serverFlags, "/audit/why", query, c.JSON, func(w *audit.Why) error {
		fmt.Printf("after sequence %d consumer %s holds %s of provider %s\n\n", w.Sequence, w.Consumer, amounts(w.Holds), w.Provider)
		for _, change := range w.Changes {
			printEntry(&change.HistoryEntry)
			fmt.Printf("         %s, before: %s\n", amounts(change.After), amounts(change.Before))
		}
		if len(w.Inventories) > 0 {
			fmt.Print("\nits inventories are so because of\n\n")
		}
		for _, change := range w.Inventories {
			printEntry(&change.HistoryEntry)
			fmt.Printf("         %s: %s, before: %s\n", change.Class, inventory(change.After), inventory(change.Before))
		}
		if w.Incomplete {
			fmt.Println("\nthere is more than one answer looks at; allot history has it all")
		}
		return nil
	})
}

func printEntry(e *wire.HistoryEntry) {
	fmt.Printf("%-8s %s  %-12s %-22s %s\n", e.Address, e.Time, e.Actor, e.Command, e.RequestID)
}

func amounts(held map[string]int64) string {
	if len(held) == 0 {
		return "nothing"
	}
	var list []string
	for class, amount := range held {
		list = append(list, fmt.Sprintf("%s:%d", class, amount))
	}
	slices.Sort(list)
	return strings.Join(list, ", ")
}

func inventory(i *wire.Inventory) string {
	if i == nil {
		return "none"
	}
	return fmt.Sprintf("total %d, reserved %d, allocation ratio %g, units %d to %d by %d", i.Total, i.Reserved, i.Ratio, i.MinUnit, i.MaxUnit, i.StepSize)
}

// whyNotCommand is "allot why-not": why a request has no candidates.
type whyNotCommand struct {
	serverFlags `embed:""`
	Candidates  string `help:"Query of Placement's GET /allocation_candidates, such as 'resources=VCPU:1&required=CUSTOM_GOLD'." required:"" placeholder:"QUERY"`
	At          string `help:"As of this sequence or RFC 3339 time."`
	JSON        bool   `name:"json" help:"The answer as JSON."`
}

// Run prints what each filter left.
func (c *whyNotCommand) Run(ctx context.Context) error {
	query, err := url.ParseQuery(c.Candidates)
	if err != nil {
		return fmt.Errorf("--candidates: %w", err)
	}
	query.Set("explain", "true")
	if c.At != "" {
		query.Set("at", c.At)
	}
	type answer struct {
		Requests    []json.RawMessage       `json:"allocation_requests"`
		Explanation *candidates.Explanation `json:"explanation"`
	}
	c.microversion = "placement 1.39"
	return ask(ctx, c.serverFlags, "/allocation_candidates", query, c.JSON, func(a *answer) error {
		if a.Explanation == nil {
			return errors.New("the server did not explain itself")
		}
		var table strings.Builder
		for _, g := range a.Explanation.Groups {
			fmt.Fprintf(&table, "providers for group %q %s\n", g.Suffix, g.Class)
			addSteps(&table, g.Steps)
		}
		table.WriteString("trees\n")
		addSteps(&table, a.Explanation.Trees)
		out := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
		_, err := io.WriteString(out, table.String())
		if err = errors.Join(err, out.Flush()); err != nil {
			return err
		}
		if a.Explanation.RemovedLast == "" {
			fmt.Printf("\nthere are candidates (%d in this answer)\n", len(a.Requests))
			return nil
		}
		fmt.Printf("\nnothing was left after: %s\n", a.Explanation.RemovedLast)
		return nil
	})
}

func addSteps(out *strings.Builder, steps []candidates.Step) {
	for _, step := range steps {
		fmt.Fprintf(out, "  %s\t%d\n", step.Filter, step.Left)
	}
}

// rejectedCommand is "allot rejected": commands that were rejected, and why.
type rejectedCommand struct {
	serverFlags `embed:""`
	Limit       int    `help:"At most this many, newest first; 1 to 1000." default:"50"`
	Actor       string `help:"Only those of this actor."`
	Command     string `help:"Only this command, such as Reshape."`
	Code        string `help:"Only for this reason, such as capacity_exceeded."`
	Project     string `help:"Only those about this project: of a client that is bound to it, naming it as an owner, or changing what its consumers hold."`
	Consumer    string `help:"Only those that name this consumer or node allocation (uuid)."`
	Provider    string `help:"Only those that name this provider or node (uuid)."`
	Since       string `help:"Only those at or after this RFC 3339 time."`
	Until       string `help:"Only those at or before this RFC 3339 time."`
	JSON        bool   `name:"json" help:"The answer as JSON."`
}

// Run prints them.
func (c *rejectedCommand) Run(ctx context.Context) error {
	query := url.Values{"limit": {fmt.Sprint(c.Limit)}, "actor": {c.Actor}, "command": {c.Command}, "code": {c.Code},
		"project": {c.Project}, "consumer": {c.Consumer}, "provider": {c.Provider}, "since": {c.Since}, "until": {c.Until}}
	return ask(ctx, c.serverFlags, "/audit/rejections", query, c.JSON, func(r *audit.Rejections) error {
		for _, e := range r.Rejections {
			fmt.Printf("%-8s %s  %-12s %-22s %s\n         %s\n", e.Place, e.Time.Format("2006-01-02T15:04:05.000Z"), e.Actor, e.Command, e.CommandID, e.Rejection)
		}
		return nil
	})
}

// holdersCommand is "allot holders": who holds something of a provider.
type holdersCommand struct {
	serverFlags `embed:""`
	Provider    string `arg:"" help:"Uuid of a provider or bare metal node."`
	At          string `help:"As of this sequence or RFC 3339 time."`
	JSON        bool   `name:"json" help:"The answers as JSON, one for each 1000 holders."`
}

// Run prints the holders with their owners.
func (c *holdersCommand) Run(ctx context.Context) error {
	query := url.Values{"provider": {c.Provider}, "at": {c.At}}
	for more := true; more; {
		err := ask(ctx, c.serverFlags, "/audit/holders", query, false, func(h *audit.Holders) error {
			more = h.Next != nil
			if more {
				// The pages are of one moment.
				query.Set("after", h.Next.String())
				query.Set("at", fmt.Sprint(h.Sequence))
			}
			if c.JSON {
				return ledger.PlainEncoder(os.Stdout).Encode(h)
			}
			printHolders(h)
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func printHolders(h *audit.Holders) {
	fmt.Printf("after sequence %d %d hold something of %s (%s)\n", h.Sequence, len(h.Holders.Holders), h.Provider, h.Name)
	for _, held := range h.Holders.Holders {
		amounts := make([]string, len(held.Allocations))
		for i, a := range held.Allocations {
			amounts[i] = fmt.Sprintf("%s:%d", a.Class, a.Amount)
		}
		fmt.Printf("%s  %-30s project %s, user %s, type %s, since %s\n", held.Consumer, strings.Join(amounts, ", "),
			held.Project, held.User, cmp.Or(held.Type, ledger.UnknownType), held.Since)
	}
	if h.Node != nil && h.Node.Instance != nil {
		fmt.Printf("on the bare metal node runs instance %s\n", h.Node.Instance)
	}
}

// redecideCommand is "allot redecide": a rejected command, decided again.
type redecideCommand struct {
	serverFlags `embed:""`
	CommandID   string `arg:"" help:"Its command id, as allot rejected prints it."`
	At          string `help:"Against what was so at this sequence or RFC 3339 time, instead of when it was rejected."`
	JSON        bool   `name:"json" help:"The answer as JSON."`
}

// Run prints how it is decided.
func (c *redecideCommand) Run(ctx context.Context) error {
	query := url.Values{"command_id": {c.CommandID}, "at": {c.At}}
	return ask(ctx, c.serverFlags, "/audit/redecide", query, c.JSON, func(r *audit.Redecided) error {
		fmt.Printf("%s %s\nat %s it was rejected: %s\n", r.Command, r.Body, r.Place, r.Rejection)
		switch {
		case r.Again == nil:
			fmt.Printf("at %s it would be accepted, with %d events\n", r.Against, len(r.Events))
		case r.Same:
			fmt.Printf("at %s it is rejected for the same reason\n", r.Against)
		default:
			fmt.Printf("at %s it is rejected: %s\n", r.Against, r.Again)
		}
		return nil
	})
}

// whatIfCommand is "allot what-if": what would be so after some commands.
type whatIfCommand struct {
	serverFlags `embed:""`
	At          string   `help:"Begin with what was so at this sequence or RFC 3339 time; default: now."`
	Without     []string `help:"Providers (uuids) that are gone, with what is below them." placeholder:"UUID"`
	File        string   `arg:"" optional:"" help:"JSON: {\"steps\": [{\"command\": NAME, \"body\": {...}}], \"questions\": [{\"query\": NAME, \"body\": {...}}]}; -: standard input." `
	Resources   []string `help:"Ask for candidates for these amounts, CLASS=AMOUNT." placeholder:"CLASS=AMOUNT"`
	Project     []string `help:"Ask for the usages of these projects." placeholder:"ID"`
}

// Run sends steps and questions and prints the answer.
func (c *whatIfCommand) Run(ctx context.Context) error {
	asked, err := c.body()
	if err != nil {
		return err
	}
	resp, err := c.send(ctx, http.MethodPost, "/audit/what-if", nil, asked)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }() // nothing was written
	out := ledger.PlainEncoder(os.Stdout)
	out.SetIndent("", "  ")
	var answer any
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxAnswerBytes)).Decode(&answer); err != nil {
		return fmt.Errorf("the server sent something else than an answer: %w", err)
	}
	return out.Encode(answer)
}

func (c *whatIfCommand) body() (map[string]any, error) {
	var asked struct {
		Steps     []any `json:"steps"`
		Questions []any `json:"questions"`
	}
	if c.File != "" {
		in := os.Stdin
		if c.File != "-" {
			f, err := os.Open(c.File)
			if err != nil {
				return nil, err
			}
			defer func() { _ = f.Close() }() // nothing was written
			in = f
		}
		dec := json.NewDecoder(in)
		dec.DisallowUnknownFields()
		dec.UseNumber()
		if err := dec.Decode(&asked); err != nil {
			return nil, fmt.Errorf("%s: %w", c.File, err)
		}
	}
	type m = map[string]any
	for _, id := range c.Without {
		asked.Steps = append(asked.Steps, m{"command": "RemoveProvider", "body": m{"provider": id}})
	}
	if len(c.Resources) > 0 {
		resources := m{}
		for _, one := range c.Resources {
			class, amount, found := strings.Cut(one, "=")
			if !found {
				return nil, fmt.Errorf("--resources: %q is not CLASS=AMOUNT", one)
			}
			resources[class] = json.Number(amount)
		}
		asked.Questions = append(asked.Questions, m{"query": "Candidates", "body": m{"groups": []m{{"resources": resources}}}})
	}
	for _, project := range c.Project {
		asked.Questions = append(asked.Questions, m{"query": "Usages", "body": m{"project": project}})
	}
	body := m{"steps": asked.Steps, "questions": asked.Questions}
	if c.At != "" {
		body["at"] = c.At
	}
	return body, nil
}
