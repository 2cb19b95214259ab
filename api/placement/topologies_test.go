package placement_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/allot-project/allot/commands/commandstest"
)

// TestTopologies: topologies are set, shown now and then, and removed; what is none is refused,
// and changes nothing.
func TestTopologies(t *testing.T) {
	t.Parallel()
	l, h := inMemory(t)
	block, rack := commandstest.NewID(), commandstest.NewID()
	members := func(rackIn string) string {
		return fmt.Sprintf(`{"levels":["block","rack"],"members":{"%s":{"level":"block","name":"b1"},
			"%s":{"level":"rack","name":"r1","parent":"%s"}}}`, block, rack, rackIn)
	}
	before := l.Views.Checkpoint().Sequence
	expect(t, h, "GET", "/topologies", "", 200, `{"topologies":[]}`)
	expect(t, h, "GET", "/topologies/fabric", "", 404, "No topology with name fabric")
	expect(t, h, "DELETE", "/topologies/fabric", "", 404, "No topology with name fabric")
	expect(t, h, "PUT", "/topologies/fabric", members(block.String()), 204)
	first := l.Views.Checkpoint().Sequence
	expect(t, h, "PUT", "/topologies/fabric", members(block.String()), 204)
	expect(t, h, "PUT", "/topologies/flat", `{"levels":["rack"],"members":{}}`, 204)
	for _, c := range []struct{ body, text string }{
		{members(rack.String()), "instead of"},
		{strings.Replace(members(block.String()), `"name":"b1"`, `"x":1,"name":"b1"`, 1), "Additional properties"},
		{`{"levels":["rack"],"members":{},"x":1}`, "Additional properties"},
		{`{"levels":["rack"]}`, "required"},
	} {
		expect(t, h, "PUT", "/topologies/fabric", c.body, 400, c.text)
	}
	expect(t, h, "PUT", "/topologies/a%20b", `{"levels":["rack"],"members":{}}`, 400)
	expect(t, h, "GET", "/topologies", "", 200, fmt.Sprintf(
		`{"topologies":[{"name":"fabric","levels":["block","rack"],"member_count":2,"sequence":%d},{"name":"flat",`, first))
	expect(t, h, "GET", fmt.Sprint("/topologies?at=", before), "", 200, `{"topologies":[]}`)
	expect(t, h, "GET", "/topologies/fabric", "", 200, `"levels":["block","rack"]`,
		fmt.Sprintf(`"%s":{"level":"block","name":"b1"}`, block),
		fmt.Sprintf(`"%s":{"level":"rack","name":"r1","parent":"%s"}`, rack, block),
		fmt.Sprintf(`"versions":[{"sequence":%d,"member_count":2}]`, first))
	expect(t, h, "DELETE", "/topologies/fabric", "", 204)
	expect(t, h, "GET", "/topologies/fabric", "", 404)
	expect(t, h, "GET", fmt.Sprint("/topologies/fabric?at=", first), "", 200, block.String())
	expect(t, h, "PUT", "/topologies/fabric", `{"levels":["rack"],"members":{}}`, 204)
	expect(t, h, "GET", "/topologies/fabric", "", 200, `"members":{}`,
		`"member_count":0},{"sequence":`, `"member_count":null},{"sequence":`)
}
