package main_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// doors is a server with bare metal nodes, and random steps through both of its
// APIs.
type doors struct {
	*server
	t    *testing.T
	data string
	draw *rand.Rand
	on   bool // node providers
}

func (d *doors) node(n int) string  { return fmt.Sprintf("11111111-0000-4000-8000-%012d", n) }
func (d *doors) owner(n int) string { return fmt.Sprintf("33333333-0000-4000-8000-%012d", n) }

// restart kills the server and starts it with or without node providers. If it
// does not start because a node has two owners, it is started without, and
// everything that Placement's clients hold is released.
func (d *doors) restart(on bool) {
	d.t.Helper()
	if d.server != nil {
		d.kill()
	}
	var flags []string
	if on {
		flags = append(flags, "--node-providers")
	}
	d.server = start(d.t, d.data, flags...)
	if !d.waitServing() {
		if !on || !strings.Contains(d.logs.String(), "have two owners") {
			d.t.Fatalf("the server does not start:\n%s", d.logs)
		}
		d.server = nil
		d.restart(false)
		for n := range 4 {
			_, _, err := d.call("DELETE", "/allocations/"+d.owner(n), "", "")
			if err != nil {
				d.t.Fatal(err)
			}
		}
		d.restart(true)
	}
	d.on = on
}

// step sends one random request to one of the APIs.
func (d *doors) step() string {
	d.t.Helper()
	n, owner, name := d.draw.IntN(3), d.draw.IntN(4), d.draw.IntN(3)
	take := fmt.Sprintf(
		`{"allocations":{"%s":{"resources":{"CUSTOM_BM":1}}},"project_id":"p","user_id":"u","consumer_generation":null,"consumer_type":"INSTANCE"}`,
		d.node(n),
	)
	do := []string{
		"placement PUT /allocations/" + d.owner(owner) + " " + take,
		"placement PUT /allocations/" + d.owner(owner) + " " + take,
		"placement DELETE /allocations/" + d.owner(owner) + " ",
		fmt.Sprintf(`ironic POST /nodes {"driver":"d","name":"n%d","uuid":"%s","resource_class":"bm"}`, n, d.node(n)),
		fmt.Sprintf(`ironic PUT /nodes/n%d/states/provision {"target":"manage"}`, n),
		fmt.Sprintf(`ironic PUT /nodes/n%d/states/provision {"target":"provide"}`, n),
		fmt.Sprintf(`ironic PUT /nodes/n%d/states/provision {"target":"provide"}`, n),
		fmt.Sprintf(`ironic PUT /nodes/n%d/states/provision {"target":"active"}`, n),
		fmt.Sprintf(`ironic PUT /nodes/n%d/states/provision {"target":"deleted"}`, n),
		fmt.Sprintf(`ironic PUT /nodes/n%d/maintenance {"reason":"r"}`, n),
		fmt.Sprintf(`ironic DELETE /nodes/n%d/maintenance `, n),
		fmt.Sprintf(`ironic PATCH /nodes/n%d [{"op":"add","path":"/instance_uuid","value":"%s"}]`, n, d.owner(owner)),
		fmt.Sprintf(`ironic PATCH /nodes/n%d [{"op":"remove","path":"/instance_uuid"}]`, n),
		fmt.Sprintf(`ironic DELETE /nodes/n%d `, n),
		fmt.Sprintf(`ironic POST /allocations {"resource_class":"bm","name":"a%d"}`, name),
		fmt.Sprintf(`ironic POST /allocations {"node":"n%d","name":"a%d"}`, n, name),
		fmt.Sprintf(`ironic DELETE /allocations/a%d `, name),
	}[d.draw.IntN(17)]
	fields := strings.SplitN(do, " ", 4)
	send := func() (int, string, error) { return d.call(fields[1], fields[2], "", fields[3]) }
	if fields[0] == "ironic" {
		send = func() (int, string, error) { return d.metal(fields[1], fields[2], fields[3]) }
	}
	status, answer, err := send()
	if err != nil || status >= 500 {
		d.t.Fatalf("%s: %d %s, %v", do, status, answer, err)
	}
	d.settle()
	return fmt.Sprint(do, ": ", status)
}

// ask decodes an answer.
func (d *doors) ask(text string, into any) {
	d.t.Helper()
	if err := json.Unmarshal([]byte(text), into); err != nil {
		d.t.Fatalf("%v in %s", err, text)
	}
}

// agree checks that both answers about every node agree: one owner at most, and
// the inventory reserved exactly while the node may not be taken.
func (d *doors) agree(after string) {
	d.t.Helper()
	var list struct {
		Nodes []struct {
			UUID        string  `json:"uuid"`
			State       string  `json:"provision_state"`
			Power       *string `json:"power_state"`
			Maintenance bool    `json:"maintenance"`
			Instance    *string `json:"instance_uuid"`
			Allocation  *string `json:"allocation_uuid"`
		} `json:"nodes"`
	}
	d.ask(d.mustMetal(200, "GET", "/nodes/detail", ""), &list)
	for _, n := range list.Nodes {
		var inventory struct {
			Total    int `json:"total"`
			Reserved int `json:"reserved"`
		}
		var held struct {
			Allocations map[string]any `json:"allocations"`
		}
		path := "/resource_providers/" + n.UUID
		d.ask(d.must(200, "GET", path+"/inventories/CUSTOM_BM", ""), &inventory)
		d.ask(d.must(200, "GET", path+"/allocations", ""), &held)
		owners := make(map[string]bool)
		for _, id := range []*string{n.Instance, n.Allocation} {
			if id != nil {
				owners[*id] = true
			}
		}
		for id := range held.Allocations {
			owners[id] = true
		}
		free := n.State == "available" && n.Power != nil && !n.Maintenance && n.Instance == nil
		reserved := 0
		if !free && len(held.Allocations) == 0 {
			reserved = 1
		}
		if len(owners) > 1 || inventory.Total != 1 || inventory.Reserved != reserved || len(held.Allocations)+reserved > 1 {
			d.t.Fatalf(
				"after %s: node %+v has owners %v, holders %v and inventory %+v", after, n, owners, held.Allocations, inventory,
			)
		}
		offered := strings.Contains(d.must(200, "GET", "/allocation_candidates?resources=CUSTOM_BM:1", ""), n.UUID)
		if offered != (free && len(held.Allocations) == 0) {
			d.t.Fatalf("after %s: node %+v is offered: %v", after, n, offered)
		}
	}
}

// TestBothDoorsOfTheBinary uses both APIs of a server that is killed, and started
// with and without --node-providers, again and again.
func TestBothDoorsOfTheBinary(t *testing.T) {
	d := &doors{t: t, data: t.TempDir(), draw: rand.New(rand.NewPCG(20, 1))}
	for _, on := range []bool{true, true, false, true, false, true, true} {
		d.restart(on)
		if d.on {
			d.agree("the start")
		}
		for range 60 {
			did := d.step()
			if d.on {
				d.agree(did)
			}
		}
	}
}
