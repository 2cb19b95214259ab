package ledgertest

import (
	"crypto/rand"
	"testing"

	cosignature "github.com/transparency-dev/formats/note"
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

// PublicKey makes the public key of an operator.
func PublicKey(t testing.TB, name string) string {
	t.Helper()
	_, public, err := note.GenerateKey(rand.Reader, name)
	OK(t, err)
	return public
}

// WitnessKey makes the public key of a witness.
func WitnessKey(t testing.TB, name string) string {
	t.Helper()
	return Must(cosignature.VKeyToCosignatureV1(PublicKey(t, name)))
}
