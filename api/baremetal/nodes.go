package baremetal

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/allot-project/allot/api/policy"
	"github.com/allot-project/allot/api/rest"
	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/demand"
	"github.com/allot-project/allot/ledger"
)

func nodeTarget(n *ledger.Node) policy.Target {
	return policy.Target{"node.owner": n.Owner, "node.lessee": n.Lessee}
}

type nodes struct{ *request }

// allowed finds the node that the path names, if a rule permits it. To a client
// that may not see it, the node does not exist.
func (r nodes) allowed(rule string) (*ledger.Node, error) {
	n, err := r.findNode(r.ident)
	if base, isSuffixed := strings.CutSuffix(r.ident, ".json"); err == nil && n == nil && isSuffixed &&
		r.version < literalSuffixSince {
		n, err = r.findNode(base)
	}
	if err != nil {
		return nil, err
	}
	if n == nil {
		return nil, nodeNotFound(http.StatusNotFound, r.ident)
	}
	if !r.allows(rule, nodeTarget(n)) {
		return nil, forbidden(rule)
	}
	return n, nil
}

func (r nodes) create() (*response, error) {
	if !r.allows("baremetal:node:create", nil) {
		return nil, forbidden("baremetal:node:create")
	}
	c := commands.CreateNode{}
	body := nodeBody{CreateNode: &c, nodes: r}
	if _, err := r.body("node", nodeSchema, &body); err != nil {
		return nil, err
	}
	if body.failure != nil {
		return nil, body.failure
	}
	if c.Node.IsNil() {
		c.Node = rest.NewID(r.Request, "node")
	}
	if r.version < enrollSince {
		c.ProvisionState = ledger.NodeAvailable
	}
	return r.created("node", &c, aboutName("Cannot create node with invalid name"), func() (*response, error) {
		return showWritten(r.all(), c.Node, http.StatusCreated)
	})
}

func (r nodes) show() (*response, error) {
	return show(r.request, r.all(), func() (*ledger.Node, error) { return r.allowed("baremetal:node:get") })
}

// patchableNodeFields are the fields that error texts name.
var patchableNodeFields = slices.Sorted(maps.Keys(nodeProperties))

func (r nodes) update() (*response, error) {
	n, err := r.allowed("baremetal:node:update")
	if err != nil {
		return nil, err
	}
	ops, err := r.patch("node", nodeValues, patchableNodeFields, r.plainField)
	if err != nil {
		return nil, err
	}
	if err := r.known(func(yield func(string) bool) {
		for _, op := range ops {
			if !yield(op.Field()) {
				return
			}
		}
	}, nodeSince); err != nil {
		return nil, err
	}
	if r.version < unsetChassisSince && n.Chassis() != "" && slices.ContainsFunc(ops, leavesChassis) {
		return nil, notAcceptable()
	}
	words := func(rejection *demand.Rejection) *rest.Failure {
		if rejection.Code != demand.CodeInvalid {
			return nil // the name is taken
		}
		return aboutName(fmt.Sprintf("Cannot change name for node %s to", n.UUID))(rejection)
	}
	if _, err := r.carry("node", &commands.UpdateNode{Node: n.UUID, Patch: ops}, words); err != nil {
		return nil, err
	}
	return showWritten(r.all(), n.UUID, http.StatusOK)
}

func leavesChassis(op commands.PatchOperation) bool {
	return op.Field() == "chassis_uuid" && (op.Op == "remove" || op.Value == "null")
}

func (r nodes) delete() (*response, error) {
	n, err := r.allowed("baremetal:node:delete")
	if err != nil {
		return nil, err
	}
	return r.accepted("node", &commands.DeleteNode{Node: n.UUID}, noContent())
}
