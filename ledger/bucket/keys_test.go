package bucket_test

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/allot-project/allot/ledger/bucket"
)

// TestSilentKeys: where whoever gives out keys takes a connection and says nothing, a
// request ends with its context, as it does where the store is silent.
func TestSilentKeys(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() }) // nothing was sent
	silent := listener.Addr().String()
	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", googleKeys(t, "http://"+silent+"/token"))
	t.Setenv("AZURE_STORAGE_KEY", "")
	t.Setenv("AZURE_STORAGE_SAS_TOKEN", "")
	for name, value := range map[string]string{
		"AZURE_TENANT_ID": "00000000-0000-0000-0000-000000000001", "AZURE_CLIENT_ID": "00000000-0000-0000-0000-000000000002",
		"AZURE_CLIENT_SECRET": "secret", "AZURE_AUTHORITY_HOST": "https://" + silent,
	} {
		t.Setenv(name, value)
	}
	for _, url := range []string{
		"gs://bucket/x?endpoint=" + silent, "azblob://bucket/x?account=a&endpoint=" + silent,
	} {
		s, err := bucket.Open(url, bucket.Patience{})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		ended := make(chan error, 1)
		go func() { ended <- s.List(ctx, "parts/", "", func(bucket.Object) error { return nil }) }()
		select {
		case err := <-ended:
			if !errors.Is(err, bucket.ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s: %v", url, err)
			}
		case <-time.After(20 * time.Second):
			t.Errorf("%s: a request waits on after its context has ended", url)
		}
		cancel()
	}
}

// googleKeys writes the keys of an account that gets its tokens at an address.
func googleKeys(t *testing.T, tokens string) (path string) {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(map[string]string{
		"type": "service_account", "client_email": "allot@p.iam.gserviceaccount.com", "private_key_id": "1", "token_uri": tokens,
		"private_key": string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})), "project_id": "p",
	})
	path = filepath.Join(t.TempDir(), "keys.json")
	if err == nil {
		err = os.WriteFile(path, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}
