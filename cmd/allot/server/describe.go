package server

import (
	"errors"
	"log/slog"
	"net/http"
	"sync"

	"github.com/allot-project/allot/api/asyncapi"
	"github.com/allot-project/allot/api/audit"
	"github.com/allot-project/allot/api/baremetal"
	"github.com/allot-project/allot/api/openapi"
	"github.com/allot-project/allot/api/placement"
	"github.com/allot-project/allot/cmd/allot/server/vitals"
	"github.com/allot-project/allot/cmd/internal/cli"
	"github.com/allot-project/allot/commands/members"
	"github.com/allot-project/allot/ledger"
)

// The paths of the API descriptions. They need no token.
const (
	openAPIPath  = "/openapi.json"
	asyncAPIPath = "/asyncapi.json"
)

// describeREST describes everything that the REST port serves.
func describeREST() (*openapi.Document, error) {
	d := openapi.New("Allot", cli.Version(),
		"An allocation ledger: OpenStack Placement, Ironic's allocations and nodes, and Allot's own questions.")
	err := errors.Join(placement.Describe(d), baremetal.Describe(d), audit.Describe(d))
	d.Tag("Server", "How the server is, and the cluster that it belongs to.")
	return d, errors.Join(err,
		d.Failure("HealthFailure", "It is not so, and why", openapi.JSON, vitals.Health{}),
		d.Failure("TextFailure", "What went wrong, in words", openapi.Text, openapi.Object{"type": "string"}),
		d.Add(serverOperations()...))
}

// serverOperations describe the routes that belong to no API: see routes.
func serverOperations() []openapi.Operation {
	document := openapi.Object{"type": "object"}
	healthy := func(path, id, summary string) openapi.Operation {
		return openapi.Operation{
			Method: http.MethodGet, Path: path, ID: id, Summary: summary,
			Answer: vitals.Health{}, Open: true, Failure: "HealthFailure",
		}
	}
	ready := healthy(vitals.ReadyPath, "isReady", "Say whether reads are up to date and commands are taken")
	ready.Parameters = []openapi.Parameter{{
		Name: "for", In: "query", Means: "only this counts", Schema: openapi.Object{"enum": []any{"reads", "commands"}},
	}}
	list := []openapi.Operation{
		healthy(vitals.HealthPath, "isThere", "Say that the process lives"),
		healthy(vitals.LivePath, "isAlive", "Say whether the process gets on with its work"),
		ready,
		{
			Method: http.MethodGet, Path: openAPIPath, ID: "showOpenAPI", Summary: "Show what the REST port takes, as OpenAPI",
			Answer: document, Open: true, Failure: "TextFailure",
		},
		{
			Method: http.MethodGet, Path: asyncAPIPath, ID: "describeNATS", Summary: "Show what the NATS port takes, as AsyncAPI",
			Answer: document, Open: true, Failure: "TextFailure",
		},
		{
			Method: http.MethodGet, Path: clusterPath, ID: "showCluster", Summary: "Show the servers of the ledger",
			Answer: members.Status{}, Rule: clusterRule, Failure: "TextFailure",
		},
		{
			Method: http.MethodPost, Path: stepDownPath, ID: "stepDown", Summary: "Let another server lead",
			Body: wish{}, Example: wish{To: "2"}, Answer: wish{}, Rule: clusterRule, Failure: "TextFailure",
		},
		{
			Method: http.MethodPost, Path: removePath, ID: "removeServer", Summary: "Forget a server that is gone for good",
			Body: wish{}, Example: wish{Name: "3"}, Answer: wish{}, Rule: clusterRule, Failure: "TextFailure",
		},
	}
	for i := range list {
		list[i].Tag = "Server"
	}
	return list
}

// The descriptions, encoded. They are made for the first request, and not at every start.
var (
	openAPI = sync.OnceValue(func() []byte {
		made, err := describeREST()
		if err != nil {
			panic(err) // a mistake in the tables of the APIs, which every test would find
		}
		return encoded(made.Object())
	})
	asyncAPI = sync.OnceValue(func() []byte {
		made, err := asyncapi.Document()
		if err != nil {
			panic(err) // likewise
		}
		return encoded(made)
	})
)

func encoded(document any) []byte {
	text, err := ledger.PlainJSON(document)
	if err != nil {
		panic(err) // it was made of texts and numbers
	}
	return text
}

// described serves a document that does not change.
func described(text func() []byte, logger *slog.Logger) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "only GET", http.StatusMethodNotAllowed)
			return
		}
		w.Header().Set("Content-Type", openapi.JSON)
		if _, err := w.Write(text()); err != nil {
			logger.Debug("a description was not read to its end", "error", err)
		}
	})
}
