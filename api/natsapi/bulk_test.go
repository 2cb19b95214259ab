package natsapi

import (
	"testing"

	"github.com/nats-io/nats.go/micro"
)

// bare is a request without headers.
type bare struct{ micro.Request }

func (bare) Headers() micro.Headers { return nil }

// TestWhoLoadsInBulk: each command names its client, on whose account it adds to the log, and only
// loaders and operators add to it without a bound.
func TestWhoLoadsInBulk(t *testing.T) {
	t.Parallel()
	for role, bulk := range map[Role]bool{RoleSubmitter: false, RoleAuditor: false, RoleLoader: true, RoleOperator: true} {
		s, failure := new(Service).submission(&request{Request: bare{}, client: "a", user: &User{Name: "a", Role: role}})
		if failure != nil || s.Client != "a" || s.Bulk != bulk {
			t.Errorf("%s: %+v, %v", role, s, failure)
		}
	}
}
