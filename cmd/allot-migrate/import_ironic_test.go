package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/allot-project/allot/cmd/allot-migrate/contents/ironicdb/ironicdbtest"
	"github.com/allot-project/allot/cmd/allot-migrate/contents/placementdb/placementdbtest"
	"github.com/allot-project/allot/cmd/internal/launchtest"
	"github.com/allot-project/allot/ledger/ledgertest"
)

// ironic asks a server's Ironic door.
func ironic(s *launchtest.Server, path string) string {
	s.T.Helper()
	text := launchtest.Answer(s.T, http.StatusOK, "GET", "http://"+s.HTTP+"/baremetal/v1"+path, "",
		map[string]string{"X-OpenStack-Ironic-API-Version": "latest"})
	return strings.ReplaceAll(text, s.HTTP, "HOST") // in links
}

// noneHas searches all files of a folder for texts that must not be there.
func noneHas(t *testing.T, dir string, secrets ...string) {
	t.Helper()
	files := 0
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		files++
		text, err := os.ReadFile(path)
		for _, secret := range secrets {
			if bytes.Contains(text, []byte(secret)) {
				t.Errorf("%s has %q", path, secret)
			}
		}
		return err
	})
	if err != nil || files == 0 {
		t.Error(files, err)
	}
}

// TestImportPlacementAndIronic brings both into one ledger. Nodes that are providers in
// Placement, as nova makes them, then have one owner in both.
func TestImportPlacementAndIronic(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	data := filepath.Join(dir, "data")
	// nova gives the instance on node 2 that node's provider.
	instance := "77777777-aaaa-4777-8777-777777777777"
	placement := placementdbtest.SQLite(t,
		"INSERT INTO resource_classes (id, name) VALUES (10001, 'CUSTOM_BAREMETAL')",
		"INSERT INTO resource_providers (created_at, id, uuid, name, generation, root_provider_id) VALUES "+
			"('2024-01-01 00:00:00', 7, '"+ironicdbtest.Idle+"', '"+ironicdbtest.Idle+"', 3, 7)",
		"INSERT INTO inventories (created_at, id, resource_provider_id, resource_class_id, total, reserved, min_unit, max_unit, step_size, "+
			"allocation_ratio) VALUES ('2024-01-01 00:00:00', 7, 7, 10001, 1, 0, 1, 1, 1, 1.0)",
		"INSERT INTO consumers (created_at, id, uuid, project_id, user_id, generation, consumer_type_id) VALUES "+
			"('2024-01-01 00:00:00', 7, '"+instance+"', 1, 1, 1, 1)",
		"INSERT INTO allocations (created_at, id, resource_provider_id, consumer_id, resource_class_id, used) VALUES "+
			"('2024-01-01 00:00:00', 7, 7, '"+instance+"', 10001, 1)")
	instanceOf := func(uuid string) string {
		return "sqlite:" + ironicdbtest.SQLite(t, "UPDATE nodes SET instance_uuid = '"+uuid+"', provision_state = 'active' WHERE id = 2")
	}
	migrate(t, true, "import", "placement", "--from", "sqlite:"+placement, "--data", data)
	before := allot(t, true, "verify", "--data", data)
	// A dry run, a refused import and one with a fault leave the ledger as it is.
	other := migrate(t, true, "import", "ironic", "--from", instanceOf("88888888-aaaa-4888-8888-888888888888"), "--into", data, "--dry-run")
	says(t, other, "--node-providers will refuse this ledger until it is mended: 1 nodes have two owners")
	for _, row := range []struct {
		why  string
		args []string
	}{
		{"give only one of --data", []string{"--from", instanceOf(instance), "--into", data, "--data", dir}},
		{"metal-uuid-invalid", []string{"--from", "sqlite:" + ironicdbtest.SQLite(t, "UPDATE nodes SET uuid = 'x' WHERE id = 2"), "--into", data}},
		{"no table allocations", []string{"--from", "sqlite:" + ironicdbtest.SQLite(t, "DROP TABLE allocations"), "--into", data}},
		{"is empty, so it holds no log", []string{"--from", instanceOf(instance), "--into", t.TempDir()}},
		{"name the Ironic with --from", []string{"--into", data}},
		{"--from holds a secret", []string{"--from", "mysql://user:s3cret@127.0.0.1:1/ironic", "--into", data}},
	} {
		if out := migrate(t, false, append([]string{"import", "ironic"}, row.args...)...); !strings.Contains(out, row.why) || strings.Contains(out, "s3cret") {
			t.Errorf("%v: %s, want %q", row.args, out, row.why)
		}
	}
	if after := allot(t, true, "verify", "--data", data); after != before {
		t.Errorf("the ledger was\n%s\nand is\n%s", before, after)
	}
	out := migrate(t, true, "import", "ironic", "--from", instanceOf(instance), "--into", data)
	if !strings.Contains(out, "holds 2 nodes and 2 node allocations more, after sequence") || strings.Contains(out, "will refuse") {
		t.Error(out)
	}
	s := launchtest.Launch(t, data, "--node-providers")
	s.Must(http.StatusOK, "GET", "/allocations/"+importedServer, "")
	says(t, s.Must(http.StatusOK, "GET", "/allocations/"+instance, ""), ironicdbtest.Idle)
	// The allocation of Ironic has become a consumer, too.
	s.Eventually("/resource_providers/" + ironicdbtest.Taken)
	says(t, s.Must(http.StatusOK, "GET", "/allocations/"+ironicdbtest.Held, ""), "CUSTOM_BAREMETAL")
	says(t, strings.ReplaceAll(ironic(s, "/nodes/node-1"), " ", ""), `"ipmi_password":"******"`)
	s.Terminate()
	noneHas(t, data, "bmc-s3cret")
	says(t, migrate(t, false, "import", "ironic", "--from", instanceOf(instance), "--into", data),
		"has nodes, node allocations or chassis")
}

// TestKilledAddition kills imports into a ledger at many moments: the ledger is as it was,
// or the import is whole, and it can be started again until it is.
func TestKilledAddition(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	data := filepath.Join(dir, "data")
	migrate(t, true, "import", "placement", "--from", "sqlite:"+placementdbtest.SQLite(t), "--data", data)
	var nodes []string
	for i := range 8_000 {
		nodes = append(nodes, fmt.Sprintf("('2024-01-02 00:00:00', %d, '00000000-bbbb-4000-8000-%012x', 'ipmi', 'baremetal', 'available', FALSE, FALSE)", i+10, i))
	}
	from := "sqlite:" + ironicdbtest.SQLite(t, "INSERT INTO nodes (created_at, id, uuid, driver, resource_class, provision_state, maintenance, protected) VALUES "+
		strings.Join(nodes, ", "))
	before := allot(t, true, "verify", "--data", data)
	killed := 0
	for round := range 6 {
		cmd := exec.Command(launchtest.Program(name), "import", "ironic", "--from", from, "--into", data)
		must(t, cmd.Start())
		staging := filepath.Join(data, "log.import")
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		if round%3 > 0 { // while it writes; else while it reads
			ledgertest.WaitFor(t, "the import to write, or to end", func() bool {
				_, err := os.Stat(staging)
				return err == nil || len(ended) > 0
			})
		}
		time.Sleep(time.Duration(round*round) * 8 * time.Millisecond)
		_ = cmd.Process.Kill() // it may have ended
		if err := <-ended; err != nil {
			killed++
		}
		got := allot(t, true, "verify", "--data", data)
		if got == before {
			continue
		}
		if !strings.Contains(got, "records") || !strings.Contains(migrate(t, false, "import", "ironic", "--from", from, "--into", data), "has nodes") {
			t.Fatalf("round %d: it was\n%s\nand is\n%s", round, before, got)
		}
		break
	}
	if killed == 0 {
		t.Error("no import was ever killed on its way: the test tests nothing")
	}
	if got := allot(t, true, "verify", "--data", data); got == before {
		migrate(t, true, "import", "ironic", "--from", from, "--into", data)
	}
	s := launchtest.Launch(t, data)
	if got := strings.Count(ironic(s, "/nodes?limit=1000"), `"uuid"`); got != 1000 {
		t.Errorf("%d nodes are listed", got)
	}
	ironic(s, fmt.Sprintf("/nodes/00000000-bbbb-4000-8000-%012x", 7_999))
	s.Must(http.StatusOK, "GET", "/resource_providers/"+importedHost, "")
	s.Terminate()
}
