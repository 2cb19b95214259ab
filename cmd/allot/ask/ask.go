// Package ask holds the commands that ask a running server: one table of questions
// (table.go), with their parameters (commands.go) and words (values.go), and what asks them.
package ask

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/allot-project/allot/api/present/sentences"
	"github.com/allot-project/allot/cmd/internal/cli"
	"github.com/allot-project/allot/ledger"
)

// errNothing means that there is nothing of what was asked for. The program then exits with 1.
var errNothing = errors.New("nothing found")

// question is a row of the table: what is asked of a server, and how the answer is printed.
type question struct {
	example string            // how to ask, for the help
	path    string            // of the REST API; {name} stands for a parameter
	header  map[string]string // versions of the APIs whose answers are printed
	query   map[string]string // parameters that are always the same

	rows    string   // the name of the rows in an answer
	columns []column // of the rows
	details func(row any) []string
	before  func(answer any) string // a sentence above the rows
	after   func(answer any) string // and below; empty: none

	next  func(answer any, rows []any) url.Values // what the next page's query has in addition; nil: there is no more
	page  int                                     // rows of a page, if --limit counts those of all pages
	told  bool                                    // the answer has sentences
	empty string                                  // the error if there are no rows; {name} stands for a parameter

	// answer asks and prints where rows of one answer are not enough.
	answer func(ctx context.Context, a *asked) error
}

type column struct {
	head  string
	at    string // where it is in a row
	words func(value any) string
	width int // at least
}

func col(head, at string) column { return column{head: head, at: at} }

// as says the part in words.
func (c column) as(words func(any) string) column {
	c.words = words
	return c
}

// wide makes it at least so wide.
func (c column) wide(width int) column {
	c.width = width
	return c
}

type asked struct {
	*cli.Client
	*cli.Printer
	question
	given    map[string]string // parameters by name
	flags    any               // the command's flags
	notes    io.Writer         // for what is no part of the answer
	wholeIDs bool              // ids are printed whole
}

// Question has the flags that all questions share.
type Question struct {
	cli.Server `embed:""`
	IDs        bool `name:"ids" help:"Print whole ids, in place of names and short ids."`
	CSV        bool `name:"csv" help:"Print rows of comma-separated values." xor:"form"`
	JSON       bool `name:"json" help:"Print the answers as JSON, one a line." xor:"form"`
}

// Run asks the question that the command line names, and prints the answer.
func (q *Question) Run(ctx context.Context, parsed *kong.Context) error {
	client, err := q.Client()
	if err != nil {
		return err
	}
	node := parsed.Selected()
	a := &asked{
		Client: client, Printer: &cli.Printer{Out: parsed.Stdout}, question: table[node.Path()],
		given: make(map[string]string), flags: node.Target.Addr().Interface(), notes: parsed.Stderr, wholeIDs: q.IDs,
	}
	if q.IDs && a.told {
		a.given["whole_ids"] = "true"
	}
	switch {
	case q.JSON:
		a.Format = cli.JSON
	case q.CSV:
		a.Format = cli.CSV
	}
	if err := a.take(ctx, node); err != nil {
		return err
	}
	if a.answer != nil {
		return a.answer(ctx, a)
	}
	return a.list(ctx)
}

// Describe adds the examples to the help of the commands.
func Describe(parser *kong.Kong) error {
	for _, node := range parser.Model.Leaves(false) {
		if one, is := table[node.Path()]; is {
			node.Detail = "Example:\n\n  allot " + one.example
		}
	}
	return nil
}

// take reads the parameters of the command. Names, and beginnings of uuids, become uuids.
func (a *asked) take(ctx context.Context, node *kong.Node) error {
	values := slices.Clone(node.Positional)
	for _, flag := range node.Flags {
		values = append(values, flag.Value)
	}
	names := make(map[string]string)
	for i, value := range values {
		name := value.Tag.Get("query")
		if name == "" {
			continue
		}
		wanted := i < len(node.Positional) && value.Required || value.HasDefault
		if text, is := value.Target.Interface().(string); is && text == "" && wanted {
			return fmt.Errorf("%s: it must not be empty", value.Summary())
		}
		if value.Target.IsZero() && value.Tag.Get("least") == "" {
			continue // it was not given
		}
		if of := value.Tag.Get("of"); of != "" {
			names[name] = of
		}
		a.given[name] = fmt.Sprint(value.Target.Interface())
	}
	if of := a.given["of"]; of != "" { // a parameter has the name of its kind
		a.given[of] = a.given["name"]
		names[of] = of
	}
	for name, of := range names {
		id, err := a.named(ctx, of, a.given[name])
		if err != nil {
			return err
		}
		a.given[name] = id
	}
	return nil
}

// haveNames are the kinds whose names stand for uuids.
var haveNames = []string{"provider", "consumer", "node", "node_allocation", "chassis", "project", "aggregate"}

// named finds the uuid for a name, at the moment that the question is about.
func (a *asked) named(ctx context.Context, of, name string) (string, error) {
	if _, err := ledger.ParseUUID(name); err == nil || !slices.Contains(haveNames, of) {
		return name, nil
	}
	query := url.Values{"q": {name}}
	if at := a.given["at"]; at != "" {
		query.Set("at", at)
	}
	found, _, err := a.read(ctx, cli.Request{Path: "/audit/find", Query: query}, "found")
	if err != nil {
		return "", err
	}
	var ids []string
	for _, one := range list(at(found, "found")) {
		if field(one, "of") == of {
			ids = append(ids, field(one, "name"))
		}
	}
	switch {
	case len(ids) == 1:
		return ids[0], nil
	case len(ids) > 1:
		return "", fmt.Errorf("%q may be %s: give more of it", name, strings.Join(ids, ", "))
	case of == "project":
		return name, nil // what it is, if there is one, the answer tells
	}
	return "", fmt.Errorf("%w: no %s has the name %q, or a uuid that begins with it", errNothing, of, name)
}

// idsAt are the parts of answers that are uuids or ids.
var idsAt = []string{
	"aggregate", "chassis", "consumer", "node", "node_allocation", "node_uuid", "parent", "parent_id", "project",
	"project_id", "provider", "root", "user", "user_id",
}

// maxNamesAsked is how many names are asked for at once.
const maxNamesAsked = 200

// readable returns an answer with names in the place of uuids and ids, and short ids where
// there are none, unless it is for a program.
func (a *asked) readable(ctx context.Context, answer any) any {
	if a.wholeIDs || a.Format != cli.Text {
		return answer
	}
	ids := make(map[string]string)
	replaced(answer, func(id string) string { ids[id] = sentences.Short(id); return id })
	for some := range slices.Chunk(slices.Sorted(maps.Keys(ids)), maxNamesAsked) {
		query := url.Values{"ids": {strings.Join(some, ",")}}
		if at := a.given["at"]; at != "" {
			query.Set("at", at)
		}
		if found, _, err := a.read(ctx, cli.Request{Path: "/audit/names", Query: query}, "names"); err == nil { // ids do, too
			for id, name := range members(found, "names") {
				ids[id] = text(name)
			}
		}
	}
	return replaced(answer, func(id string) string { return ids[id] })
}

// replaced returns a copy of an answer with other ids. What has its name beside it has a short id.
func replaced(value any, with func(id string) string) any {
	switch v := value.(type) {
	case []any:
		copied := make([]any, len(v))
		for i := range v {
			copied[i] = replaced(v[i], with)
		}
		return copied
	case map[string]any:
		copied := make(map[string]any, len(v))
		for key, part := range v {
			id, isText := part.(string)
			switch byID, isMap := part.(map[string]any); {
			case isText && id != "" && slices.Contains(idsAt, key):
				if part = with(id); part == v["name"] {
					part = sentences.Short(id)
				}
			case isMap && key == "allocations": // by provider
				held := make(map[string]any, len(byID))
				for provider, one := range byID {
					held[with(provider)] = one
				}
				part = held
			default:
				part = replaced(part, with)
			}
			copied[key] = part
		}
		return copied
	}
	return value
}

// read gets an answer. One that lacks a part is not Allot's.
func (a *asked) read(ctx context.Context, request cli.Request, part string) (answer any, raw []byte, err error) {
	if raw, err = a.ReadJSON(ctx, request, &answer); err != nil {
		return nil, nil, err
	}
	object, _ := answer.(map[string]any)
	if _, has := object[part]; !has {
		return nil, nil, cli.ErrNotAllot
	}
	return answer, raw, nil
}

// request is the question as a request, with the parameters where they belong.
func (a *asked) request() cli.Request {
	query, path := url.Values{}, a.path
	for name, value := range a.query {
		query.Set(name, value)
	}
	for name, value := range a.given {
		if name == "of" || name == "name" && a.given["of"] != "" {
			continue
		}
		if at := "{" + name + "}"; strings.Contains(path, at) {
			path = strings.ReplaceAll(path, at, url.PathEscape(value))
			continue
		}
		query.Set(name, value)
	}
	return cli.Request{Path: path, Query: query, Header: a.header}
}

func (a *asked) heads(columns []column) {
	names, widths := make([]string, len(columns)), make([]int, len(columns))
	for i, c := range columns {
		names[i], widths[i] = c.head, c.width
	}
	a.Columns(names, widths...)
}

// list asks page by page, and prints the rows.
func (a *asked) list(ctx context.Context) error {
	a.heads(a.columns)
	request, found := a.request(), 0
	limit, _ := strconv.Atoi(a.given["limit"]) // 0: all
	rest := false                              // more than is printed
	for more := true; more; {
		if a.page > 0 {
			request.Query.Set("limit", strconv.Itoa(a.page))
			if limit > 0 {
				request.Query.Set("limit", strconv.Itoa(min(a.page, limit-found)))
			}
		}
		answer, raw, err := a.read(ctx, request, a.rows)
		if err != nil {
			return err
		}
		rows, err := a.print(ctx, raw, answer)
		if err != nil {
			return err
		}
		found += len(rows)
		rest, more, a.before = at(answer, "incomplete") == true, false, nil
		if a.next != nil {
			further := a.next(answer, rows)
			maps.Copy(request.Query, further)
			more = further != nil && (limit == 0 || found < limit)
			rest = rest || further != nil && !more
		}
	}
	if rest {
		further := ""
		if limit > 0 {
			further = "; a higher --limit prints more"
		}
		return a.Say("\nthere may be more than these %d%s", found, further)
	}
	if found == 0 && a.empty != "" {
		return fmt.Errorf("%w: %s", errNothing, a.filled(a.empty))
	}
	return nil
}

func (a *asked) filled(text string) string {
	for name, value := range a.given {
		text = strings.ReplaceAll(text, "{"+name+"}", cli.Clean(value))
	}
	return text
}

// print prints an answer, and returns its rows.
func (a *asked) print(ctx context.Context, raw []byte, answer any) ([]any, error) {
	found := list(at(answer, a.rows))
	if a.page > 0 && a.Format == cli.JSON {
		return found, a.entries(raw)
	}
	if err := a.Raw(raw); err != nil || a.Format == cli.JSON {
		return found, err
	}
	shown := list(at(a.readable(ctx, answer), a.rows))
	if err := errors.Join(a.sentence(a.before, answer), a.section(a.details, shown)); err != nil {
		return nil, err
	}
	return found, a.sentence(a.after, answer)
}

// items returns the items of a list in an answer as they came.
func items(raw []byte, name string) (list []json.RawMessage, err error) {
	var parts map[string]json.RawMessage
	if err := cli.Decode(raw, &parts); err != nil {
		return nil, err
	}
	return list, cli.Decode(parts[name], &list)
}

// entries prints the rows of an answer as JSON, each on a line.
func (a *asked) entries(raw []byte) error {
	rows, err := items(raw, a.rows)
	for _, row := range rows {
		err = errors.Join(err, a.Raw(row))
	}
	return err
}

func (a *asked) sentence(words func(any) string, answer any) error {
	if words == nil || words(answer) == "" {
		return nil
	}
	return a.Say("%s", words(answer))
}

// section prints rows in the question's columns, with details of each if there are such words.
func (a *asked) section(details func(any) []string, found []any) error {
	rows := make([]cli.Row, len(found))
	for i, of := range found {
		for _, c := range a.columns {
			words := c.words
			if words == nil {
				words = text
			}
			rows[i].Cells = append(rows[i].Cells, words(at(of, c.at)))
		}
		if details != nil {
			rows[i].Details = details(of)
		}
	}
	return a.Rows(rows...)
}
