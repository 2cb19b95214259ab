package main

import (
	"database/sql"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/allot-project/allot/cmd/allot-migrate/contents/placementdb/placementdbtest"
	"github.com/allot-project/allot/cmd/internal/launchtest"
)

// realPlacement is OpenStack's Placement with a database server.
type realPlacement struct {
	*testing.T
	*placementdbtest.Placement
	url string
	db  *sql.DB
}

func newRealPlacement(t *testing.T, server *placementdbtest.Server, name string) *realPlacement {
	t.Helper()
	db := server.Create(t, name)
	return &realPlacement{T: t, db: db, Placement: placementdbtest.NewPlacement(t, server.Connection(name))}
}

// play plays a transcript.
func (p *realPlacement) play(name string) {
	p.Helper()
	play(p.T, name, strings.TrimPrefix(p.url, "http://"))
}

func realID(kind, n int) string { return fmt.Sprintf("%08d-0000-4000-8000-%012d", kind, n) }

const realHosts = 3 // in hosts.txt and roomy.txt

// realRules are the rules that apply to odd rows.
var realRules = []string{
	"aggregate-empty", "allocation-twice", "class-not-standard", "consumer-missing", "consumer-not-uuid", "consumer-twice",
	"consumer-without-allocations", "inventory-unusual", "over-committed", "provider-name-missing", "provider-root-missing",
	"reference-missing", "time-missing", "trait-not-standard", "units-broken", "uuid-spelling",
}

// TestRealPlacement moves from OpenStack's Placement to Allot and back, on the
// databases that Placement runs on. Contents and candidates are the same at each
// step, and the Placement at the end takes writes.
func TestRealPlacement(t *testing.T) {
	if testing.Short() {
		t.Skip("skipped: it starts database servers and Placements")
	}
	placementdbtest.OnServers(t, func(t *testing.T, server *placementdbtest.Server) {
		p := newRealPlacement(t, server, "placement")
		p.url = p.Serve(t)
		p.play("hosts.txt")
		a := imported(t, p)
		theSame(t, a, "--with-file", p.Config(), "--candidates", p.url)
		theSame(t, a, "--with", p.url)
		movedBack(t, server, a)
		byStatements(t, server, a)
		oddRows(t, p)
	})
}

// imported begins a ledger from a Placement's database, and serves it.
func imported(t *testing.T, p *realPlacement) *launchtest.Server {
	t.Helper()
	data := filepath.Join(t.TempDir(), "data")
	migrate(t, true, "import", "placement", "--from-file", p.Config(), "--data", data)
	return launchtest.Launch(t, data)
}

// theSame compares a server with a Placement.
func theSame(t *testing.T, s *launchtest.Server, with ...string) {
	t.Helper()
	flavours := filepath.Join(t.TempDir(), "flavours")
	text := "# queries\nresources=VCPU:2&required=CUSTOM_FAST\nresources1=VCPU:1&resources2=VCPU:1&group_policy=isolate\n" +
		"resources=VCPU:1,MEMORY_MB:64,DISK_GB:5\nresources=CUSTOM_GOLD:1&member_of=" + realID(8, 2) + "\nresources=NONE:1\n"
	write(t, flavours, text)
	args := append([]string{"compare", "placement", "--url", s.HTTP, "--samples", "2", "--flavours", flavours}, with...)
	want := fmt.Sprintf("no differences: %d providers, %d consumers, and candidates (requests: 7)", 1+3*realHosts, 4*realHosts)
	says(t, migrateWith(t, "OS_TOKEN=admin", true, args...), want)
}

// movedBack exports a server into another Placement's database.
func movedBack(t *testing.T, server *placementdbtest.Server, s *launchtest.Server) {
	t.Helper()
	back := newRealPlacement(t, server, "back")
	back.Sync(t)
	out := migrate(t, true, "export", "placement", "--to-file", back.Config(), "--url", s.HTTP)
	if want := fmt.Sprintf("wrote %d providers", 1+3*realHosts); !strings.Contains(out, want) {
		t.Errorf("%s, want %s", out, want)
	}
	again := migrate(t, false, "export", "placement", "--to-file", back.Config(), "--url", s.HTTP)
	says(t, again, "the database is not empty", "nothing was written")
	says(t, migrate(t, true, "compare", "placement", "--url", s.HTTP, "--with-file", back.Config()),
		fmt.Sprintf("no differences: %d providers, %d consumers", 1+3*realHosts, 4*realHosts))
}

// byStatements exports a server into a file, and loads it into a database, whose
// Placement takes writes of every kind: no id is given twice.
func byStatements(t *testing.T, server *placementdbtest.Server, s *launchtest.Server) {
	t.Helper()
	p := newRealPlacement(t, server, "statements")
	p.Sync(t)
	file := filepath.Join(t.TempDir(), "contents.sql")
	migrate(t, true, "export", "placement", "--to", file, "--dialect", server.Scheme, "--url", s.HTTP)
	text := read(t, file)
	p.db.SetMaxOpenConns(1) // BEGIN and COMMIT are of one connection
	placementdbtest.Fill(t, p.db, placementdbtest.Split(text)...)
	p.url = p.Serve(t)
	theSame(t, s, "--with", p.url)
	p.play("new_rows.txt")
}

// oddRows puts odd rows into the database: each is imported by its rule, and the
// ledger equals the database by these rules.
func oddRows(t *testing.T, p *realPlacement) {
	t.Helper()
	placementdbtest.Fill(t, p.db, placementdbtest.Split(placementdbtest.Odd)...)
	out := migrate(t, true, "import", "placement", "--from-file", p.Config(), "--dry-run")
	says(t, out, realRules...)
	s := imported(t, p)
	says(t, migrate(t, true, "compare", "placement", "--url", s.HTTP, "--with-file", p.Config()), "no differences")
}
