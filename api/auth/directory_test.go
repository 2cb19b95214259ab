package auth_test

import (
	"slices"
	"testing"

	"github.com/allot-project/allot/api/auth"
	"github.com/allot-project/allot/api/auth/keystonetest"
)

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
