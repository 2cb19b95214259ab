// Package buckettest starts a store that speaks S3, for tests.
package buckettest

import (
	"context"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
)

const (
	bucketName = "ledger"
	user       = "allot"
	password   = "allot-secret"
	// hang is how long the start may take.
	hang = 3 * time.Minute
)

// S3 starts versitygw with an empty bucket, until the test ends, and returns its
// address. The test is skipped if that program, which .ci/run installs, is not there.
//
// The keys are in the environment of this process from then on.
func S3(t testing.TB) (address string) {
	t.Helper()
	program, err := exec.LookPath("versitygw")
	if err != nil {
		home, _ := os.UserHomeDir() // without one it is not found
		program = filepath.Join(home, "go", "bin", "versitygw")
	}
	if _, err := os.Stat(program); err != nil {
		t.Skip("skipped: versitygw is not installed; .ci/run has the command")
	}
	for name, value := range map[string]string{"AWS_ACCESS_KEY_ID": user, "AWS_SECRET_ACCESS_KEY": password} {
		if err := os.Setenv(name, value); err != nil { // t.Setenv forbids parallel tests, and all set the same
			t.Fatal(err)
		}
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address = listener.Addr().String()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	// O_TMPFILE and extended attributes are not everywhere: the sidecar needs neither.
	dir := t.TempDir()
	server := exec.Command(program, "--port", address, "--access", user, "--secret", password, "posix",
		"--sidecar", t.TempDir(), "--disableotmp", dir)
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = server.Process.Kill(), server.Wait() }) // it is of no use any more
	client, err := minio.New(address, &minio.Options{Creds: credentials.NewStaticV4(user, password, "")})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), hang)
	defer cancel()
	for {
		err := client.MakeBucket(ctx, bucketName, minio.MakeBucketOptions{})
		if err == nil {
			return address
		}
		if ctx.Err() != nil {
			t.Fatalf("versitygw does not serve: %v", err)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// URL returns the URL of a folder in the bucket behind an address.
func URL(address, prefix string) string {
	return "s3://" + bucketName + "/" + prefix + "?insecure=true&endpoint=" + url.QueryEscape(address)
}
