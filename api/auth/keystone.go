package auth

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/tokens"
	"github.com/hashicorp/golang-lru/v2/expirable"
	"golang.org/x/sync/singleflight"

	"github.com/allot-project/allot/api/policy"
)

// Bounds of the cache of tokens.
const (
	cachedTokens = 10_000
	// refusedFor is how long a token that Keystone does not know is refused
	// without another question.
	refusedFor = 10 * time.Second
	// keystoneTimeout is how long one question to Keystone may take.
	keystoneTimeout = 10 * time.Second
	// maxTokenBytes is the size of the longest token that Keystone is asked
	// about, in bytes.
	maxTokenBytes = 16 << 10
	maxRedirects  = 10
	// reachedFor is how long it counts whether Keystone answers, and reachTimeout how long that question may take.
	reachedFor, reachTimeout = 5 * time.Second, time.Second
)

// KeystoneConfig says where Keystone is, and which account the service uses
// there.
type KeystoneConfig struct {
	// URL is the Identity v3 endpoint: https://keystone.example:5000/v3.
	URL string
	// PublicURL is Keystone's URL for clients, in a 401; empty: URL.
	PublicURL string
	// Account is the service's own account. Its token is renewed when needed.
	Account Account
	// CacheTime is how long an answer of Keystone is believed, and so how long a
	// revoked token may still be accepted. 0: 5 minutes.
	CacheTime time.Duration
	TLS       *tls.Config
	// Outgoing, if set, stands before all requests to Keystone.
	Outgoing func(http.RoundTripper) http.RoundTripper
	Now      func() time.Time
}

// Keystone validates tokens at an OpenStack Identity v3 service.
type Keystone struct {
	config  KeystoneConfig
	client  *gophercloud.ServiceClient
	known   *expirable.LRU[tokenKey, validated]
	refused *expirable.LRU[tokenKey, struct{}]
	reached *expirable.LRU[struct{}, error]
	asking  singleflight.Group
}

// tokenKey is a digest of a token, so that neither a map nor a memory dump holds
// tokens.
type tokenKey [sha256.Size]byte

type validated struct {
	id      policy.Identity
	expires time.Time
}

// NewKeystone returns an Authenticator. It does not speak to Keystone yet,
// because Keystone may start later than Allot.
func NewKeystone(config KeystoneConfig) (*Keystone, error) {
	if config.CacheTime == 0 {
		config.CacheTime = 5 * time.Minute
	}
	if config.Now == nil {
		config.Now = time.Now
	}
	provider, err := openstack.NewClient(config.URL)
	if err != nil {
		return nil, fmt.Errorf("auth: keystone url: %w", err)
	}
	provider.HTTPClient = http.Client{
		Timeout:       keystoneTimeout,
		CheckRedirect: sameOrigin,
		Transport: &http.Transport{
			TLSClientConfig: config.TLS, Proxy: http.ProxyFromEnvironment, MaxIdleConnsPerHost: 16,
		},
	}
	if config.Outgoing != nil {
		provider.HTTPClient.Transport = config.Outgoing(provider.HTTPClient.Transport)
	}
	provider.HTTPClient.Transport = boundedAnswers{provider.HTTPClient.Transport}
	provider.UseTokenLock()
	provider.ReauthFunc = func(ctx context.Context) error {
		// A client of its own, so that a refused password does not lead here
		// again.
		fresh := *provider
		fresh.SetThrowaway(true)
		fresh.ReauthFunc = nil
		if err := fresh.SetTokenAndAuthResult(nil); err != nil {
			return err
		}
		account := config.Account.at(config.URL)
		if err := openstack.AuthenticateV3(ctx, &fresh, account, gophercloud.EndpointOpts{}); err != nil {
			return err
		}
		provider.CopyTokenFrom(&fresh)
		return nil
	}
	k := &Keystone{
		config:  config,
		client:  &gophercloud.ServiceClient{ProviderClient: provider, Endpoint: strings.TrimSuffix(config.URL, "/") + "/"},
		known:   expirable.NewLRU[tokenKey, validated](cachedTokens, nil, config.CacheTime),
		refused: expirable.NewLRU[tokenKey, struct{}](cachedTokens, nil, min(refusedFor, config.CacheTime)),
		reached: expirable.NewLRU[struct{}, error](1, nil, reachedFor),
	}
	return k, nil
}

// Reachable reports why Keystone does not answer. What it reports counts for some seconds, so that questions
// about the server's health are no way to keep Keystone busy.
func (k *Keystone) Reachable() error {
	if err, known := k.reached.Get(struct{}{}); known {
		return err
	}
	_, err, _ := k.asking.Do("", func() (any, error) {
		ctx, cancel := context.WithTimeout(context.Background(), reachTimeout)
		defer cancel()
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, k.config.URL, nil)
		if err != nil {
			return nil, err
		}
		answer, err := k.client.HTTPClient.Do(request)
		if err == nil {
			err = answer.Body.Close()
			if answer.StatusCode >= http.StatusInternalServerError {
				err = fmt.Errorf("%w: it answers %s", ErrUnavailable, answer.Status)
			}
		}
		k.reached.Add(struct{}{}, err)
		return nil, err
	})
	return err
}

// sameOrigin refuses redirects to another scheme, host or port: requests carry the account's token,
// and that of the client, which are for Keystone alone.
func sameOrigin(to *http.Request, via []*http.Request) error {
	if from := via[0].URL; to.URL.Scheme != from.Scheme || to.URL.Host != from.Host || len(via) >= maxRedirects {
		return errors.New("keystone redirects to another server, or again and again: set the URL of Keystone itself")
	}
	return nil
}

// SignedIn returns a transport that sends the account's own token with requests, and
// gets another one when that one is refused. A request with a body is not sent again.
func (k *Keystone) SignedIn(next http.RoundTripper) http.RoundTripper {
	return signedIn{provider: k.client.ProviderClient, next: next}
}

type signedIn struct {
	provider *gophercloud.ProviderClient
	next     http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (s signedIn) RoundTrip(r *http.Request) (*http.Response, error) {
	token := s.provider.Token()
	if token == "" {
		var err error
		if token, err = s.renewed(r.Context(), ""); err != nil {
			return nil, err
		}
	}
	answer, err := s.send(r, token)
	if err != nil || answer.StatusCode != http.StatusUnauthorized || r.Body != nil {
		return answer, err
	}
	if err := answer.Body.Close(); err != nil {
		return nil, err
	}
	if token, err = s.renewed(r.Context(), token); err != nil {
		return nil, err
	}
	return s.send(r, token)
}

func (s signedIn) renewed(ctx context.Context, refused string) (string, error) {
	if err := s.provider.Reauthenticate(ctx, refused); err != nil {
		return "", fmt.Errorf("keystone gives no token for this account: %w", err)
	}
	return s.provider.Token(), nil
}

func (s signedIn) send(r *http.Request, token string) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set(TokenHeader, token)
	return s.next.RoundTrip(r)
}

// Challenge implements Authenticator.
func (k *Keystone) Challenge() string {
	url := k.config.PublicURL
	if url == "" {
		url = k.config.URL
	}
	return fmt.Sprintf("Keystone uri=%q", url)
}

// Authenticate implements Authenticator. It ignores everything that a client says
// about itself in other headers.
func (k *Keystone) Authenticate(r *http.Request) (policy.Identity, error) {
	token := r.Header.Get(TokenHeader)
	if token == "" || len(token) > maxTokenBytes {
		return policy.Identity{}, ErrUnauthorized
	}
	key := tokenKey(sha256.Sum256([]byte(token)))
	if v, ok := k.known.Get(key); ok {
		return v.at(k.config.Now())
	}
	if k.refused.Contains(key) {
		return policy.Identity{}, ErrUnauthorized
	}
	// All requests with the same token share one question. It does not end with
	// the one request that happened to ask.
	answer, err, _ := k.asking.Do(string(key[:]), func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), keystoneTimeout)
		defer cancel()
		return k.ask(ctx, token)
	})
	if errors.Is(err, ErrUnauthorized) {
		k.refused.Add(key, struct{}{})
	}
	if err != nil {
		return policy.Identity{}, err
	}
	v := answer.(validated)
	k.known.Add(key, v)
	return v.at(k.config.Now())
}

func (v validated) at(now time.Time) (policy.Identity, error) {
	if !now.Before(v.expires) {
		return policy.Identity{}, ErrUnauthorized
	}
	return v.id, nil
}

// ask validates a token: GET /v3/auth/tokens with the token as subject.
func (k *Keystone) ask(ctx context.Context, token string) (validated, error) {
	result := tokens.Get(ctx, k.client, token)
	if gophercloud.ResponseCodeIs(result.Err, http.StatusNotFound) {
		return validated{}, ErrUnauthorized
	}
	var body struct {
		Expires time.Time `json:"expires_at"`
		User    struct {
			ID string `json:"id"`
		} `json:"user"`
		Project struct {
			ID string `json:"id"`
		} `json:"project"`
		Roles []struct {
			Name string `json:"name"`
		} `json:"roles"`
		System map[string]any `json:"system"`
		Domain *struct{}      `json:"domain"`
	}
	if err := result.ExtractInto(&body); err != nil {
		return validated{}, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	if body.User.ID == "" || body.Expires.IsZero() {
		return validated{}, fmt.Errorf("%w: Keystone's answer names no user or no expiry", ErrUnavailable)
	}
	v := validated{expires: body.Expires, id: policy.Identity{
		User: body.User.ID, Project: body.Project.ID, System: body.System["all"] == true, Domain: body.Domain != nil,
	}}
	for _, role := range body.Roles {
		v.id.Roles = append(v.id.Roles, role.Name)
	}
	return v, nil
}
