package placement

import (
	"net/http"
	"strconv"

	"github.com/allot-project/allot/ledger"
)

// rehearsal is how a dry run that was accepted leaves the handler of a write:
// there is nothing to read back. What is rejected is answered as if it had
// not been a dry run.
type rehearsal struct{ events []ledger.Event }

// Error implements error.
func (*rehearsal) Error() string { return "this is a dry run" }

func (d *rehearsal) answer() *response {
	return &response{status: http.StatusOK, body: m{"dry_run": true, "events": ledger.EventLines(d.events)}}
}

// takeDryRun takes Allot's own parameter dry_run out of the query string of a
// write, so that it says what would happen and changes nothing.
func takeDryRun(r *http.Request) (bool, *apiError) {
	if r.Method == http.MethodGet {
		return false, nil
	}
	value, found, failure := takeParameter(r, "dry_run")
	if failure != nil || !found {
		return false, failure
	}
	dryRun, err := strconv.ParseBool(value)
	if err != nil {
		return false, badRequest("Invalid query string parameters: dry_run must be true or false, not %q", value)
	}
	return dryRun, nil
}
