package rest_test

import (
	"io/fs"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/allot-project/allot/api/rest"
)

// TestOneParser: no other file of the REST APIs reads query strings or forms, so
// policy and handlers cannot read them differently.
func TestOneParser(t *testing.T) {
	t.Parallel()
	other := regexp.MustCompile(
		`\.RawQuery|URL\.Query\(|url\.ParseQuery|FormValue|ParseForm|ParseMultipart|\.PostForm|r\.Form\b`,
	)
	checked := 0
	err := filepath.WalkDir("..", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") ||
			strings.HasSuffix(path, "rest/query.go") {
			return err
		}
		text, err := os.ReadFile(path)
		if found := other.Find(text); found != nil {
			t.Errorf("%s uses %s; query strings are read by rest.ParseQuery alone", path, found)
		}
		checked++
		return err
	})
	if err != nil || checked < 50 {
		t.Fatalf("%d files checked, %v", checked, err)
	}
}

func TestQuery(t *testing.T) {
	t.Parallel()
	q := rest.ParseQuery(httptest.NewRequest("GET", "/?a=1&a=2&b=&a=3", nil))
	if q.Fault() != nil || q.Get("a") != "3" || q.First("a") != "1" || len(q.All("a")) != 3 || !q.Has("b") || q.Has("c") ||
		q.Get("c") != "" {
		t.Errorf("%+v", q)
	}
	for _, query := range []string{"a=1&b=%zz", "a=1;b=2", "a=1&b=%ff", "%ff=1&a=1"} {
		q := rest.ParseQuery(httptest.NewRequest("GET", "/?"+query, nil))
		if q.Fault() == nil || q.Get("a") != "" || q.Has("a") {
			t.Errorf("%s: %v, a is %q", query, q.Fault(), q.Get("a"))
		}
		if _, err := q.TakeBool("dry_run"); err == nil {
			t.Errorf("%s: the fault is passed over", query)
		}
	}
}
