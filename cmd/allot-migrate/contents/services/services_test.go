package services

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// TestHeavyAnswers: an answer that would take much more memory than its length is refused before
// it is decoded, and that of a large cloud is not.
func TestHeavyAnswers(t *testing.T) {
	t.Parallel()
	decode := func(body string) error {
		s := &Service{Kind: "Placement", URL: "http://placement"}
		var into struct {
			Providers []struct {
				UUID, Name string
				Generation int64
			} `json:"resource_providers"`
		}
		return (&Answer{Status: http.StatusOK, Body: []byte(body), service: s, request: "GET /resource_providers"}).Decode(&into)
	}
	const head, tail = `{"resource_providers": [`, "{}]}"
	err := decode(head + strings.Repeat("{},", 64<<20/3) + tail)
	if !errors.Is(err, ErrAnswer) || !strings.Contains(err.Error(), "GET /resource_providers") || len(err.Error()) > 300 {
		t.Errorf("64 MiB of {}: %v", err)
	}
	links := strings.Repeat(`{"href": "/resource_providers/11111111-1111-4111-8111-111111111111/inventories", "rel": "inventories"},`, 5)
	provider := fmt.Sprintf(`{"uuid": "11111111-1111-4111-8111-111111111111", "name": "compute-1.example", "generation": 7,
		"root_provider_uuid": "11111111-1111-4111-8111-111111111111", "parent_provider_uuid": null, "links": [%s]},`, strings.TrimSuffix(links, ","))
	if err := decode(head + strings.Repeat(provider, 100_000) + tail); err != nil {
		t.Errorf("100,000 providers: %v", err)
	}
}
