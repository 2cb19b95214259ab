package placement_test

import (
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/allot-project/allot/commands/commandstest"
	"github.com/allot-project/allot/ledger/memlog"
)

// TestDevicesDocument sends the requests of docs/devices.md, and compares the answers.
func TestDevicesDocument(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/devices.md")
	if err != nil {
		t.Fatal(err)
	}
	h, sent := handler(commandstest.Start(t, t.TempDir(), &memlog.Log{})), 0
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
			status, has, _ := strings.Cut(strings.TrimSpace(answer), " ")
			w := sendAt(h, "1.39", method, path, body)
			if strconv.Itoa(w.Code) != status || !strings.Contains(w.Body.String(), has) {
				t.Errorf("%s %s: %d %s, and not %s", method, path, w.Code, w.Body, answer)
			}
			request, sent = "", sent+1
		}
	}
	if sent < 15 {
		t.Errorf("the document has %d requests", sent)
	}
}
