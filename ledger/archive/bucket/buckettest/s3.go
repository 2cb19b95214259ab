// Package buckettest starts stores that speak S3, for tests.
package buckettest

import (
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/allot-project/allot/ledger/ledgertest"
)

const (
	bucketName = "ledger"
	user       = "allot"
	password   = "allot-secret"
)

// S3 starts versitygw with an empty bucket, until the test ends, and returns its
// address. The test is skipped if that program, which .ci/run installs, is not there.
//
// The keys are in the environment of this process from then on.
func S3(t testing.TB) (address string) {
	t.Helper()
	program := installed(t, "versitygw", "go/bin/versitygw")
	for name, value := range map[string]string{"AWS_ACCESS_KEY_ID": user, "AWS_SECRET_ACCESS_KEY": password} {
		if err := os.Setenv(name, value); err != nil { // t.Setenv forbids parallel tests, and all set the same
			t.Fatal(err)
		}
	}
	address = ledgertest.FreeAddress(t)
	// O_TMPFILE and extended attributes are not everywhere: the sidecar needs neither.
	dir := t.TempDir()
	run(t, exec.Command(program, "--port", address, "--access", user, "--secret", password, "posix",
		"--sidecar", t.TempDir(), "--disableotmp", dir))
	client, err := minio.New(address, &minio.Options{Creds: credentials.NewStaticV4(user, password, "")})
	ledgertest.OK(t, err)
	ledgertest.WaitFor(t, "versitygw to serve", func() bool {
		err = client.MakeBucket(t.Context(), bucketName, minio.MakeBucketOptions{})
		return err == nil
	}, func() any { return err })
	return address
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
	ledgertest.OK(t, server.Start())
	t.Cleanup(func() { _, _ = server.Process.Kill(), server.Wait() }) // it is of no use any more
}

// URL returns the URL of a folder in the bucket behind an address.
func URL(address, prefix string) string {
	return "s3://" + bucketName + "/" + prefix + "?insecure=true&endpoint=" + url.QueryEscape(address)
}
