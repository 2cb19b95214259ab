package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"

	"github.com/allot-project/allot/ledger"
)

// whatIfCommand is "allot what-if": it shows the outcome of some commands.
type whatIfCommand struct {
	serverFlags `embed:""`
	At          string   `help:"Begin at this sequence or RFC 3339 time; default: now."`
	Without     []string `help:"Providers (uuids) to remove, with their descendants." placeholder:"UUID"`
	File        string   `arg:"" optional:"" help:"JSON: {\"steps\": [{\"command\": NAME, \"body\": {...}}], \"questions\": [{\"query\": NAME, \"body\": {...}}]}; -: standard input." `
	Resources   []string `help:"Ask for candidates for these amounts, CLASS=AMOUNT." placeholder:"CLASS=AMOUNT"`
	Project     []string `help:"Ask for the usages of these projects." placeholder:"ID"`
}

// Run sends the steps and questions, and prints the answer.
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
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswerBytes))
	if err != nil {
		return err
	}
	answer, err := answerIn[any](text)
	if err != nil {
		return err
	}
	out := ledger.PlainEncoder(os.Stdout)
	out.SetIndent("", "  ")
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
		asked.Questions = append(
			asked.Questions, m{"query": "Candidates", "body": m{"groups": []m{{"resources": resources}}}},
		)
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
