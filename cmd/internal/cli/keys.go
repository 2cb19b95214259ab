package cli

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"fmt"
	"os"
	"strings"

	"golang.org/x/mod/sumdb/note"
)

// LoadSigner reads the operator's private key; nil if there is no file.
func LoadSigner(file string) (note.Signer, error) {
	if file == "" {
		return nil, nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("--signing-key: %w", err)
	}
	signer, err := note.NewSigner(string(bytes.TrimSpace(text)))
	if err != nil {
		return nil, fmt.Errorf("--signing-key %s: the file has no private key that allot signing-key made: %w", file, err)
	}
	return signer, nil
}

// VerifierOf returns the verifier of what the private key in a file signs.
func VerifierOf(file string) (note.Verifier, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("--signing-key: %w", err)
	}
	// PRIVATE+KEY+NAME+HASH+BASE64, where the bytes are the kind of key and its seed.
	fields := strings.SplitN(string(bytes.TrimSpace(text)), "+", 5)
	unknown := fmt.Errorf("--signing-key %s: the file has no private key that allot signing-key made", file)
	if len(fields) != 5 {
		return nil, unknown
	}
	seed, err := base64.StdEncoding.DecodeString(fields[4])
	if err != nil || len(seed) != 1+ed25519.SeedSize {
		return nil, unknown
	}
	public, _ := ed25519.NewKeyFromSeed(seed[1:]).Public().(ed25519.PublicKey) // it is always one
	key, err := note.NewEd25519VerifierKey(fields[2], public)
	if err != nil {
		return nil, err
	}
	return note.NewVerifier(key)
}

// OpenSigned returns what opens texts that are signed with one of some keys; nil: any text will do.
func OpenSigned(keys note.Verifiers) func([]byte) ([]byte, error) {
	if keys == nil {
		return nil
	}
	return func(signed []byte) ([]byte, error) {
		opened, err := note.Open(signed, keys)
		if err != nil {
			return nil, err
		}
		return []byte(opened.Text), nil
	}
}
