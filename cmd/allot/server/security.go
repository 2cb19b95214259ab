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

	"github.com/allot-project/allot/api/auth"
	"github.com/allot-project/allot/api/natsapi"
	"github.com/allot-project/allot/api/policy"
	"github.com/allot-project/allot/api/rest"
	"github.com/allot-project/allot/api/tracing"
	"github.com/allot-project/allot/cmd/internal/cli"
)

// keystoneFlags say where Keystone is, and which account the server uses there.
type keystoneFlags struct {
	URL       string `name:"url" help:"Identity v3 endpoint of Keystone, such as https://keystone.example:5000/v3. Without it requests are not authenticated." placeholder:"URL" usual:""`
	PublicURL string `name:"public-url" help:"Keystone's URL for clients, in answers with 401; default: --keystone-url." placeholder:"URL"`
	Cloud     string `help:"Cloud of clouds.yaml with the server's own account; default: what OS_CLOUD or the other variables OS_* say." placeholder:"NAME" usual:""`
}

// tokenTime is how long the server believes an answer of Keystone about a token.
const tokenTime = 5 * time.Minute

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
	account, trust, err := auth.Cloud(c.Keystone.Cloud)
	if err != nil {
		return nil, nil, fmt.Errorf("--keystone-cloud %s: %w", c.Keystone.Cloud, err)
	}
	keystone, err := auth.NewKeystone(auth.KeystoneConfig{
		URL: c.Keystone.URL, PublicURL: c.Keystone.PublicURL, Account: account, TLS: trust, CacheTime: tokenTime,
		Outgoing: tracing.Outgoing,
	})
	return keystone, rules, err
}

// openDocuments are the paths that any page may read, as upstream.
var openDocuments = []string{"", "/", "/placement", "/placement/"}

// fromBrowsers answers preflights before authentication, adds CORS headers for allowed origins, and refuses
// requests from pages of other origins. Where requests are authenticated, a page gains nothing from a name
// that points here, so the request's host is checked only if names are listed.
func (c *Command) fromBrowsers(table *router) http.Handler {
	guard := &rest.BrowserGuard{
		Open: openDocuments, Hosts: c.AllowedHost, CheckHost: c.Keystone.URL == "" || c.AllowedHost != nil,
	}
	local, err := cli.IsLocal(c.HTTP)
	guard.AnyAddress = !local || err != nil
	if len(c.CORSAllowedOrigin) == 0 {
		table.guard = guard
		return table
	}
	shared := cors.New(cors.Options{
		AllowedOrigins: c.CORSAllowedOrigin, AllowedMethods: corsMethods, AllowedHeaders: corsRequestHeaders,
		ExposedHeaders: corsResponseHeaders, AllowCredentials: true, MaxAge: 3600, OptionsSuccessStatus: http.StatusOK,
	})
	guard.Allowed = shared.OriginAllowed
	table.guard = guard
	return shared.Handler(table)
}

// fromScrapers refuses requests of web pages to the port of metrics. That port is open to everybody, so names
// are checked only if it listens for this machine alone.
func (c *Command) fromScrapers(next http.Handler) http.Handler {
	local, err := cli.IsLocal(c.Metrics)
	guard := &rest.BrowserGuard{
		Hosts: c.AllowedHost, CheckHost: local && err == nil || c.AllowedHost != nil, AnyAddress: !local,
	}
	return guard.Handler(next)
}

// accessPart holds the permissions, and the means of identifying clients.
type accessPart struct {
	*server

	auth   auth.Authenticator
	policy *policy.Rules
	tls    *tls.Config    // of REST and NATS; nil: none
	users  *natsapi.Users // nil: every client may connect

	reachable func() error // whether Keystone answers; nil: there is none
}

// start reads the files with policy, certificates and users, and returns every fault.
func (p *accessPart) start(context.Context) error {
	var access, certificates, users error
	p.auth, p.policy, access = p.config.security()
	if keystone, is := p.auth.(*auth.Keystone); is && access == nil {
		p.reachable = keystone.Reachable
	}
	p.tls, certificates = p.config.TLS.Config(p.logger)
	if p.config.NATSUsers != "" {
		var file []byte
		if file, users = os.ReadFile(p.config.NATSUsers); users == nil {
			p.users, users = natsapi.LoadUsers(file)
		}
		if users != nil {
			users = fmt.Errorf("--nats-users %s: %w", p.config.NATSUsers, users)
		}
	}
	return errors.Join(access, certificates, users)
}
