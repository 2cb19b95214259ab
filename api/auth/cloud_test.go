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
	for name, variables := range map[string]map[string]string{
		"OS_CLOUD": {"OS_CLIENT_CONFIG_FILE": file, "OS_CLOUD": "home"},
		"OS_*": {
			"OS_USERNAME": "allot", "OS_PASSWORD": "secret", "OS_PROJECT_NAME": "service",
		},
		"nothing":        {},
		"no such cloud":  {"OS_CLIENT_CONFIG_FILE": file, "OS_CLOUD": "nowhere"},
		"wrong password": {"OS_USERNAME": "allot", "OS_PASSWORD": "x", "OS_PROJECT_NAME": "service"},
	} {
		t.Run(name, func(t *testing.T) {
			for variable, value := range variables {
				t.Setenv(variable, value)
			}
			account, trust, err := auth.Cloud("")
			switch name {
			case "nothing":
				if err == nil || !strings.Contains(err.Error(), "OS_") {
					t.Errorf("%v", err)
				}
				return
			case "no such cloud":
				if err == nil || !strings.Contains(err.Error(), "nowhere") {
					t.Errorf("%v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
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
