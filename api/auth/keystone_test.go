package auth_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/allot-project/allot/api/auth"
	"github.com/allot-project/allot/api/auth/keystonetest"
	"github.com/allot-project/allot/api/policy"
	"github.com/allot-project/allot/ledger/ledgertest"
)

var users = []keystonetest.User{
	{Name: "allot", Password: "secret", ID: "u-allot", Project: "service", Roles: []string{"service"}},
	{Name: "nova", Password: "n", ID: "u-nova", Project: "p-service", Roles: []string{"admin", "service"}},
	{Name: "root", Password: "r", ID: "u-root", Roles: []string{"admin"}},
	{Name: "dora", Password: "d", ID: "u-dora", Domain: "default", Roles: []string{"admin"}},
}

func open(t *testing.T, server *keystonetest.Server, change func(*auth.KeystoneConfig)) *auth.Keystone {
	t.Helper()
	config := auth.KeystoneConfig{
		URL: server.URL, PublicURL: "https://public.example:5000/v3",
		Account: auth.Password("allot", "secret", "Default", "service", "Default"),
	}
	if change != nil {
		change(&config)
	}
	k, err := auth.NewKeystone(config)
	ledgertest.OK(t, err)
	return k
}

func ask(k *auth.Keystone, token string) (policy.Identity, error) {
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.Header.Set(auth.TokenHeader, token)
	// What a client says of itself must not count.
	r.Header.Set("X-Roles", "admin")
	r.Header.Set("X-Project-Id", "mine")
	return k.Authenticate(r)
}

func TestKeystone(t *testing.T) {
	server := keystonetest.Start(t, users...)
	k := open(t, server, nil)
	for name, want := range map[string]policy.Identity{
		"nova": {User: "u-nova", Project: "p-service", Roles: []string{"admin", "service"}},
		"root": {User: "u-root", Roles: []string{"admin"}, System: true},
		"dora": {User: "u-dora", Roles: []string{"admin"}, Domain: true},
	} {
		if id, err := ask(k, server.Token(name)); err != nil || !reflect.DeepEqual(id, want) {
			t.Errorf("%s is %+v, %v", name, id, err)
		}
	}
	for _, token := range []string{"", "unknown", strings.Repeat("x", 1<<20)} {
		if _, err := ask(k, token); !errors.Is(err, auth.ErrUnauthorized) {
			t.Errorf("token %.20q: %v", token, err)
		}
	}
	if got := k.Challenge(); got != `Keystone uri="https://public.example:5000/v3"` {
		t.Errorf("challenge %s", got)
	}
}

// TestKeystoneCache: Keystone is asked about a token once, good or bad, even if
// many requests ask at once. An answer is not believed longer than the token
// lives.
func TestKeystoneCache(t *testing.T) {
	server := keystonetest.Start(t, users...)
	now := time.Now()
	k := open(t, server, func(c *auth.KeystoneConfig) { c.Now = func() time.Time { return now } })
	nova := server.Token("nova")
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			if _, err := ask(k, nova); err != nil {
				t.Error(err)
			}
			if _, err := ask(k, "wrong"); !errors.Is(err, auth.ErrUnauthorized) {
				t.Error(err)
			}
		})
	}
	all.Wait()
	// The very first question comes without a service token, and is repeated with
	// one.
	if good, bad := server.Validations(nova), server.Validations("wrong"); good > 2 || bad > 2 || good+bad > 4 {
		t.Errorf("asked %d and %d times", good, bad)
	}
	server.Revoke("nova")
	if _, err := ask(k, nova); err != nil {
		t.Errorf("revoked, but believed for some minutes: %v", err)
	}
	now = now.Add(2 * time.Hour)
	if _, err := ask(k, nova); !errors.Is(err, auth.ErrUnauthorized) {
		t.Errorf("expired: %v", err)
	}
}

// TestKeystoneTrouble: while Keystone is out of reach no request is let in, and
// no token is called bad. The service's own token is renewed.
func TestKeystoneTrouble(t *testing.T) {
	server := keystonetest.Start(t, users...)
	k := open(t, server, nil)
	asks := func(what string, k *auth.Keystone, want error) {
		t.Helper()
		if _, err := ask(k, server.Token("nova")); !errors.Is(err, want) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := k.Reachable(); err != nil {
		t.Errorf("it answers, but: %v", err)
	}
	server.Break(true)
	asks("broken", k, auth.ErrUnavailable)
	server.Break(false)
	asks("mended", k, nil)
	server.Revoke("allot")
	asks("our own token was revoked", k, nil)
	asks("our own password is wrong", open(t, server, func(c *auth.KeystoneConfig) {
		c.Account = auth.Password("allot", "wrong", "Default", "service", "Default")
	}), auth.ErrUnavailable)
	gone := open(t, server, func(c *auth.KeystoneConfig) { c.URL = "http://127.0.0.1:1/v3" })
	asks("no server there", gone, auth.ErrUnavailable)
	if gone.Reachable() == nil {
		t.Error("no server there, and Keystone answers")
	}
	asks("application credential", open(t, server, func(c *auth.KeystoneConfig) {
		c.Account = auth.Credential("allot", "secret")
	}), nil)
}

// TestSignedIn: requests carry the account's token, which is renewed when it is
// refused. A wrong password is told without being repeated.
func TestSignedIn(t *testing.T) {
	keystone := keystonetest.Start(t, users...)
	var tokens []string
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token := r.Header.Get(auth.TokenHeader)
		tokens = append(tokens, token)
		if _, err := ask(open(t, keystone, nil), token); err != nil {
			w.WriteHeader(http.StatusUnauthorized)
		}
	}))
	t.Cleanup(service.Close)
	get := func(k *auth.Keystone) (int, error) {
		client := &http.Client{Transport: k.SignedIn(http.DefaultTransport)}
		answer, err := client.Get(service.URL)
		if err != nil {
			return 0, err
		}
		return answer.StatusCode, answer.Body.Close()
	}
	k := open(t, keystone, nil)
	for round, requests := range []int{1, 2, 4} {
		if round == 2 {
			keystone.Revoke("allot")
		}
		status, err := get(k)
		if err != nil || status != http.StatusOK || len(tokens) != requests {
			t.Errorf("round %d: %d, %v, with the tokens %q", round, status, err, tokens)
		}
	}
	if tokens[0] != tokens[1] || tokens[2] == tokens[3] {
		t.Errorf("the tokens were %q", tokens)
	}
	wrong := open(t, keystone, func(c *auth.KeystoneConfig) {
		c.Account = auth.Password("allot", "hunter2", "Default", "service", "Default")
	})
	if _, err := get(wrong); err == nil || !strings.Contains(err.Error(), "no token for this account") ||
		strings.Contains(err.Error(), "hunter2") {
		t.Error(err)
	}
}

// TestTokensStayWithKeystone: neither the account's password and token nor a client's token goes to
// another server that Keystone redirects to, whichever question is redirected.
func TestTokensStayWithKeystone(t *testing.T) {
	server := keystonetest.Start(t, users...)
	nova := server.Token("nova")
	var mu sync.Mutex
	var told []string
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		told = append(told, r.Method+" "+r.Header.Get("X-Auth-Token")+r.Header.Get("X-Subject-Token"))
	}))
	t.Cleanup(other.Close)
	for _, redirected := range []string{http.MethodPost, http.MethodGet} {
		asked := false
		front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == redirected && strings.HasSuffix(r.URL.Path, "/auth/tokens") {
				mu.Lock()
				defer mu.Unlock()
				asked = true
				http.Redirect(w, r, other.URL+r.URL.Path, http.StatusTemporaryRedirect)
				return
			}
			behind, err := url.Parse(server.URL)
			if err != nil {
				t.Error(err)
				return
			}
			(&httputil.ReverseProxy{Rewrite: func(p *httputil.ProxyRequest) {
				p.Out.URL.Scheme, p.Out.URL.Host, p.Out.Host = behind.Scheme, behind.Host, behind.Host
			}}).ServeHTTP(w, r)
		}))
		k := open(t, server, func(c *auth.KeystoneConfig) { c.URL = front.URL + "/v3" })
		if _, err := ask(k, nova); !errors.Is(err, auth.ErrUnavailable) {
			t.Errorf("%s is redirected: %v", redirected, err)
		}
		front.Close()
		if !asked {
			t.Errorf("nothing was asked with %s", redirected)
		}
	}
	if len(told) > 0 {
		t.Errorf("another server was told %q", told)
	}
}

// TestCloud: the account is found where clients of OpenStack look for theirs, and Keystone
// takes it. A cloud that is not there, and variables that say nothing, are errors that name them.
func TestCloud(t *testing.T) {
	server := keystonetest.Start(
		t, keystonetest.User{Name: "allot", Password: "secret", ID: "u", Project: "service", Roles: []string{"service"}},
	)
	file := filepath.Join(t.TempDir(), "clouds.yaml")
	text := `clouds: {home: {auth: {auth_url: "http://elsewhere.example:5000", username: allot, password: secret,
	  project_name: service, user_domain_name: Default, project_domain_name: Default}}}`
	ledgertest.OK(t, os.WriteFile(file, []byte(text), 0o600))
	type variables map[string]string
	for name, c := range map[string]struct {
		set  variables
		says string // no account is found
	}{
		"OS_CLOUD":       {variables{"OS_CLIENT_CONFIG_FILE": file, "OS_CLOUD": "home"}, ""},
		"OS_*":           {variables{"OS_USERNAME": "allot", "OS_PASSWORD": "secret", "OS_PROJECT_NAME": "service"}, ""},
		"nothing":        {nil, "OS_"},
		"no such cloud":  {variables{"OS_CLIENT_CONFIG_FILE": file, "OS_CLOUD": "nowhere"}, "nowhere"},
		"wrong password": {variables{"OS_USERNAME": "allot", "OS_PASSWORD": "x", "OS_PROJECT_NAME": "service"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			for variable, value := range c.set {
				t.Setenv(variable, value)
			}
			account, trust, err := auth.Cloud("")
			if (err != nil) != (c.says != "") || err != nil && !strings.Contains(err.Error(), c.says) {
				t.Fatal(err)
			}
			if err != nil {
				return
			}
			k, err := auth.NewKeystone(auth.KeystoneConfig{URL: server.URL, Account: account, TLS: trust})
			ledgertest.OK(t, err)
			if _, err = ask(k, server.Token("allot")); (err == nil) != (name != "wrong password") {
				t.Errorf("%v", err)
			}
		})
	}
}

// TestDirectory: projects and users are called what Keystone says; what was read stays known while it is away.
func TestDirectory(t *testing.T) {
	server := keystonetest.Start(t, users...)
	server.Answer(map[string]string{
		"projects": `{"projects":[{"id":"1","name":"web"},{"id":"2","name":"web"},{"id":"3","name":"db"}],"links":{"next":null}}`,
		"users":    `{"users":[{"id":"4","name":"ann"}],"links":{"next":null},"truncated":true}`,
	})
	d := &auth.Directory{Keystone: open(t, server, nil)}
	if err := d.Read(t.Context()); err == nil {
		t.Error("a list that was cut short is none")
	}
	server.Break(true)
	if err := d.Read(t.Context()); err == nil {
		t.Error("a broken Keystone has names")
	}
	if d.Called("project", "3") != "db" || d.Called("user", "4") != "ann" || d.Called("user", "3") != "" ||
		!slices.Equal(d.Named("project", "web"), []string{"1", "2"}) || d.Named("user", "web") != nil {
		t.Error(d.Called("project", "3"), d.Called("user", "4"), d.Named("project", "web"))
	}
}
