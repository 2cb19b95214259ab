package ledgertest

// OK ends a test at the first error, if there is any.
func OK(t interface {
	Helper()
	Fatal(args ...any)
}, errs ...error) {
	t.Helper()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
}
