package ledgertest

import (
	"os"
	"testing"
)

// ReadFile returns what a file holds.
func ReadFile(t testing.TB, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	OK(t, err)
	return text
}

// Flip damages the byte in the middle of a file.
func Flip(t testing.TB, path string) {
	t.Helper()
	text := ReadFile(t, path)
	text[len(text)/2] ^= 1
	OK(t, os.WriteFile(path, text, 0o600))
}
