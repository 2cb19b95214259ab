package main

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"os"
	"text/tabwriter"

	"github.com/allot-project/allot/api/answers"
)

// limitsCommand is "allot limits".
type limitsCommand struct {
	List    limitsListCommand    `cmd:"" help:"Print the limits as they are set, with what is used of them."`
	Show    limitsShowCommand    `cmd:"" help:"Print the limits that hold for a project, its own or defaults, and those of the projects above it, with what is used of them."`
	Set     limitsSetCommand     `cmd:"" help:"Set a limit, or remove it."`
	History limitsHistoryCommand `cmd:"" help:"Print what a limit was, the newest first, with the commits that set it."`
	Tree    limitsTreeCommand    `cmd:"" help:"Put a project below another one, whose limits then hold for both together."`
}

// limitsListCommand is "allot limits list".
type limitsListCommand struct {
	serverFlags
	At string `help:"As of a commit's sequence or an RFC 3339 time." placeholder:"MOMENT"`
}

// Run prints a line per limit.
func (c *limitsListCommand) Run(ctx context.Context) error { return c.printLimits(ctx, "", c.At) }

// limitsShowCommand is "allot limits show".
type limitsShowCommand struct {
	serverFlags
	Project string `arg:"" help:"Id of the project."`
	At      string `help:"As of a commit's sequence or an RFC 3339 time." placeholder:"MOMENT"`
}

// Run prints a line per limit.
func (c *limitsShowCommand) Run(ctx context.Context) error {
	return c.printLimits(ctx, c.Project, c.At)
}

func (s serverFlags) printLimits(ctx context.Context, project, at string) error {
	query := url.Values{"project_id": {project}, "at": {at}}
	return ask(ctx, s, "/limits", query, false, func(limits *answers.Limits) error {
		table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
		if _, err := fmt.Fprintln(table, "PROJECT\tOF\tLIMIT\tUSED"); err != nil {
			return err
		}
		for _, l := range limits.Limits {
			who, of, used := cmp.Or(l.Project, "(default)"), l.Class, "-"
			if l.Aggregate != nil {
				who = "(aggregate " + l.Aggregate.String() + ")"
			}
			if l.Type != "" {
				of = "consumers of type " + l.Type
			}
			if l.Used != nil {
				used = fmt.Sprint(*l.Used)
			}
			if _, err := fmt.Fprintf(table, "%s\t%s\t%d\t%s\n", who, of, l.Most, used); err != nil {
				return err
			}
		}
		return table.Flush()
	})
}

// limitsSetCommand is "allot limits set".
type limitsSetCommand struct {
	serverFlags
	Project   string `help:"Id of the project; without it the limit is the default of every project." placeholder:"ID"`
	Aggregate string `help:"Aggregate on whose providers all consumers together are limited." placeholder:"UUID"`
	Class     string `help:"Resource class that is limited." xor:"of" required:"" placeholder:"CLASS"`
	Type      string `help:"Type of consumers whose number is limited." xor:"of" required:"" placeholder:"TYPE"`
	Most      *int64 `help:"How much there may be." xor:"most" required:"" placeholder:"N"`
	None      bool   `help:"Remove the limit." xor:"most" required:""`
}

// Run sets it.
func (c *limitsSetCommand) Run(ctx context.Context) error {
	body := map[string]any{"limit": c.Most}
	for name, value := range map[string]string{
		"project_id": c.Project, "resource_class": c.Class, "consumer_type": c.Type, "aggregate": c.Aggregate,
	} {
		if value != "" {
			body[name] = value
		}
	}
	return c.put(ctx, "/limits", body)
}

// limitsHistoryCommand is "allot limits history".
type limitsHistoryCommand struct {
	serverFlags
	Project   string `help:"Id of the project; without it the limit is the default of every project." placeholder:"ID"`
	Aggregate string `help:"Aggregate whose limit it is." placeholder:"UUID"`
	Class     string `help:"Resource class that is limited." xor:"of" required:"" placeholder:"CLASS"`
	Type      string `help:"Type of consumers whose number is limited." xor:"of" required:"" placeholder:"TYPE"`
	At        string `help:"As of a commit's sequence or an RFC 3339 time." placeholder:"MOMENT"`
}

// Run prints a line per version.
func (c *limitsHistoryCommand) Run(ctx context.Context) error {
	query := url.Values{
		"project_id": {c.Project}, "aggregate": {c.Aggregate}, "resource_class": {c.Class}, "consumer_type": {c.Type},
		"at": {c.At},
	}
	return ask(ctx, c.serverFlags, "/limits/versions", query, false, func(history *answers.LimitVersions) error {
		for _, v := range history.Versions {
			most := "removed"
			if v.Most != nil {
				most = fmt.Sprint(*v.Most)
			}
			if _, err := fmt.Printf("commit %d: %s\n", v.Sequence, most); err != nil {
				return err
			}
		}
		return nil
	})
}

// limitsTreeCommand is "allot limits tree".
type limitsTreeCommand struct {
	serverFlags
	Project string `arg:"" help:"Id of the project."`
	Below   string `help:"Id of the project that it is below; without it, none." placeholder:"ID"`
}

// Run places it.
func (c *limitsTreeCommand) Run(ctx context.Context) error {
	body := map[string]any{"parent_id": nil}
	if c.Below != "" {
		body["parent_id"] = c.Below
	}
	return c.put(ctx, "/projects/"+url.PathEscape(c.Project), body)
}
