// Package auth finds out who sends an HTTP request: from an OpenStack Keystone
// or, for development, from the request itself (Noauth).
package auth

import (
	"errors"
	"net/http"
	"strings"

	"github.com/allot-project/allot/api/policy"
	"github.com/allot-project/allot/ledger"
)

// Errors of Authenticate.
var (
	// ErrUnauthorized means that the request has no token, or no valid one.
	ErrUnauthorized = errors.New("auth: the request you have made requires authentication")
	// ErrUnavailable means that the token cannot be validated at the moment.
	ErrUnavailable = errors.New("auth: the identity service is not available")
)

// TokenHeader carries the token.
const TokenHeader = "X-Auth-Token"

// Authenticator finds out who sends a request.
type Authenticator interface {
	Authenticate(*http.Request) (policy.Identity, error)
	// Challenge returns the WWW-Authenticate header of a 401; empty for none.
	Challenge() string
}

// Noauth believes the request, as Placement's noauth2 does: the token is USER or
// USER:PROJECT, the user admin has the role admin, and X-Roles and X-Project-Id
// are believed. It is for development.
type Noauth struct{}

// Challenge implements Authenticator.
func (Noauth) Challenge() string { return "" }

// Authenticate implements Authenticator.
func (Noauth) Authenticate(r *http.Request) (policy.Identity, error) {
	token := r.Header.Get(TokenHeader)
	if token == "" {
		return policy.Identity{}, ErrUnauthorized
	}
	id := policy.Identity{Believed: true}
	id.User, id.Project, _ = strings.Cut(token, ":")
	if id.Project == "" {
		id.Project = id.User
	}
	if project := r.Header.Get("X-Project-Id"); project != "" {
		id.Project = project
	}
	if roles := r.Header.Get("X-Roles"); roles != "" {
		for _, role := range strings.Split(roles, ",") {
			id.Roles = append(id.Roles, strings.TrimSpace(role))
		}
	} else if id.User == "admin" {
		id.Roles = []string{"admin"}
	}
	id.System = r.Header.Get("OpenStack-System-Scope") == "all"
	return id, nil
}

// WriteUnauthorized answers 401 as Keystone's middleware does, whose error format
// differs from that of the service behind it.
func WriteUnauthorized(w http.ResponseWriter, a Authenticator) {
	body, err := ledger.PlainJSON(map[string]string{
		"message": "The request you have made requires authentication.",
		"code":    "401 Unauthorized", "title": "Unauthorized",
	})
	if err != nil {
		panic(err) // strings can always be encoded
	}
	if challenge := a.Challenge(); challenge != "" {
		w.Header().Set("Www-Authenticate", challenge)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusUnauthorized)
	_, _ = w.Write(body) // if this fails the client is gone
}

// Guard returns true if a rule permits the request. Otherwise it answers the
// request itself and returns false. It is for routes outside of the APIs, which
// have error formats of their own.
func Guard(a Authenticator, rules *policy.Rules, rule string) func(http.ResponseWriter, *http.Request) bool {
	return func(w http.ResponseWriter, r *http.Request) bool {
		id, err := a.Authenticate(r)
		switch {
		case errors.Is(err, ErrUnauthorized):
			WriteUnauthorized(w, a)
		case err != nil:
			w.Header().Set("Retry-After", "1")
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
		case !rules.Allows(rule, id, nil):
			http.Error(w, "Policy does not allow "+rule+" to be performed.", http.StatusForbidden)
		default:
			return true
		}
		return false
	}
}
