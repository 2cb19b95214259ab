package placement

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
)

// identity is who sends a request.
type identity struct {
	user    string
	project string
	roles   []string
	system  bool // a token with system scope
}

func (id identity) has(role string) bool { return slices.Contains(id.roles, role) }

// noauth takes the word of the request, as Placement's noauth2 does: the
// token is USER or USER:PROJECT, the user admin has the role admin, and
// X-Roles and X-Project-Id are believed. It is for development.
func noauth(r *http.Request) (identity, bool) {
	token := r.Header.Get("X-Auth-Token")
	if token == "" {
		return identity{}, false
	}
	var id identity
	id.user, id.project, _ = strings.Cut(token, ":")
	if id.project == "" {
		id.project = id.user
	}
	if project := r.Header.Get("X-Project-Id"); project != "" {
		id.project = project
	}
	if roles := r.Header.Get("X-Roles"); roles != "" {
		for _, role := range strings.Split(roles, ",") {
			id.roles = append(id.roles, strings.TrimSpace(role))
		}
	} else if id.user == "admin" {
		id.roles = []string{"admin"}
	}
	id.system = r.Header.Get("OpenStack-System-Scope") == "all"
	return id, true
}

// authorize decides whether an identity may do something. Every rule of
// Placement's is "admin or service", apart from a project's readers, who may
// see the usages of their own project, and reshapes, which under the new
// defaults are the service's alone. A token with system scope may do nothing,
// since every rule is about projects.
func authorize(id identity, rule, project string, newDefaults bool) *apiError {
	serviceOnly := newDefaults && rule == "placement:reshaper:reshape"
	switch {
	case id.system:
		return errorf(http.StatusForbidden, "%s", rule)
	case id.has("service"), id.has("admin") && !serviceOnly:
		return nil
	case rule == "placement:usages" && id.has("reader") && project != "" && project == id.project:
		return nil
	}
	return errorf(http.StatusForbidden, "Policy does not allow %s to be performed.", rule)
}

// writeUnauthorized answers as Keystone's middleware does, which is not in
// Placement's error format.
func writeUnauthorized(w http.ResponseWriter) {
	body, err := json.Marshal(map[string]string{
		"message": "The request you have made requires authentication.",
		"code":    "401 Unauthorized", "title": "Unauthorized",
	})
	if err != nil {
		panic(err) // strings always encode
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusUnauthorized)
	_, _ = w.Write(body) // the client is gone if this fails
}

// RequireAdmin guards Allot's own routes beside the API: it answers 401 or
// 403 itself and returns false for anyone but an administrator.
func RequireAdmin(w http.ResponseWriter, r *http.Request) bool {
	who, ok := noauth(r)
	if !ok {
		writeUnauthorized(w)
		return false
	}
	if who.system || !who.has("admin") {
		http.Error(w, "only an administrator may read the log", http.StatusForbidden)
		return false
	}
	return true
}
