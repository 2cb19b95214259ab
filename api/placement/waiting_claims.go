package placement

import (
	"errors"
	"net/http"
	"strconv"

	"github.com/allot-project/allot/api/answers"
	"github.com/allot-project/allot/api/rest"
	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/wire"
	"github.com/allot-project/allot/ledger"
)

// codeTooManyWaiting is in the body of a 409: no more claims may wait now.
const codeTooManyWaiting = "allot.too_many_waiting"

// waitingSchema is what is told of a waiting claim.
func waitingSchema(id m) m {
	text := m{"type": "string"}
	return closed(m{
		"claim": id, "state": text, "project": text, "user": text, "priority": m{"type": "integer"}, "since": text,
		"until": text, "asked": m{"type": "object"}, "ended": text, "record": text, "code": text, "message": text,
	}, "claim", "state", "project", "user", "priority", "since", "until")
}

// waitingQuerySchema is the query string of GET /claims/waiting.
func waitingQuerySchema() m {
	return closed(m{
		"project_id": text(1, 255), "limit": m{"type": "string", "pattern": "^[0-9]{1,4}$"}, "after": uuidSchema,
	})
}

// projectOfClaim is the project whose users may see and cancel a waiting claim; empty:
// there is no such claim, or it is no project's.
func projectOfClaim(h *Handler, r *request) (string, error) {
	id, err := ledger.ParseUUID(r.params[0])
	if err != nil {
		return "", nil //nolint:nilerr // it is not found, for whoever may know that
	}
	if err := rest.Await(r.Request, h.Views, h.Fresh, false); err != nil {
		return "", err
	}
	w, found, err := h.Views.View().WaitingClaim(id)
	if err != nil || !found {
		return "", err
	}
	return w.Project, nil
}

func listWaitingClaims(_ *Handler, r *request) (*response, error) {
	if failure := checkQuery(r); failure != nil {
		return nil, failure
	}
	q := &wire.WaitingClaimsQuery{Project: r.query.Get("project_id")}
	var err error
	if text := r.query.Get("limit"); text != "" {
		if q.Limit, err = strconv.Atoi(text); err != nil || q.Limit == 0 {
			return nil, rest.BadRequest("limit: %q is not a number from 1 on", text)
		}
	}
	if text := r.query.Get("after"); text != "" {
		if q.After, err = ledger.ParseUUID(text); err != nil {
			return nil, rest.BadRequest("after: %q is not a uuid", text)
		}
	}
	list, err := answers.WaitingClaims(r.view, q)
	if errors.Is(err, answers.ErrQuery) {
		return nil, rest.BadRequest("%v", err)
	}
	if err != nil {
		return nil, err
	}
	return ok(list, 0), nil
}

func showWaitingClaim(_ *Handler, r *request) (*response, error) {
	id, err := ledger.ParseUUID(r.params[0])
	if err != nil {
		return nil, noWaitingClaim(r)
	}
	one, err := answers.WaitingClaim(r.view, id)
	if err != nil {
		return nil, err
	}
	if one == nil {
		return nil, noWaitingClaim(r)
	}
	return ok(one, 0), nil
}

func cancelWaitingClaim(h *Handler, r *request) (*response, error) {
	id, err := ledger.ParseUUID(r.params[0])
	if err != nil {
		return nil, noWaitingClaim(r)
	}
	_, rejection, err := h.submit(r, &commands.CancelClaim{Claim: id})
	switch {
	case err != nil:
		return nil, err
	case rejection != nil && rejection.Code == commands.CodeClaimNotWaiting:
		return nil, rest.NotFound("%s", rejection.Message)
	case rejection != nil:
		return nil, general(rejection)
	}
	return noContent(), nil
}

func noWaitingClaim(r *request) *rest.Failure {
	return rest.NotFound("No claim with id %s waits or has waited", r.params[0])
}

// waitsAnswer is the answer to a claim that waits.
func waitsAnswer(r *request, waits *ledger.ClaimWaits) (*response, error) {
	one, err := answers.WaitingClaim(r.view, waits.Claim)
	if err != nil {
		return nil, err
	}
	if one == nil {
		return nil, rest.TryAgain("the claim waits, and cannot be read yet")
	}
	return &response{
		status: http.StatusAccepted, body: m{"waiting": one}, location: "/claims/waiting/" + waits.Claim.String(),
	}, nil
}
