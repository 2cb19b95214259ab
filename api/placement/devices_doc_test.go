package placement_test

import (
	"os"
	"strconv"
	"strings"
	"testing"
)

// TestDevicesDocument sends the requests of docs/devices.md, and compares the answers.
func TestDevicesDocument(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/devices.md")
	if err != nil {
		t.Fatal(err)
	}
	_, h := inMemory(t)
	sent := 0
	for i, block := range strings.Split(string(text), "```") {
		if i%2 == 0 {
			continue
		}
		request := ""
		for line := range strings.Lines(block) {
			answer, ends := strings.CutPrefix(line, "-> ")
			if !ends {
				request += line
				continue
			}
			head, body, _ := strings.Cut(strings.TrimSpace(request), "\n")
			method, path, _ := strings.Cut(head, " ")
			number, has, _ := strings.Cut(strings.TrimSpace(answer), " ")
			status, err := strconv.Atoi(number)
			if err != nil {
				t.Fatal(err)
			}
			expect(t, h, method, path, body, status, has)
			request, sent = "", sent+1
		}
	}
	if sent < 15 {
		t.Errorf("the document has %d requests", sent)
	}
}
