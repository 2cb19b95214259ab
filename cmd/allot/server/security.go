package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"os"
	"time"

	"github.com/rs/cors"
	"golang.org/x/mod/sumdb/note"

	"github.com/allot-project/allot/api/auth"
	"github.com/allot-project/allot/api/natsapi"
	"github.com/allot-project/allot/api/policy"
	"github.com/allot-project/allot/api/rest"
	"github.com/allot-project/allot/api/tracing"
	"github.com/allot-project/allot/cmd/internal/cli"
)

// keystoneFlags say where Keystone is, and which account the server uses there.
type keystoneFlags struct {
	URL       string `name:"url" help:"Identity v3 endpoint of Keystone, such as https://keystone.example:5000/v3. Without it requests are not authenticated." usual:""`
	PublicURL string `name:"public-url" help:"Keystone's URL for clients, in answers with 401; default: --keystone-url."`
	Cloud     string `help:"Cloud of clouds.yaml with the server's own account; default: what OS_CLOUD or the other variables OS_* say." usual:""`
}

// tokenTime is how long the server believes an answer of Keystone about a token.
const tokenTime = 5 * time.Minute

// corsFlags are oslo.middleware's options of the same names.
type corsFlags struct {
	AllowedOrigin []string `help:"Origins of web pages that may use the API; default: none, so cross-origin requests are refused."`
}

// What web pages of allowed origins may do, as oslo.middleware has it by default.
var (
	corsMethods        = []string{"GET", "PUT", "POST", "DELETE", "PATCH"}
	corsRequestHeaders = []string{
		"X-Auth-Token", "X-Openstack-Request-Id", "X-Identity-Status", "X-Roles", "X-Service-Catalog", "X-User-Id",
		"X-Tenant-Id", "OpenStack-API-Version",
	}
	corsResponseHeaders = []string{
		"X-Auth-Token", "X-Openstack-Request-Id", "X-Subject-Token", "X-Service-Token", "OpenStack-API-Version",
	}
)

// security reads the permissions, and the means of identifying clients.
func (c *Command) security() (auth.Authenticator, *policy.Rules, error) {
	var overrides []byte
	var err error
	if c.PolicyFile != "" {
		if overrides, err = os.ReadFile(c.PolicyFile); err != nil {
			return nil, nil, err
		}
	}
	rules, err := policy.Load(overrides, c.EnforceNewDefaults)
	if err != nil {
		return nil, nil, fmt.Errorf("--policy-file %s: %w", c.PolicyFile, err)
	}
	if c.UnifiedLimits != "" && c.Keystone.URL == "" {
		return nil, nil, errors.New("--unified-limits needs --keystone-url")
	}
	if c.Keystone.URL == "" {
		return auth.Noauth{}, rules, nil
	}
	keystone, err := c.Keystone.authenticator()
	return keystone, rules, err
}

func (k *keystoneFlags) authenticator() (auth.Authenticator, error) {
	account, trust, err := auth.Cloud(k.Cloud)
	if err != nil {
		return nil, fmt.Errorf("--keystone-cloud %s: %w", k.Cloud, err)
	}
	return auth.NewKeystone(auth.KeystoneConfig{
		URL: k.URL, PublicURL: k.PublicURL, Account: account, TLS: trust, CacheTime: tokenTime, Outgoing: tracing.Outgoing,
	})
}

// openDocuments are the paths that any page may read, as upstream.
var openDocuments = []string{"", "/", "/placement", "/placement/"}

// fromBrowsers answers preflights before authentication, adds CORS headers for
// allowed origins, and refuses requests from pages of other origins. Where
// requests are authenticated, a page gains nothing from a name that points here,
// so the request's host is checked only if names are listed.
func (c *Command) fromBrowsers(table *router) http.Handler {
	guard := &rest.BrowserGuard{
		Open: openDocuments, Hosts: c.AllowedHost, CheckHost: c.Keystone.URL == "" || c.AllowedHost != nil,
	}
	local, err := cli.IsLocal(c.HTTP)
	guard.AnyAddress = !local || err != nil
	if len(c.CORS.AllowedOrigin) == 0 {
		table.guard = guard
		return table
	}
	shared := cors.New(cors.Options{
		AllowedOrigins: c.CORS.AllowedOrigin, AllowedMethods: corsMethods, AllowedHeaders: corsRequestHeaders,
		ExposedHeaders: corsResponseHeaders, AllowCredentials: true, MaxAge: 3600, OptionsSuccessStatus: http.StatusOK,
	})
	guard.Allowed = shared.OriginAllowed
	table.guard = guard
	return shared.Handler(table)
}

// fromScrapers refuses requests of web pages to the port of metrics. That port is
// open to everybody, so names are checked only if it listens for this machine
// alone.
func (c *Command) fromScrapers(next http.Handler) http.Handler {
	local, err := cli.IsLocal(c.Metrics)
	guard := &rest.BrowserGuard{
		Hosts: c.AllowedHost, CheckHost: local && err == nil || c.AllowedHost != nil, AnyAddress: !local,
	}
	return guard.Handler(next)
}

// opener returns what opens manifests of copies: with a signing key only those that
// are signed with it.
func (c *Command) opener() (func([]byte) ([]byte, error), error) {
	if c.SigningKey == "" {
		return nil, nil
	}
	verifier, err := cli.VerifierOf(c.SigningKey)
	if err != nil {
		return nil, err
	}
	return cli.OpenSigned(note.VerifierList(verifier)), nil
}

// natsUsers reads the file of users, if there is one.
func (c *Command) natsUsers() (*natsapi.Users, error) {
	if c.NATSUsers == "" {
		return nil, nil
	}
	data, err := os.ReadFile(c.NATSUsers)
	if err != nil {
		return nil, err
	}
	users, err := natsapi.LoadUsers(data)
	if err != nil {
		return nil, fmt.Errorf("--nats-users %s: %w", c.NATSUsers, err)
	}
	return users, nil
}

// accessPart holds the permissions, and the means of identifying clients.
type accessPart struct {
	settings

	auth   auth.Authenticator
	policy *policy.Rules
	tls    *tls.Config    // of REST and NATS; nil: none
	users  *natsapi.Users // nil: every client may connect
}

// start reads the files with policy, certificates and users.
func (p *accessPart) start(context.Context) (err error) {
	if p.auth, p.policy, err = p.config.security(); err != nil {
		return err
	}
	if p.tls, err = p.config.TLS.Config(p.logger); err != nil {
		return err
	}
	p.users, err = p.config.natsUsers()
	return err
}
