package placement

// showRoot answers the version document, which is the same at every microversion
// and open to everybody.
func showRoot(*request) (*response, error) {
	return ok(m{"versions": []any{m{
		"id": "v1.0", "status": "CURRENT", "min_version": minVersion.String(), "max_version": maxVersion.String(),
		"links": []any{m{"rel": "self", "href": ""}},
	}}}, 0), nil
}
