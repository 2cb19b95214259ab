package buckettest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"

	"github.com/allot-project/allot/ledger/ledgertest"
)

// GCS starts fake-gcs-server with an empty bucket, until the test ends, and returns its
// address. The test is skipped if that program, which .ci/run installs, is not there.
func GCS(t testing.TB) (address string) {
	t.Helper()
	program := installed(t, "fake-gcs-server", "go/bin/fake-gcs-server")
	address = ledgertest.FreeAddress(t)
	host, port, _ := strings.Cut(address, ":")
	run(t, exec.Command(program, "-backend", "memory", "-scheme", "http", "-host", host, "-port", port,
		"-public-host", address))
	untilServed(t, program, func(ctx context.Context) error {
		body := strings.NewReader(`{"name": "` + bucketName + `"}`)
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+address+"/storage/v1/b?project=p", body)
		if err != nil {
			return err
		}
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			return err
		}
		if resp.StatusCode != http.StatusOK {
			err = fmt.Errorf("it answers %s", resp.Status)
		}
		return errors.Join(err, resp.Body.Close())
	})
	return address
}

// GCSURL returns the URL of a folder in the bucket behind an address of GCS.
func GCSURL(address, prefix string) string {
	return "gs://" + bucketName + "/" + prefix + "?insecure=true&endpoint=" + url.QueryEscape(address)
}

// The account that an emulator of Azure's Blob Storage has, and its key, are known to
// everybody.
const (
	azureAccount = "devstoreaccount1"
	azureKey     = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
)

// Azure starts Azurite with an empty container, until the test ends, and returns its
// address. The test is skipped if that program, which .ci/run installs, is not there.
//
// The key is in the environment of this process from then on.
func Azure(t testing.TB) (address string) {
	t.Helper()
	program := installed(t, "azurite-blob", ".cache/azurite/node_modules/.bin/azurite-blob")
	// t.Setenv forbids parallel tests, and all set the same.
	if err := os.Setenv("AZURE_STORAGE_KEY", azureKey); err != nil {
		t.Fatal(err)
	}
	address = ledgertest.FreeAddress(t)
	host, port, _ := strings.Cut(address, ":")
	run(t, exec.Command(program, "--silent", "--blobHost", host, "--blobPort", port, "--inMemoryPersistence",
		"--skipApiVersionCheck", "--disableTelemetry"))
	signer, err := container.NewSharedKeyCredential(azureAccount, azureKey)
	if err != nil {
		t.Fatal(err)
	}
	client, err := container.NewClientWithSharedKeyCredential("http://"+address+"/"+azureAccount+"/"+bucketName, signer,
		&container.ClientOptions{ClientOptions: azcore.ClientOptions{Retry: policy.RetryOptions{MaxRetries: -1}}})
	if err != nil {
		t.Fatal(err)
	}
	untilServed(t, program, func(ctx context.Context) error {
		_, err := client.Create(ctx, nil)
		return err
	})
	return address
}

// AzureURL returns the URL of a folder in the container behind an address of Azure.
func AzureURL(address, prefix string) string {
	return "azblob://" + bucketName + "/" + prefix + "?account=" + azureAccount + "&insecure=true&endpoint=" +
		url.QueryEscape(address)
}

// installed returns where a program is, in the path or below the home folder.
func installed(t testing.TB, name, below string) string {
	t.Helper()
	program, err := exec.LookPath(name)
	if err != nil {
		home, _ := os.UserHomeDir() // without one it is not found
		program = filepath.Join(home, filepath.FromSlash(below))
	}
	if _, err := os.Stat(program); err != nil {
		t.Skipf("skipped: %s is not installed; .ci/run has the command", name)
	}
	return program
}

// run runs a server until the test ends.
func run(t testing.TB, server *exec.Cmd) {
	t.Helper()
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = server.Process.Kill(), server.Wait() }) // it is of no use any more
}

// untilServed calls a function until it succeeds.
func untilServed(t testing.TB, program string, try func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), hang)
	defer cancel()
	for err := try(ctx); err != nil; err = try(ctx) {
		if ctx.Err() != nil {
			t.Fatalf("%s does not serve: %v", program, err)
		}
		time.Sleep(50 * time.Millisecond)
	}
}
