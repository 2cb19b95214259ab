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
	if err != nil {
		t.Fatal(err)
	}
	signer, err := note.NewSigner(private)
	if err != nil {
		t.Fatal(err)
	}
	verifier, err := note.NewVerifier(public)
	if err != nil {
		t.Fatal(err)
	}
	return signer, note.VerifierList(verifier)
}
