package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/allot-project/allot/api/auth"
	"github.com/allot-project/allot/cmd/allot-migrate/contents"
	"github.com/allot-project/allot/cmd/allot-migrate/contents/jsonl"
	"github.com/allot-project/allot/cmd/allot-migrate/contents/placementapi"
	"github.com/allot-project/allot/cmd/allot-migrate/contents/placementdb"
	"github.com/allot-project/allot/cmd/internal/cli"
)

// placementLogin identifies Allot to Placement's REST API: with a token, or with the account of OpenStack's
// variables in the environment, or of OS_CLOUD.
type placementLogin struct {
	PlacementToken string `help:"Token for Placement's REST API; not on the command line, where others see it." env:"OS_TOKEN" secret:""`
	AuthURL        string `name:"os-auth-url" help:"Keystone that gives a token for Placement's REST API, such as https://keystone:5000/v3, to the account of the variables OS_USERNAME and so on." env:"OS_AUTH_URL" placeholder:"URL"`
	CACert         string `name:"os-cacert" help:"Certificates of Keystone and Placement to trust instead of the system's." env:"OS_CACERT" type:"existingfile" placeholder:"FILE"`
}

func (l placementLogin) source(address string) (*placementapi.Source, error) {
	source := &placementapi.Source{URL: address, Token: l.PlacementToken}
	var trust *tls.Config
	if l.CACert != "" {
		pool, err := cli.Trusted(l.CACert)
		if err != nil {
			return nil, fmt.Errorf("the certificates in %s: %w", l.CACert, err)
		}
		trust = &tls.Config{RootCAs: pool}
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig, transport.MaxIdleConnsPerHost = trust, 16
	source.HTTP = &http.Client{Transport: transport, CheckRedirect: cli.SameOrigin} // the token is for that address alone
	if l.PlacementToken != "" || l.AuthURL == "" {
		return source, nil
	}
	account, cloud, err := auth.Cloud("")
	if err != nil {
		return nil, fmt.Errorf("OS_AUTH_URL needs an account: %w; or give a token as OS_TOKEN", err)
	}
	keystone := strings.TrimRight(l.AuthURL, "/")
	if !strings.HasSuffix(keystone, "/v3") {
		keystone += "/v3"
	}
	k, err := auth.NewKeystone(auth.KeystoneConfig{URL: keystone, TLS: cmp.Or(trust, cloud), Account: account})
	if err != nil {
		return nil, err
	}
	source.HTTP.Transport = k.SignedIn(transport)
	return source, nil
}

func isREST(address string) bool {
	scheme, _, found := strings.Cut(strings.ToLower(address), "://")
	return found && (scheme == "http" || scheme == "https")
}

// contentsAt returns what reads the Placement at an address: its database, or its REST API.
func (l placementLogin) contentsAt(address string) (reader, error) {
	if isREST(address) {
		source, err := l.source(address)
		if err != nil {
			return nil, err
		}
		return watched("reading", source.Read), nil
	}
	db, err := placementdb.Parse(address)
	if err != nil {
		return nil, err
	}
	return watched("reading", db.Read), nil
}

func watched(title string, read func(context.Context, contents.Progress) (*contents.Rows, error)) reader {
	return func(ctx context.Context) (*contents.Rows, error) {
		show, end := cli.Progress(title)
		defer end()
		return read(ctx, show)
	}
}

// contentsFrom returns what reads everything from the running server: as of one moment, in one request. An
// account that may not ask for that reads through Placement's API, as does one of an older server.
func contentsFrom(server cli.Server) reader {
	return func(ctx context.Context) (*contents.Rows, error) {
		client, err := server.Client()
		if err != nil {
			return nil, err
		}
		answer, err := client.Send(ctx, cli.Request{Path: "/audit/contents"})
		var no *cli.StatusError
		if errors.As(err, &no) && (no.Code == http.StatusForbidden || no.Code == http.StatusNotFound) {
			fmt.Fprintf(os.Stderr, "reading through Placement's API, which takes many times as long and does not tell times, because %v\n", err)
			source, err := sourceFrom(server)
			if err != nil {
				return nil, err
			}
			return watched("reading Allot", source.Read)(ctx)
		}
		if err != nil {
			return nil, err
		}
		name := answer.Request.URL.Host
		rows, err := jsonl.Read(answer.Body, name, time.Now().UnixNano())
		if err := errors.Join(err, answer.Body.Close()); err != nil {
			return nil, fmt.Errorf("read the contents of the server at %s: %w", name, err)
		}
		return rows, nil
	}
}

// sourceFrom returns what reads the running server as if it were a Placement.
func sourceFrom(server cli.Server) (*placementapi.Source, error) {
	base, err := server.Base()
	if err != nil {
		return nil, err
	}
	return placementLogin{PlacementToken: server.Token, CACert: server.CAFile}.source(base.String())
}
