package resttest

import (
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
)

// TestCheck: what an answer lacks is found, and -update keeps what holds.
func TestCheck(t *testing.T) {
	answer := httptest.NewRecorder()
	answer.Header().Set("Allow", "GET, PUT")
	answer.WriteHeader(405)
	answer.Body.WriteString(`{"id":"12345678-9","b":[1,2],"id":"12345678-9"}`)
	const whole = `405 {"id":"{{id}}","b":[1,2],"id":"{{id}}"}`
	for texts, want := range map[string][2]string{ // now, and wrong
		``:                                     {whole, "no answer is expected"},
		`405`:                                  {`405`, ""},
		`404`:                                  {whole, `404`},
		`405 "b":[2]`:                          {whole, `405 "b":[2]`},
		`405 "b":...2]|not "c"`:                {`405 "b":...2]|not "c"`, ""},
		`405 2..."id"|Allow: GET, ...|not "b"`: {`405 2..."id"|Allow: GET, ...`, `not "b"`},
		`405|Allow: PUT|not Allow: GET, PUT`:   {`405`, `Allow: PUT|not Allow: GET, PUT`},
		`405 "id":"{{id}}","b"|"id":"{{id}}"}`: {`405 "id":"{{id}}","b"|"id":"{{id}}"}`, ""},
		`405 "b":[{{b}},2|"b":[1,{{b}}]`:       {`405 "b":[{{b}},2`, `"b":[1,{{b}}]`},
	} {
		p := &play{t: t, values: map[string]string{"id": "12345678-9"}}
		now, wrong := p.check(strings.FieldsFunc(texts, func(r rune) bool { return r == '|' }), answer)
		if got := [2]string{strings.Join(now, "|"), strings.Join(wrong, "|")}; got != want {
			t.Errorf("%s: %q, want %q", texts, got, want)
		}
	}
}

// TestRead: a request has all its lines, and a line that belongs to no request is found.
func TestRead(t *testing.T) {
	script := read("let a = \"\\x01\"\nu:p/r 1.2 PUT /x {\"a\":\n  \"{{a}}{{-*3}}\"}\nX-Y: z\n-> 200 a\nget /y\n\n-> 204\nworld w\nGET /z\n")
	x := script.worlds[0].exchanges[0]
	got := []string{x.Sender, x.Version, x.Method, x.Target, x.Body, x.headers[0][0], x.texts[0], script.worlds[1].title}
	if want := []string{"u:p/r", "1.2", "PUT", "/x", "{\"a\":\n  \"\x01---\"}", "X-Y: z", "200 a", "w"}; !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	if !slices.Equal(script.strays, []string{"get /y", "-> 204"}) {
		t.Errorf("%q are stray", script.strays)
	}
	changed := script.with(map[*Exchange][]string{x: {"201", "b"}, script.worlds[1].exchanges[0]: {"404"}})
	if !strings.Contains(changed, "X-Y: z\n-> 201\n-> b\nget /y") || !strings.HasSuffix(changed, "GET /z\n-> 404\n") {
		t.Error(changed)
	}
}
