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

// Must is the value of a call that fails in no test.
func Must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}
