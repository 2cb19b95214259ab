package resttest

import (
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/commandstest"
	"github.com/allot-project/allot/commands/encoding"
	"github.com/allot-project/allot/ledger/ledgertest"
)

// World is a new ledger, and an API over it.
type World struct {
	*commandstest.Ledger
	Handler http.Handler
	// Version sets the header of a microversion.
	Version func(header http.Header, version string)
	// After, unless it is nil, looks at each answer.
	After func(r *http.Request, answer *httptest.ResponseRecorder)
}

// Play plays the transcripts in testdata, each in worlds that open makes; title is FILE/WORLD.
func Play(t *testing.T, open func(t *testing.T, title string) *World) {
	t.Helper()
	entries, err := os.ReadDir("testdata")
	ledgertest.OK(t, err)
	for _, entry := range entries {
		name, isTranscript := strings.CutSuffix(entry.Name(), ".txt")
		if !isTranscript {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join("testdata", entry.Name())
			text := commandstest.Must(os.ReadFile(path))
			if changed := PlayText(t, path, string(text), open); changed != string(text) {
				ledgertest.OK(t, os.WriteFile(path, []byte(changed), 0o600))
			}
		})
	}
}

// PlayText plays one transcript. It returns the text as -update changes it.
func PlayText(t *testing.T, path, text string, open func(t *testing.T, title string) *World) string {
	t.Helper()
	script := read(text)
	if len(script.strays) > 0 {
		t.Fatalf("%s: these lines belong to no request: %q", path, script.strays)
	}
	changes := make(map[*Exchange][]string)
	play := func(t *testing.T, title string, exchanges []*Exchange) {
		p := &play{World: open(t, title), t: t, path: path, values: maps.Clone(script.names)}
		for _, x := range exchanges {
			answer := p.send(x)
			now, wrong := p.check(x.texts, answer)
			switch {
			case ledgertest.Updating():
				changes[x] = now
			case len(wrong) > 0:
				t.Errorf("%s:%d: %s %.300s: %d %.2000s %v\nis not as it should be: %q",
					path, x.number, x.Method, x.Target, answer.Code, answer.Body, answer.Header(), wrong)
			}
		}
	}
	name, begin := strings.TrimSuffix(filepath.Base(path), ".txt"), script.worlds[0].exchanges
	if len(script.worlds) == 1 {
		play(t, name, begin)
	}
	for _, world := range script.worlds[1:] {
		t.Run(world.title, func(t *testing.T) { play(t, name+"/"+world.title, slices.Concat(begin, world.exchanges)) })
	}
	return script.with(changes)
}

// play is a world in which exchanges are played.
type play struct {
	*World
	t      *testing.T
	path   string
	values map[string]string // that the file and answers gave to names
}

// check compares an answer with the texts that it must have: it returns those that hold, with what is told of the
// answer in the place of others, and what is wrong.
func (p *play) check(texts []string, answer *httptest.ResponseRecorder) (now, wrong []string) {
	if len(texts) == 0 {
		return []string{p.told(answer)}, []string{"no answer is expected"}
	}
	status, text, _ := strings.Cut(texts[0], " ")
	if status == strconv.Itoa(answer.Code) && p.has(text, answer) {
		now = texts[:1:1]
	} else {
		now, wrong = []string{p.told(answer)}, texts[:1:1]
	}
	for _, text := range texts[1:] {
		if lacks, isNot := strings.CutPrefix(text, "not "); p.has(lacks, answer) != isNot {
			now = append(now, text)
		} else {
			wrong = append(wrong, text)
		}
	}
	return now, wrong
}

// send sends the request of an exchange.
func (p *play) send(x *Exchange) *httptest.ResponseRecorder {
	answer := httptest.NewRecorder()
	target, body := fill(x.Target, p.values), fill(x.Body, p.values)
	if x.Method == "submit" {
		p.submit(answer, target, body)
		return answer
	}
	r := httptest.NewRequest(x.Method, target, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	if token, roles, _ := strings.Cut(x.Sender, "/"); token != "" {
		r.Header.Set("X-Auth-Token", token)
		r.Header.Set("X-Roles", roles)
	}
	p.Version(r.Header, x.Version)
	for _, header := range x.headers {
		r.Header.Set(header[1], fill(header[2], p.values))
	}
	p.Handler.ServeHTTP(answer, r)
	if p.After != nil {
		p.After(r, answer)
	}
	return answer
}

func (p *play) submit(answer *httptest.ResponseRecorder, name, body string) {
	empty := commands.Registry[name]
	if empty == nil {
		empty = commands.Internal[name]
	}
	if empty == nil {
		p.t.Fatalf("%s: %q is no command", p.path, name)
	}
	command := empty()
	ledgertest.OK(p.t, encoding.Decode([]byte(body), encoding.TypeJSON, command))
	outcome := p.Submit(p.t, command)
	if outcome.Rejection != nil {
		answer.Code = http.StatusConflict
		answer.Body.WriteString(outcome.Rejection.String())
		return
	}
	answer.Body.WriteString(outcome.Address.String())
}

// What a quoted text has in the place of anything, or of a name.
var (
	anything  = regexp.QuoteMeta("...")
	quotedAny = regexp.MustCompile(regexp.QuoteMeta(anything) + `|\\\{\\\{\w+\\\}\\\}`)
)

// has looks for a text in an answer, or for a whole header. Names in the text that have no value get one.
func (p *play) has(text string, answer *httptest.ResponseRecorder) bool {
	in, whole := answer.Body.String(), "%s"
	if header := headerLine.FindStringSubmatch(text); header != nil {
		in, text, whole = strings.Join(answer.Header()[header[1]], ", "), header[2], "^%s$"
	}
	pattern := quotedAny.ReplaceAllStringFunc(regexp.QuoteMeta(text), func(found string) string {
		if found == anything {
			return ".*?"
		}
		name := strings.Trim(found, `\{}`)
		if value, known := p.values[name]; known {
			return regexp.QuoteMeta(value)
		}
		return "(?P<" + name + `>[\w.-]+)`
	})
	expression := regexp.MustCompile("(?s)" + fmt.Sprintf(whole, pattern))
	found := expression.FindStringSubmatch(in)
	for i, name := range expression.SubexpNames() {
		if found != nil && name != "" {
			p.values[name] = found[i]
		}
	}
	return found != nil
}

// What is another one in each answer.
var random = regexp.MustCompile(`req-[0-9a-f-]{36}|20\d\d-\d\d-\d\dT[\d:.]+(Z|\+00:00)|\n`)

// told is an answer as -update writes it: its beginning, with names in the place of their values.
func (p *play) told(answer *httptest.ResponseRecorder) string {
	text := answer.Body.String()
	for name, value := range p.values {
		if len(value) >= len("12345678") {
			text = strings.ReplaceAll(text, value, "{{"+name+"}}")
		}
	}
	text = random.ReplaceAllString(text, "...")
	if most := 400; len(text) > most {
		text = text[:most] + "..."
	}
	return strings.TrimSpace(fmt.Sprint(answer.Code, " ", text))
}

// with is a transcript with other texts of some answers.
func (s *transcript) with(changes map[*Exchange][]string) string {
	instead := make(map[int]*Exchange) // by the line behind which its answer stands
	for x := range changes {
		instead[x.answer] = x
	}
	var lines []string
	for i := 0; i < len(s.lines); i++ {
		if x := instead[i]; x != nil {
			lines = append(lines, "-> "+strings.Join(changes[x], "\n-> "))
			if i += len(x.texts); i == len(s.lines) {
				break
			}
		}
		lines = append(lines, s.lines[i])
	}
	return strings.Join(lines, "\n")
}
