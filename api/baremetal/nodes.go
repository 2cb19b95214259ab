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

// nodeFor finds the node that a path names, if a rule permits it. To a client
// that may not see it, the node does not exist.
func (r *request) nodeFor(ident, rule string) (*ledger.Node, error) {
	n, err := r.findNode(ident)
	if base, isSuffixed := strings.CutSuffix(ident, ".json"); err == nil && n == nil && isSuffixed &&
		r.version < literalSuffixSince {
		n, err = r.findNode(base)
	}
	if err != nil {
		return nil, err
	}
	if n == nil {
		return nil, nodeNotFound(http.StatusNotFound, ident)
	}
	if !r.allows(rule, nodeTarget(n)) {
		return nil, forbidden(rule)
	}
	return n, nil
}

// nodes serves /nodes.
func (r *request) nodes() (*response, error) {
	return r.methods(map[string]func() (*response, error){
		http.MethodGet: func() (*response, error) { return r.listNodes(false, "") }, http.MethodPost: r.createNode,
	})
}

func (r *request) nodeDetails() (*response, error) {
	return r.methods(map[string]func() (*response, error){
		http.MethodGet: func() (*response, error) { return r.listNodes(true, "") },
	})
}

// node serves /nodes/IDENT.
func (r *request) node(ident string) (*response, error) {
	return r.methods(map[string]func() (*response, error){
		http.MethodGet:    func() (*response, error) { return r.showNode(ident) },
		http.MethodPatch:  func() (*response, error) { return r.updateNode(ident) },
		http.MethodDelete: func() (*response, error) { return r.deleteNode(ident) },
	})
}

func (r *request) createNode() (*response, error) {
	if !r.allows("baremetal:node:create", nil) {
		return nil, forbidden("baremetal:node:create")
	}
	c := commands.CreateNode{}
	body := nodeBody{CreateNode: &c, request: r}
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
	outcome, err := r.carry("node", &c, aboutName("Cannot create node with invalid name"))
	if err != nil {
		return nil, err
	}
	if r.view, err = r.h.Views.ViewAt(outcome.Address.Sequence); err != nil {
		return nil, err
	}
	answer, err := r.nodeAnswer(c.Node)
	if err != nil {
		return nil, err
	}
	answer.status, answer.location = http.StatusCreated, "/v1/nodes/"+c.Node.String()
	return answer, nil
}

// nodeAnswer describes a node of the request's view.
func (r *request) nodeAnswer(id ledger.UUID) (*response, error) {
	n, found, err := r.writtenNode(id)
	if err != nil {
		return nil, err
	}
	if !found {
		return nil, nodeNotFound(http.StatusNotFound, id.String())
	}
	doc, err := r.describeNode(n, nil)
	return ok(doc), err
}

func (r *request) showNode(ident string) (*response, error) {
	return show(
		r, r.nodeFields, func() (*ledger.Node, error) { return r.nodeFor(ident, "baremetal:node:get") }, r.describeNode,
	)
}

// patchableNodeFields are the fields that error texts name.
var patchableNodeFields = slices.Sorted(maps.Keys(nodeProperties))

func (r *request) updateNode(ident string) (*response, error) {
	n, err := r.nodeFor(ident, "baremetal:node:update")
	if err != nil {
		return nil, err
	}
	ops, err := r.patch("node", nodeValues, patchableNodeFields)
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
	return r.nodeAnswer(n.UUID)
}

// leavesChassis reports whether an operation takes a node out of its chassis.
func leavesChassis(op commands.PatchOperation) bool {
	return op.Field() == "chassis_uuid" && (op.Op == "remove" || op.Value == "null")
}

func (r *request) deleteNode(ident string) (*response, error) {
	n, err := r.nodeFor(ident, "baremetal:node:delete")
	if err != nil {
		return nil, err
	}
	return r.accepted("node", &commands.DeleteNode{Node: n.UUID}, noContent())
}
