package main_test

import (
	"fmt"
	"go/scanner"
	gotoken "go/token"
	"regexp"
	"strings"
	"testing"
)

// vague matches words that name neither a thing nor a role.
var vague = regexp.MustCompile(`(?i)\b(?:(?:no|some|any)body|who(?:ever|m))\b`)

// vagueWords lists the vague words in comments and string literals of a Go file.
func vagueWords(path string, source []byte) (found []string) {
	files := gotoken.NewFileSet()
	var s scanner.Scanner
	s.Init(files.AddFile(path, -1, len(source)), source, nil, scanner.ScanComments)
	for at, kind, text := s.Scan(); kind != gotoken.EOF; at, kind, text = s.Scan() {
		if kind != gotoken.COMMENT && kind != gotoken.STRING {
			continue
		}
		for _, span := range vague.FindAllStringIndex(text, -1) {
			line := files.Position(at).Line + strings.Count(text[:span[0]], "\n")
			found = append(found, fmt.Sprintf("%s:%d: %s", path, line, text[span[0]:span[1]]))
		}
	}
	return found
}

// TestSubjectsAreNamed: a comment or message says which client, server or thing it means.
func TestSubjectsAreNamed(t *testing.T) {
	t.Parallel()
	for source, want := range map[string]string{
		"package p // No" + "body waits.":                    "p.go:1: No" + "body",
		"package p\n/* one\nfor who" + "m it is */":          "p.go:3: who" + "m",
		"package p\nconst a, b = `who" + "ever`, \"silent\"": "p.go:2: who" + "ever",
		"package p\nvar any" + "body = 1":                    "", // a name is no sentence
	} {
		if got := strings.Join(vagueWords("p.go", []byte(source)), "; "); got != want {
			t.Errorf("%s: found %q, not %q", source, got, want)
		}
	}
	for path, source := range sources(t, "") {
		for _, word := range vagueWords(path, []byte(source)) {
			t.Errorf("%s: name the client, the server or the thing instead", word)
		}
	}
}
