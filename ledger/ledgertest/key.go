package ledgertest

import (
	"crypto/rand"
	"testing"

	"golang.org/x/mod/sumdb/note"
)

// Key makes a key for signing checkpoints.
func Key(t testing.TB) (note.Signer, note.Verifiers) {
	t.Helper()
	private, public, err := note.GenerateKey(rand.Reader, "operator.example")
	OK(t, err)
	signer, err := note.NewSigner(private)
	OK(t, err)
	verifier, err := note.NewVerifier(public)
	OK(t, err)
	return signer, note.VerifierList(verifier)
}
