package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"text/tabwriter"

	"github.com/allot-project/allot/api/answers"
)

// preferencesCommand is "allot preferences".
type preferencesCommand struct {
	List   preferencesListCommand   `cmd:"" help:"Print the preferences that have names."`
	Show   preferencesShowCommand   `cmd:"" help:"Print a preference, and what it was before."`
	Set    preferencesSetCommand    `cmd:"" help:"Give a preference a name, or change what one says."`
	Remove preferencesRemoveCommand `cmd:"" help:"Remove a preference."`
}

// preferencesListCommand is "allot preferences list".
type preferencesListCommand struct {
	serverFlags
	At string `help:"As of a commit's sequence or an RFC 3339 time." placeholder:"MOMENT"`
}

// Run prints a line per preference.
func (c *preferencesListCommand) Run(ctx context.Context) error {
	return ask(ctx, c.serverFlags, "/preferences", url.Values{"at": {c.At}}, false, func(all *answers.Preferences) error {
		table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
		if _, err := fmt.Fprintln(table, "NAME\tSINCE\tPREFERS"); err != nil {
			return err
		}
		for _, p := range all.Preferences {
			if _, err := fmt.Fprintf(table, "%s\t%d\t%s\n", p.Name, p.Sequence, p.Prefer.Text()); err != nil {
				return err
			}
		}
		return table.Flush()
	})
}

// preferencesShowCommand is "allot preferences show".
type preferencesShowCommand struct {
	serverFlags
	Name string `arg:"" help:"Name of the preference."`
	At   string `help:"As of a commit's sequence or an RFC 3339 time." placeholder:"MOMENT"`
}

// Run prints a line per version, the newest first.
func (c *preferencesShowCommand) Run(ctx context.Context) error {
	path := "/preferences/" + url.PathEscape(c.Name)
	return ask(ctx, c.serverFlags, path, url.Values{"at": {c.At}}, false, func(one *answers.PreferenceHistory) error {
		for _, version := range one.Versions {
			text := "removed"
			if version.Prefer != nil {
				text = version.Prefer.Text()
			}
			if _, err := fmt.Printf("commit %d: %s\n", version.Sequence, text); err != nil {
				return err
			}
		}
		return nil
	})
}

// preferencesSetCommand is "allot preferences set".
type preferencesSetCommand struct {
	serverFlags
	Name   string `arg:"" help:"Name of the preference."`
	Prefer string `arg:"" help:"What is preferred, as JSON." placeholder:"JSON"`
}

// Run sets it.
func (c *preferencesSetCommand) Run(ctx context.Context) error {
	if !json.Valid([]byte(c.Prefer)) {
		return fmt.Errorf("%q is not JSON: give what a claim's prefer is, such as '{\"order\":\"pack\"}'", c.Prefer)
	}
	body := map[string]any{"prefer": json.RawMessage(c.Prefer)}
	return c.put(ctx, "/preferences/"+url.PathEscape(c.Name), body)
}

// preferencesRemoveCommand is "allot preferences remove".
type preferencesRemoveCommand struct {
	serverFlags
	Name string `arg:"" help:"Name of the preference."`
}

// Run removes it.
func (c *preferencesRemoveCommand) Run(ctx context.Context) error {
	return c.put(ctx, "/preferences/"+url.PathEscape(c.Name), map[string]any{"prefer": nil})
}
