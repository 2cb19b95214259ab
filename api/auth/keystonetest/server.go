// Package keystonetest is a small OpenStack Identity v3 service for tests: it
// issues tokens for passwords and application credentials, validates them,
// and lists a catalog, in Keystone's wire format.
package keystonetest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"
)

// User is an account with one project.
type User struct {
	Name, Password, ID string
	Project            string // id; empty: tokens have system scope
	Domain             string // id; if set, tokens have this domain's scope
	Roles              []string
}

// Server is a running Identity service.
type Server struct {
	URL string // with /v3

	mu        sync.Mutex
	users     map[string]User   // by name; guarded by mu, as are all fields below
	tokens    map[string]issued // by token
	catalog   []map[string]any  // services
	validated map[string]int    // how often each token was validated
	broken    bool              // answers 500 to everything
	answers   map[string]string // JSON of other paths
	count     int               // number of tokens issued
}

type issued struct {
	user    User
	expires time.Time
}

// Start runs a service with some accounts until the test ends.
func Start(t testing.TB, users ...User) *Server {
	t.Helper()
	s := &Server{users: map[string]User{}, tokens: map[string]issued{}, validated: map[string]int{}}
	for _, u := range users {
		s.users[u.Name] = u
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v3/{$}", s.version)
	mux.HandleFunc("GET /v3", s.version)
	mux.HandleFunc("POST /v3/auth/tokens", s.issue)
	mux.HandleFunc("GET /v3/auth/tokens", s.validate)
	mux.HandleFunc("GET /v3/{path...}", s.other)
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	s.URL = server.URL + "/v3"
	return s
}

// AddEndpoint adds a public endpoint to the catalog.
func (s *Server) AddEndpoint(service, url string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.catalog = append(s.catalog, map[string]any{
		"id": service, "type": service, "name": service,
		"endpoints": []map[string]any{
			{"id": service, "interface": "public", "region": "RegionOne", "region_id": "RegionOne", "url": url},
		},
	})
}

// Answer sets what is answered at paths below /v3/ to requests with a token.
func (s *Server) Answer(bodies map[string]string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answers = bodies
}

func (s *Server) other(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	asker, known := s.tokens[r.Header.Get("X-Auth-Token")]
	text, has := s.answers[r.PathValue("path")]
	switch {
	case s.broken:
		failure(w, http.StatusInternalServerError)
	case !known || !time.Now().Before(asker.expires):
		failure(w, http.StatusUnauthorized)
	case !has:
		failure(w, http.StatusNotFound)
	default:
		reply(w, http.StatusOK, json.RawMessage(text))
	}
}

// Break makes every answer a 500, or ends that.
func (s *Server) Break(broken bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.broken = broken
}

// Revoke forgets all tokens of a user.
func (s *Server) Revoke(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for token, i := range s.tokens {
		if i.user.Name == name {
			delete(s.tokens, token)
		}
	}
}

// Validations returns how often the server was asked about a token.
func (s *Server) Validations(token string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.validated[token]
}

// Token issues a token without a request.
func (s *Server) Token(name string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	token, _ := s.newToken(s.users[name])
	return token
}

func (s *Server) newToken(u User) (string, issued) {
	s.count++
	token := fmt.Sprintf("gAAAAAB%s%d", u.Name, s.count)
	i := issued{user: u, expires: time.Now().Add(time.Hour)}
	s.tokens[token] = i
	return token, i
}

func (s *Server) version(w http.ResponseWriter, _ *http.Request) {
	reply(w, http.StatusOK, map[string]any{"version": map[string]any{
		"id": "v3.14", "status": "stable", "links": []map[string]any{{"rel": "self", "href": s.URL + "/"}},
	}})
}

func (s *Server) issue(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.broken {
		failure(w, http.StatusInternalServerError)
		return
	}
	var body struct {
		Auth struct {
			Identity struct {
				Password struct {
					User struct{ Name, Password string }
				}
				Credential struct{ ID, Secret string } `json:"application_credential"`
			}
		}
	}
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		failure(w, http.StatusBadRequest)
		return
	}
	name, secret := body.Auth.Identity.Password.User.Name, body.Auth.Identity.Password.User.Password
	if c := body.Auth.Identity.Credential; c.ID != "" {
		name, secret = c.ID, c.Secret
	}
	u, known := s.users[name]
	if !known || u.Password != secret {
		failure(w, http.StatusUnauthorized)
		return
	}
	token, i := s.newToken(u)
	w.Header().Set("X-Subject-Token", token)
	reply(w, http.StatusCreated, s.document(i))
}

func (s *Server) validate(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	subject := r.Header.Get("X-Subject-Token")
	s.validated[subject]++
	asker, known := s.tokens[r.Header.Get("X-Auth-Token")]
	i, found := s.tokens[subject]
	switch {
	case s.broken:
		failure(w, http.StatusInternalServerError)
	case !known || !time.Now().Before(asker.expires):
		failure(w, http.StatusUnauthorized)
	case !found || !time.Now().Before(i.expires):
		failure(w, http.StatusNotFound)
	default:
		w.Header().Set("X-Subject-Token", subject)
		reply(w, http.StatusOK, s.document(i))
	}
}

func (s *Server) document(i issued) map[string]any {
	domain := map[string]any{"id": "default", "name": "Default"}
	token := map[string]any{
		"methods": []string{"password"}, "issued_at": time.Now().UTC().Format(time.RFC3339Nano),
		"expires_at": i.expires.UTC().Format("2006-01-02T15:04:05.000000Z"), "catalog": s.catalog,
		"user":      map[string]any{"id": i.user.ID, "name": i.user.Name, "domain": domain},
		"audit_ids": []string{"mAjXQhiYRyKwkB4qygdLVg"},
	}
	var roles []map[string]any
	for _, role := range i.user.Roles {
		roles = append(roles, map[string]any{"id": "id-of-" + role, "name": role})
	}
	token["roles"] = roles
	switch {
	case i.user.Domain != "":
		token["domain"] = map[string]any{"id": i.user.Domain, "name": "a domain"}
	case i.user.Project == "":
		token["system"] = map[string]any{"all": true}
	default:
		token["project"] = map[string]any{"id": i.user.Project, "name": "a project", "domain": domain}
	}
	return map[string]any{"token": token}
}

func failure(w http.ResponseWriter, status int) {
	fault := map[string]any{"code": status, "title": http.StatusText(status), "message": "no"}
	reply(w, status, map[string]any{"error": fault})
}

func reply(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // if this fails the client is gone
}
