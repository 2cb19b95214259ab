package auth_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/allot-project/allot/api/auth"
	"github.com/allot-project/allot/api/auth/keystonetest"
)

// TestCloud: the account is found where clients of OpenStack look for theirs, and Keystone
// takes it. A cloud that is not there, and variables that say nothing, are errors that name them.
func TestCloud(t *testing.T) {
	server := keystonetest.Start(
		t, keystonetest.User{Name: "allot", Password: "secret", ID: "u", Project: "service", Roles: []string{"service"}},
	)
	file := filepath.Join(t.TempDir(), "clouds.yaml")
	text := `clouds: {home: {auth: {auth_url: "http://elsewhere.example:5000", username: allot, password: secret,
	  project_name: service, user_domain_name: Default, project_domain_name: Default}}}`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
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
			if err != nil {
				t.Fatal(err)
			}
			if _, err = ask(k, server.Token("allot")); (err == nil) != (name != "wrong password") {
				t.Errorf("%v", err)
			}
		})
	}
}
