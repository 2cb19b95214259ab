package placement

import (
	"testing"

	"github.com/allot-project/allot/api/rest"
	"github.com/allot-project/allot/ledger"
)

// TestProvidersAsTheyAre: a provider that writes itself reads as a map of its members does,
// at each microversion.
func TestProvidersAsTheyAre(t *testing.T) {
	t.Parallel()
	root, child := ledger.UUID{1, 2, 3}, ledger.UUID{4, 0xff}
	for _, prefix := range []string{"", "/placement", "https://[::1]:8778/a%20b", "/\"quoted\"<&>\u2028"} {
		for at := version(0); at <= maxVersion; at++ {
			var list providerList
			var want []m
			for _, p := range []*ledger.Provider{
				{UUID: root, Root: root, Name: "plain"},
				{UUID: child, Root: root, Parent: root, Name: "q\"\\ \u00e9\u2028</script>\x01", Generation: 1 << 40},
			} {
				body := providerBody{p, at, prefix}
				list, want = append(list, body), append(want, mapOf(body))
			}
			got, err := rest.Encode(m{"resource_providers": list})
			if err != nil {
				t.Fatal(err)
			}
			expected, err := ledger.PlainJSON(m{"resource_providers": want})
			if err != nil || string(got) != string(expected) {
				t.Fatalf("at 1.%d:\n%s\nwant\n%s\n%v", at, got, expected, err)
			}
		}
	}
}

// mapOf is a provider's body as members by name.
func mapOf(p providerBody) m {
	self := p.prefix + providerPath(p.UUID)
	links := []link{{"self", self}}
	for _, l := range providerLinks {
		if p.version >= l.from {
			links = append(links, link{l.rel, self + "/" + l.rel})
		}
	}
	body := m{"uuid": p.UUID, "name": p.Name, "generation": p.Generation, "links": links}
	if p.version >= treesSince {
		body["root_provider_uuid"], body["parent_provider_uuid"] = p.Root, nil
		if !p.Parent.IsNil() {
			body["parent_provider_uuid"] = p.Parent
		}
	}
	return body
}

// TestSchemas: each schema can be compiled, which its first use does.
func TestSchemas(t *testing.T) {
	for name, s := range schemas() {
		if s.Check(0) == "" {
			t.Errorf("%v takes a number", name)
		}
	}
}
