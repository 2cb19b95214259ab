package main_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/allot-project/allot/cmd/internal/launchtest"
)

func consumerID(n int) string { return fmt.Sprintf("22222222-2222-4222-8222-%012d", n) }

// TestOrphans compares a ledger with files and with a nova API of two pages, and
// releases what orphans hold.
func TestOrphans(t *testing.T) {
	t.Parallel()
	s := launch(t, t.TempDir())
	s.makeProvider(100)
	for i := range 6 {
		s.Must(204, "PUT", "/allocations/"+consumerID(i), allocation())
	}
	s.Must(204, "DELETE", "/allocations/"+consumerID(4), "")
	nova := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Header.Get("X-Auth-Token") != "secret" || r.FormValue("all_tenants") != "1":
			w.WriteHeader(http.StatusUnauthorized)
		case r.FormValue("marker") == "":
			_, _ = fmt.Fprintf(
				w,
				`{"servers":[{"id":%q},{"id":%q}],"servers_links":[{"rel":"next","href":"/v2.1/servers?all_tenants=1&marker=x"}]}`,
				consumerID(0), consumerID(1),
			)
		default:
			_, _ = fmt.Fprintf(w, `{"servers":[{"id":%q},{"id":%q}]}`, consumerID(4), consumerID(9))
		}
	}))
	defer nova.Close()
	dir := t.TempDir()
	file := filepath.Join(dir, "known")
	write(t, file, "# everybody\n"+consumerID(0)+"\n\n"+consumerID(1)+" # one\n"+consumerID(4)+"\n"+consumerID(9)+"\n")
	token := "secret"
	orphans := func(good bool, args ...string) string {
		t.Helper()
		args = append([]string{"orphans", "--url", s.HTTP}, args...)
		return launchtest.Run(t, good, "allot", []string{"OS_TOKEN=" + token}, args...)
	}
	for _, source := range []string{file, nova.URL + "/v2.1"} {
		out := orphans(true, "--older-than", "0s", "--consumers", source)
		says(t, out,
			"orphan   "+consumerID(2), "orphan   "+consumerID(3), "orphan   "+consumerID(5),
			"allocation delete "+consumerID(5), "made by admin with AllocateForConsumers",
			"missing  "+consumerID(4)+"\n         holds nothing since", "ReleaseConsumer",
			"missing  "+consumerID(9)+"\n         holds nothing, and never did", "3 orphans, 2 owners")
	}
	says(t, orphans(true, "--older-than", "0s", "--consumers", file, "--at", "4"), "1 hold something: 0 orphans")
	orphans(false, "--consumers", file, "--at", "4", "--yes")
	says(t, orphans(true, "--consumers", file), "0 orphans, 2 owners without allocations; 5 changed")
	token = "wrong"
	orphans(false, "--older-than", "0s", "--consumers", nova.URL+"/v2.1")
	s.Must(200, "GET", "/allocations/"+consumerID(2), "")
	if out := orphans(true, "--older-than", "0s", "--consumers", file, "--yes", "--json"); strings.Count(
		out, `"healed":"released"`,
	) != 3 {
		t.Errorf("%s", out)
	}
	for i, want := range map[int]bool{0: true, 1: true, 2: false, 3: false, 5: false} {
		if got := strings.Contains(s.Must(200, "GET", "/allocations/"+consumerID(i), ""), "VCPU"); got != want {
			t.Errorf("consumer %d holds something: %v", i, got)
		}
	}
	says(t, orphans(true, "--older-than", "0s", "--consumers", file, "--yes"), "0 orphans")
}
