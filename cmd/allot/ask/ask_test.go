package ask

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"unicode"

	"github.com/alecthomas/kong"

	"github.com/allot-project/allot/cmd/internal/cli"
	"github.com/allot-project/allot/cmd/internal/launchtest"
	"github.com/allot-project/allot/ledger/ledgertest"
)

const (
	one = "11111111-1111-4111-8111-111111111111"
	two = "22222222-2222-4222-8222-222222222222"
)

// recorded are answers of a server, by path, with NAME where a name of clients stands.
var recorded = func() (answers map[string]json.RawMessage) {
	text, err := os.ReadFile("testdata/answers.json")
	if err == nil {
		err = json.Unmarshal(text, &answers)
	}
	if err != nil {
		panic(err)
	}
	return answers
}()

// asks are the parameters of all questions, as asks.txt has them.
var asks = sync.OnceValue(func() map[string][]string {
	found := make(map[string][]string)
	for _, line := range ledgertest.Asked("testdata/asks.txt") {
		words := strings.Fields(line)
		name := nameOf(words)
		found[name] = words[len(strings.Fields(name)):]
	}
	return found
})

// nameOf is the question with which a command line begins.
func nameOf(words []string) string {
	for n := len(words); n > 0; n-- {
		name := strings.Join(words[:n], " ")
		if _, known := table[name]; known {
			return name
		}
	}
	return strings.Join(words, " ")
}

// hostile is a name that hides, forges a row, and moves the cursor.
const hostile = "=x\x1b]0;pwned\x07\nforged-row\r\u009b2J\u202eevil\u200b\u2066\u2028\ufeff\U000e0041\x7f"

// server answers as recorded, with a name in the place of NAME.
func server(t *testing.T, name string) string {
	t.Helper()
	quoted, err := json.Marshal(name)
	ledgertest.OK(t, err)
	stepped := false
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodPut || r.Method == http.MethodDelete:
			w.WriteHeader(http.StatusNoContent)
			return
		case r.Method == http.MethodPost && strings.HasPrefix(r.URL.Path, "/cluster"):
			stepped = true
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.Copy(w, r.Body)
			return
		}
		found, known := recorded[r.URL.Path]
		if !known {
			http.Error(w, "no such path: "+r.URL.Path, http.StatusNotFound)
			return
		}
		answer := string(found)
		if stepped && r.URL.Path == "/healthz" {
			answer = `{"role":"leader","leader":"two","term":4}`
		}
		answer = strings.ReplaceAll(answer, "NAME", strings.Trim(string(quoted), `"`))
		if r.URL.Path == "/audit/records" {
			answer = strings.ReplaceAll(answer, "\n", "") + "\n"
		}
		_, _ = w.Write([]byte(answer)) // the test sees what is missing
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// run asks a question with the parameters of the table, and more.
func run(t *testing.T, url, name string, more ...string) (string, error) {
	t.Helper()
	return call(t, url, slices.Concat(strings.Fields(name), asks()[name], more)...)
}

// call runs a command line.
func call(t *testing.T, url string, args ...string) (string, error) {
	t.Helper()
	known := filepath.Join(t.TempDir(), "known.json")
	launchtest.Write(t, known, `[{"ID": "`+two+`", "Name": "other"}]`)
	args = append(args, "--url", url)
	for i := range args {
		switch args[i] {
		case "$KNOWN":
			args[i] = known
		case "$ANSWERS":
			args[i] = "testdata/answers.json"
		}
	}
	var out bytes.Buffer
	parser, err := kong.New(&questions{}, kong.Name("allot"), kong.Writers(&out, io.Discard), kong.PostBuild(Describe),
		kong.BindTo(t.Context(), (*context.Context)(nil)), kong.Exit(func(int) { panic("exit") }))
	ledgertest.OK(t, err)
	parsed, err := parser.Parse(args)
	if err != nil {
		t.Fatalf("%v: %v", args, err)
	}
	err = parsed.Run()
	return out.String(), err
}

// questions are all commands that ask a server.
type questions struct {
	Commands `embed:""`
	Cluster  Cluster `cmd:""`
}

// TestEveryCommandHasARow: the commands, the table and the tests are about the same questions, and
// each help has an example.
func TestEveryCommandHasARow(t *testing.T) {
	parser, err := kong.New(&questions{}, kong.PostBuild(Describe))
	ledgertest.OK(t, err)
	found := make(map[string]bool)
	for _, node := range parser.Model.Leaves(false) {
		found[node.Path()] = true
		row, is := table[node.Path()]
		if _, tested := asks()[node.Path()]; !is || !tested {
			t.Errorf("%s: it is in the table: %v, in the test: %v", node.Path(), is, tested)
		}
		if node.Help == "" || !strings.HasPrefix(row.example, node.Path()) || !strings.HasSuffix(node.Detail, row.example) {
			t.Errorf("%s: help %q, example %q", node.Path(), node.Help, node.Detail)
		}
	}
	for name := range table {
		if !found[name] {
			t.Errorf("%s is no command", name)
		}
	}
}

// untilNow is a time from what was recorded to now.
var untilNow = regexp.MustCompile(`\d{4,}h\d+m\d+s`)

// TestAnswersArePrinted: each question prints what the recorded answers say.
func TestAnswersArePrinted(t *testing.T) {
	ledgertest.Answers(t, "testdata/asks.txt", func(line, _ string) string {
		out, err := call(t, server(t, "somename"), strings.Fields(line)...)
		if err != nil {
			t.Errorf("%s: %v", line, err)
		}
		return untilNow.ReplaceAllString(out, "UP")
	})
}

// TestHostileNamesStayInTheirCell: names of clients that hide, turn, forge rows or move the cursor
// change nothing but their own cell, whatever is asked, in each format, and JSON stays JSON.
func TestHostileNamesStayInTheirCell(t *testing.T) {
	for name := range asks() {
		for _, format := range []string{"", "--csv", "--json"} {
			var more []string
			if format != "" {
				more = []string{format}
			}
			tame, err := run(t, server(t, "=x"), name, more...)
			if err != nil {
				t.Fatalf("%s %s: %v", name, format, err)
			}
			out, err := run(t, server(t, hostile), name, more...)
			if err != nil {
				t.Errorf("%s %s: %v", name, format, err)
			}
			if i := strings.IndexFunc(out, func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }); i >= 0 {
				t.Errorf("%s %s prints %q", name, format, out[i:min(i+20, len(out))])
			}
			if strings.Count(out, "\n") != strings.Count(tame, "\n") {
				t.Errorf("%s %s: a name has forged rows:\n%s", name, format, out)
			}
			for _, line := range strings.Split(out, "\n") {
				if format == "--json" && line != "" && !json.Valid([]byte(line)) {
					t.Errorf("%s --json prints %q", name, line)
				}
				if format == "--csv" && (strings.HasPrefix(line, "=") || strings.Contains(line, ",=")) && name != "what-if" {
					t.Errorf("%s: a spreadsheet would compute %q", name, line)
				}
			}
		}
	}
}

// nextStep is what the errors about answers that are none of Allot's say.
var nextStep = regexp.MustCompile(`check --url|is this an Allot server\?|ALLOT_TOKEN`)

// TestTroubleIsSaidInWords: what a server answers that is none, or that refuses, becomes a sentence
// with the next step, and never raw JSON, HTML or the text of a library.
func TestTroubleIsSaidInWords(t *testing.T) {
	answering := func(status int, kind, body string) string {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", kind)
			w.WriteHeader(status)
			_, _ = w.Write([]byte(body))
		}))
		t.Cleanup(s.Close)
		return s.URL
	}
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	secure := httptest.NewUnstartedServer(http.NotFoundHandler())
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	secure.StartTLS()
	defer secure.Close()
	rows := []struct{ url, says string }{
		{gone.URL, "nothing listens there"},
		{answering(403, "text/plain", "not for you\n"), "the server answered 403 Forbidden: not for you"},
		{answering(409, "application/json", `{"errors":[{"detail":"There was a conflict.\n\n no room "}]}`), "the server answered 409 Conflict: no room"},
		{answering(404, "application/json", `{"error_message":"{\"faultstring\":\"no node\"}"}`), "the server answered 404 Not Found: no node"},
		{answering(401, "application/json", `{}`), ""},
		{answering(500, "text/html", "<html>"), ""},
		{answering(500, "text/plain", "a\x1b[2Jb"), "the server answered 500 Internal Server Error: a\\x1b[2Jb"},
		{answering(200, "text/html", "<html>"), ""},
		{answering(200, "application/json", "[]"), ""},
		{secure.URL, "is not trusted"},
		{"http://" + strings.TrimPrefix(secure.URL, "https://"), "speaks TLS"},
		{"https://" + strings.TrimPrefix(server(t, "x"), "http://"), "speaks no TLS"},
	}
	all := []string{"status", "list traits", "what-if", "orphans", "limits set", "cluster step-down"} // each its own way
	for name := range asks() {
		asked := rows
		if !slices.Contains(all, name) {
			asked = rows[5:9] // the same client speaks for each, and each reads its answer itself
		}
		for _, row := range asked {
			out, err := run(t, row.url, name)
			if name == "status" && strings.HasPrefix(row.says, "the server answered 4") {
				row.says = "" // it takes answers in JSON that say no
			}
			if err == nil || !strings.Contains(cli.Words(err), row.says) || strings.ContainsAny(err.Error(), "<{\x1b") {
				t.Errorf("%s of %s: %q, %v; want an error with %q", name, row.url, out, err, row.says)
			}
			if row.says == "" && name != "status" && err != nil && !nextStep.MatchString(err.Error()) {
				t.Errorf("%s of %s: %v", name, row.url, err)
			}
		}
	}
}

// TestTokensStayWithTheirServer: a redirect to another origin is not followed, one to the same is.
func TestTokensStayWithTheirServer(t *testing.T) {
	asked := ""
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { asked = r.URL.Path }))
	defer other.Close()
	s := httptest.NewServer(http.RedirectHandler(other.URL+"/elsewhere", http.StatusTemporaryRedirect))
	defer s.Close()
	for name := range asks() {
		_, err := run(t, s.URL, name)
		launchtest.Says(t, fmt.Sprint(err), "redirects to another server")
	}
	if asked != "" {
		t.Errorf("another server was asked %s", asked)
	}
	here := http.NewServeMux()
	here.Handle("/traits", http.RedirectHandler("/there", http.StatusTemporaryRedirect))
	here.HandleFunc("/there", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(recorded["/traits"]) })
	same := httptest.NewServer(here)
	defer same.Close()
	if out, err := run(t, same.URL, "list traits"); err != nil || !strings.Contains(out, "NAME") {
		t.Errorf("%q, %v", out, err)
	}
}

// TestListsGoOn: a list is read page by page, and a history no further than its limit.
func TestListsGoOn(t *testing.T) {
	var asked []string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.RawQuery)
		next := ""
		if len(asked)%3 != 0 {
			next = `,"next":"` + one + `"`
		}
		switch r.URL.Path {
		case "/audit/history":
			_, _ = w.Write([]byte(`{"entries":[{"address":"7.0"},{"address":"6.0"}]` + next + `}`))
		case "/baremetal/v1/nodes":
			_, _ = w.Write([]byte(`{"nodes":[{"uuid":"` + two + `"}]` + next + `}`))
		default:
			_, _ = w.Write([]byte(`{"sequence":9,"consumers":[{"consumer":"` + two + `"}]` + next + `}`))
		}
	}))
	defer s.Close()
	for _, row := range []struct {
		name string
		rows int
		last string
	}{
		{"list consumers", 3, "after=" + one + "&at=9"},
		{"list nodes", 3, "fields=uuid%2Cname%2Cprovision_state%2Cresource_class%2Cinstance_uuid&marker=" + two},
		{"history provider " + one + " --limit 3", 4, "before=" + one + "&limit=1&provider=" + one},
		{"history provider " + one + " --limit 0", 6, "before=" + one + "&limit=1000&provider=" + one},
	} {
		asked = nil
		out, err := call(t, s.URL, append(strings.Fields(row.name), "--csv")...)
		if err != nil || strings.Count(out, "\n") != row.rows+1 || asked[len(asked)-1] != row.last {
			t.Errorf("%s: %v, %d rows, asked %q", row.name, err, strings.Count(out, "\n")-1, asked)
		}
	}
}

// TestABoundIsSaid: what stops at a bound says so, and what is whole does not.
func TestABoundIsSaid(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write([]byte(`{"entries":[{"address":"7.0"}],"next":"7.0","incomplete":true,"rejections":[{}]}`))
	}))
	defer s.Close()
	for line, says := range map[string]string{
		"history provider " + one + " --limit 1": "there may be more than these 1; a higher --limit prints more", "timeline --limit 2": "these 2",
		"rejected --limit 1": "these 1",
	} {
		if out, err := call(t, s.URL, strings.Fields(line)...); err != nil || !strings.Contains(out, says) {
			t.Errorf("%s: %q, %v", line, out, err)
		}
	}
	if out, err := call(t, server(t, "x"), "history", "provider", one, "--limit", "1"); err != nil || strings.Contains(out, "may be more") {
		t.Errorf("%q, %v", out, err)
	}
}

// TestConsumersAreKnownInEachForm: orphans are found with a list of lines, nova's, and that of
// openstack server list; an empty list and what is none are refused.
func TestConsumersAreKnownInEachForm(t *testing.T) {
	url := server(t, "x")
	for text, says := range map[string]string{
		two + " # a comment\n\n":                       "",
		`{"servers":[{"id":"` + two + `"}]}`:           "",
		` [{"ID": "` + two + `", "Status": "ACTIVE"}]`: "",
		"[]":                      "--consumers is empty: every consumer would count as an orphan",
		"\n# nothing\n":           "--consumers is empty: every consumer would count as an orphan",
		"hello":                   `line 1: "hello" is not a uuid`,
		`[{"Name": "x"}]`:         `server "" has no uuid`,
		`{"flavors": []}`:         "this is no list of servers",
		`[{"ID": "` + two + `"},`: "this is no list of servers",
	} {
		file := filepath.Join(t.TempDir(), "known")
		launchtest.Write(t, file, text)
		out, err := call(t, url, "orphans", "--consumers", file)
		switch {
		case says == "" && (err != nil || !strings.Contains(out, "orphan   "+one)):
			t.Errorf("%q: %q, %v", text, out, err)
		case says != "" && (err == nil || !strings.Contains(err.Error(), says) || out != ""):
			t.Errorf("%q: %q, %v; want %q", text, out, err, says)
		}
	}
}
