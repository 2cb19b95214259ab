package natsapi_test

import (
	"errors"
	"strings"
	"testing"

	"golang.org/x/crypto/bcrypt"

	"github.com/allot-project/allot/api/natsapi"
)

// TestBadUsers: a file of users that is not as it should be is refused as a whole.
func TestBadUsers(t *testing.T) {
	t.Parallel()
	hash, err := bcrypt.GenerateFromPassword([]byte("correct horse"), bcrypt.DefaultCost)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"nothing": "", "no users": "users: []", "no name": "users: [{role: operator, password: x}]",
		"plain password":     "users: [{name: a, role: operator, password: secret}]",
		"no role":            "users: [{name: a, password: 'HASH'}]",
		"unknown role":       "users: [{name: a, role: king, password: 'HASH'}]",
		"unknown command":    "users: [{name: a, role: submitter, commands: [Fly], password: 'HASH'}]",
		"unknown field":      "users: [{name: a, role: operator, colour: red, password: 'HASH'}]",
		"bound auditor":      "users: [{name: a, role: auditor, project: p, password: 'HASH'}]",
		"bad key":            "users: [{name: a, role: operator, nkey: UABC}]",
		"key and password":   "users: [{name: a, role: operator, nkey: UABC, password: 'HASH'}]",
		"twice":              "users: [{name: a, role: operator, password: 'HASH'}, {name: a, role: auditor, password: 'HASH'}]",
		"not even a mapping": "[1, 2]",
	} {
		if _, err := natsapi.LoadUsers([]byte(strings.ReplaceAll(text, "HASH", string(hash)))); !errors.Is(err, natsapi.ErrUsers) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := natsapi.LoadUsers([]byte("users: [{name: a, role: auditor, password: '" + string(hash) + "'}]")); err != nil {
		t.Errorf("a good one: %v", err)
	}
}
