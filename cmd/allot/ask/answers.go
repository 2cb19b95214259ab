package ask

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/allot-project/allot/cmd/internal/cli"
	"github.com/allot-project/allot/commands/document"
	"github.com/allot-project/allot/ledger"
)

func (a *asked) facts(facts []fact) error {
	rows := make([]cli.Row, len(facts))
	for i, f := range facts {
		rows[i].Cells = []string{f.name, f.value}
	}
	a.Columns([]string{"name", "value"})
	return a.Rows(rows...)
}

// whole prints answers under their names as one object.
func (a *asked) whole(answers map[string]json.RawMessage) error {
	text, err := ledger.PlainJSON(answers)
	if err != nil {
		return err
	}
	return a.Raw(text)
}

// entity prints one answer as names and values.
func entity(facts func(*asked, any) []fact, part string) func(context.Context, *asked) error {
	return func(ctx context.Context, a *asked) error {
		answer, raw, err := a.read(ctx, a.request(), part)
		if err != nil {
			return err
		}
		found := facts(a, a.readable(ctx, answer))
		if len(found) == 0 {
			return fmt.Errorf("%w: %s", errNothing, a.filled(a.empty))
		}
		return errors.Join(a.whole(map[string]json.RawMessage{a.rows: raw}), a.facts(found))
	}
}

// said reads one answer that has a part, and prints it.
func said(part string, print func(a *asked, answer any) error) func(context.Context, *asked) error {
	return func(ctx context.Context, a *asked) error {
		answer, raw, err := a.read(ctx, a.request(), part)
		if err == nil {
			err = print(a, answer)
		}
		if err != nil {
			return err
		}
		return a.Raw(raw)
	}
}

func provider(ctx context.Context, a *asked) error {
	raw, answers := make(map[string]json.RawMessage), make(map[string]any)
	for _, part := range []struct{ name, path, has string }{
		{"provider", "", "uuid"}, {"inventories", "/inventories", "inventories"}, {"usages", "/usages", "usages"},
		{"aggregates", "/aggregates", "aggregates"}, {"traits", "/traits", "traits"},
	} {
		request := a.request()
		request.Path += part.path
		answer, text, err := a.read(ctx, request, part.has)
		if err != nil {
			return err
		}
		raw[part.name], answers[part.name] = text, answer
	}
	facts := []fact{
		{"uuid", field(answers, "provider.uuid")}, {"name", field(answers, "provider.name")},
		{"generation", field(answers, "provider.generation")},
	}
	if parent := field(answers, "provider.parent_provider_uuid"); parent != "" {
		facts = append(facts, fact{"parent", parent}, fact{"root", field(answers, "provider.root_provider_uuid")})
	}
	for class, one := range members(answers, "inventories.inventories") {
		facts = append(facts, fact{class, fmt.Sprintf("%s of %.0f (%s in all, %s reserved, ratio %s)",
			field(answers, "usages.usages."+class), capacityOf(one), field(one, "total"), field(one, "reserved"),
			ratio(at(one, "allocation_ratio")))})
	}
	none := or("none")
	facts = append(facts, fact{"traits", none(at(answers, "traits.traits"))},
		fact{"aggregates", none(at(answers, "aggregates.aggregates"))})
	return errors.Join(a.whole(raw), a.facts(facts))
}

var errNotReady = errors.New("the server is not ready")

func status(ctx context.Context, a *asked) error {
	health, ready, err := a.read(ctx, cli.Request{Path: "/readyz", AnyStatus: true}, "role")
	if err != nil {
		return err
	}
	raw := map[string]json.RawMessage{"ready": ready}
	facts := []fact{
		{"status", field(health, "status")}, {"role", field(health, "role")}, {"leader", field(health, "leader")},
		{"reads", field(health, "reads")}, {"commands", field(health, "commands")}, {"sequence", field(health, "sequence")},
	}
	if at(health, "role") != "starting" {
		said, answer, err := a.read(ctx, cli.Request{Path: "/audit/status"}, "ledger")
		if err != nil {
			return err
		}
		raw["status"] = answer
		facts = append(facts, fact{"records", field(said, "records")}, fact{"newest", milliseconds(at(said, "time"))},
			fact{"ledger", field(said, "ledger")}, fact{"version", field(said, "version")},
			fact{"signed by", or("no key")(at(said, "key"))})
		if disk := at(said, "disk"); disk != nil {
			facts = append(facts, fact{"disk", fmt.Sprintf("%s free, %s in use; commands are refused below %s", mebibytes(at(disk, "free")),
				mebibytes(at(disk, "data")), mebibytes(at(disk, "reserve")))})
		}
		if scrub := at(said, "scrub"); scrub != nil {
			says := fmt.Sprintf("%s places, after %s rounds", field(scrub, "found"), field(scrub, "rounds"))
			facts = append(facts, fact{"damage", says})
		}
	}
	facts = slices.DeleteFunc(facts, func(f fact) bool { return f.value == "" })
	if err := errors.Join(a.whole(raw), a.facts(facts)); err != nil {
		return err
	}
	if at(health, "status") != "ok" {
		return errNotReady
	}
	return nil
}

// usageOverTime prints a row for each moment, and columns for each class.
func usageOverTime(a *asked, answer any) error {
	classes := make(map[string]bool)
	for _, point := range list(at(answer, "points")) {
		for _, part := range []string{"used", "capacity"} {
			for class := range members(point, part) {
				classes[class] = true
			}
		}
	}
	if len(classes) == 0 {
		return fmt.Errorf("%w: %s %s used nothing then", errNothing, a.given["of"], cli.Clean(a.given["name"]))
	}
	heads, zero := []string{"time", "sequence"}, or("0")
	for _, class := range slices.Sorted(maps.Keys(classes)) {
		heads = append(heads, class)
		if a.given["of"] == "provider" {
			heads = append(heads, class+" capacity")
		}
	}
	var rows []cli.Row
	for _, point := range list(at(answer, "points")) {
		cells := []string{milliseconds(at(point, "time")), field(point, "sequence")}
		for _, head := range heads[2:] {
			class, capacity := strings.CutSuffix(head, " capacity")
			part := "used"
			if capacity {
				part = "capacity"
			}
			cells = append(cells, zero(at(point, part+"."+class)))
		}
		rows = append(rows, cli.Row{Cells: cells})
	}
	a.Columns(heads)
	return a.Rows(rows...)
}

// maxLineBytes is the size of the longest line that is read, in bytes.
const maxLineBytes = 64 << 20

func follow(ctx context.Context, a *asked) error {
	resp, err := a.Send(ctx, a.request())
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }() // nothing was written
	err = a.records(resp.Body)
	if ctx.Err() != nil {
		return nil // the user stopped it
	}
	return err
}

func (a *asked) records(in io.Reader) error {
	a.heads(ofRecords[:4])
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, maxLineBytes)
	for lines.Scan() {
		var line struct {
			ledger.Address
			Time, Actor, Command, Text, Error string
		}
		if err := cli.Decode(lines.Bytes(), &line); err != nil {
			return err
		}
		if line.Error != "" {
			return fmt.Errorf("the server stopped: %s", cli.Clean(line.Error))
		}
		if line.Sequence == 0 {
			return cli.ErrNotAllot
		}
		row := cli.Row{
			Cells: []string{line.String(), milliseconds(line.Time), line.Actor, line.Command}, Details: []string{line.Text},
		}
		if err := errors.Join(a.Raw(lines.Bytes()), a.Rows(row)); err != nil {
			return err
		}
	}
	return lines.Err()
}

func whyHeld(a *asked, answer any) error {
	err := a.Say("after sequence %s %s\n", field(answer, "sequence"), field(answer, "text"))
	a.heads(a.columns)
	err = errors.Join(err, a.section(inWords, list(at(answer, "changes"))))
	if shaped := list(at(answer, "inventories")); len(shaped) > 0 {
		err = errors.Join(err, a.Say("\nthe provider's inventories come from\n"))
		if a.Format != cli.CSV { // which is one table
			a.heads(a.columns)
		}
		once := slices.CompactFunc(shaped, func(one, other any) bool { return at(one, "address") == at(other, "address") })
		err = errors.Join(err, a.section(inWords, once))
	}
	if at(answer, "incomplete") == true {
		err = errors.Join(err, a.Say("\nthis answer is cut off; allot history shows everything"))
	}
	return err
}

// whyNone prints how many providers each filter of a request left.
func whyNone(ctx context.Context, a *asked) error {
	query, err := url.ParseQuery(a.flags.(*whyNot).Candidates)
	if err != nil {
		return fmt.Errorf("--candidates: %w", err)
	}
	request := a.request()
	maps.Copy(request.Query, query)
	request.Query.Set("explain", "true")
	answer, raw, err := a.read(ctx, request, "explanation")
	if err != nil {
		return err
	}
	explanation := at(answer, "explanation")
	var rows []cli.Row
	steps := func(of string, list []any) {
		for _, step := range list {
			rows = append(rows, cli.Row{Cells: []string{of, field(step, "filter"), field(step, "left")}})
		}
	}
	for _, group := range list(at(explanation, "groups")) {
		of := fmt.Sprintf("providers for group %q %s", field(group, "suffix"), field(group, "resource_class"))
		steps(of, list(at(group, "steps")))
	}
	steps("trees", list(at(explanation, "trees")))
	a.Columns([]string{"of", "filter", "left"})
	verdict := fmt.Sprintf("there are candidates (%d in this answer)", len(list(at(answer, "allocation_requests"))))
	if last := field(explanation, "removed_last"); last != "" {
		verdict = "nothing was left after: " + last
	}
	return errors.Join(a.Raw(raw), a.Rows(rows...), a.Say("\n%s", verdict))
}

func countMore(ctx context.Context, a *asked) error {
	flags := a.flags.(*capacity)
	query, err := url.ParseQuery(flags.Request)
	if err != nil {
		return fmt.Errorf("%q is no query such as resources=VCPU:4: %w", flags.Request, err)
	}
	request := a.request()
	maps.Copy(request.Query, query)
	if flags.Domains != "" {
		request.Query.Set("by", "topology")
		a.rows, a.columns = "aggregates", []column{
			col("level", "level"), col("domain", "name"), col("aggregate", "aggregate"), col("capacity", "capacity"),
		}
	}
	a.heads(a.columns)
	for {
		answer, raw, err := a.read(ctx, request, "trees")
		if err != nil {
			return err
		}
		if _, err := a.print(ctx, raw, answer); err != nil {
			return err
		}
		next := field(answer, "next")
		if next != "" && flags.Domains == "" {
			request.Query.Set("marker", next)
			continue
		}
		if flags.Limit > 0 && field(answer, "capacity") == strconv.Itoa(flags.Limit) {
			return a.Say("\nat least %s more fit: counting stopped there, at --limit", field(answer, "capacity"))
		}
		if at(answer, "exact") == true {
			return a.Say("\n%s more fit", field(answer, "capacity"))
		}
		return a.Say("\nat least %s more fit, at most %s", field(answer, "at_least"), field(answer, "at_most"))
	}
}

// outcome prints what some commands would do, as indented JSON.
func outcome(ctx context.Context, a *asked) error {
	flags := *a.flags.(*whatIf)
	flags.Without, flags.Project = slices.Clone(flags.Without), slices.Clone(flags.Project)
	for of, list := range map[string][]string{"provider": flags.Without, "project": flags.Project} {
		for i := range list {
			var err error
			if list[i], err = a.named(ctx, of, list[i]); err != nil {
				return err
			}
		}
	}
	body, err := flags.body()
	if err != nil {
		return err
	}
	parsed, answer, err := a.read(ctx, cli.Request{Method: http.MethodPost, Path: a.path, Body: body}, "sequence")
	if err != nil {
		return err
	}
	if a.Format == cli.JSON {
		return cmp.Or(a.Raw(answer), unanswered(parsed))
	}
	text, err := cli.CleanJSON(answer)
	if err != nil {
		return err
	}
	var out bytes.Buffer
	if err := json.Indent(&out, text, "", "  "); err != nil {
		return err
	}
	_, err = fmt.Fprintln(a.Out, &out)
	return cmp.Or(err, unanswered(parsed))
}

// unanswered is the first of the questions that has no answer.
func unanswered(outcome any) error {
	for _, one := range list(at(outcome, "answers")) {
		if why := field(one, "error"); why != "" {
			return fmt.Errorf("%s was not answered: %s", field(one, "query"), cli.Clean(why))
		}
	}
	return nil
}

// body is what is sent: the contents of the file, and what flags add.
func (c *whatIf) body() (map[string]any, error) {
	var asked struct {
		Steps     []any `json:"steps"`
		Questions []any `json:"questions"`
	}
	if c.File != "" {
		if err := readFile(c.File, &asked); err != nil {
			return nil, err
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
		groups := []m{{"resources": resources}}
		for _, query := range []string{"Candidates", "Capacity"} {
			asked.Questions = append(asked.Questions, m{"query": query, "body": m{"groups": groups}})
		}
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

// readFile reads the JSON of a file, or of standard input.
func readFile(name string, into any) error {
	read := os.ReadFile
	if name == "-" {
		read = func(string) ([]byte, error) { return io.ReadAll(os.Stdin) }
	}
	data, err := read(name)
	if err != nil {
		return err
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	dec.UseNumber()
	if err := cmp.Or(document.Check(data), dec.Decode(into)); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

func topology(_ *asked, answer any) []fact {
	facts := []fact{{"levels", shown(at(answer, "levels"))}}
	for id, member := range members(answer, "members") {
		one := field(member, "level") + " " + field(member, "name")
		if parent := field(member, "parent"); parent != "" {
			one += " in " + parent
		}
		facts = append(facts, fact{id, one})
	}
	return facts
}

var ofMembers = []column{
	col("name", "name"), col("role", "").as(role), col("http", "http"), col("sequence", "sequence"),
	col("lag", "lag_commits"), col("behind", "lag_seconds").as(seconds), col("version", "version"),
	col("up", "since").as(up),
}

func role(member any) string {
	if joining := at(member, "joining"); joining != nil {
		return fmt.Sprintf("%s (%s of %s from %s)", field(member, "role"), mebibytes(at(joining, "bytes")),
			mebibytes(at(joining, "of")), field(joining, "from"))
	}
	return field(member, "role")
}

func seconds(value any) string {
	return time.Duration(number(value) * float64(time.Second)).Round(time.Millisecond).String()
}

func up(value any) string {
	return time.Since(time.Unix(int64(number(value)), 0)).Round(time.Second).String()
}
