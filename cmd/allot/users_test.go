package main_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/allot-project/allot/api/client"
	"github.com/allot-project/allot/api/wire"
	"github.com/allot-project/allot/commands"
	"github.com/allot-project/allot/commands/demand"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/ledgertest"
)

// quiet suppresses nats.go's messages about permissions violations.
var quiet = nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {})

// hashed returns the output of "allot nats-password".
func hashed(t *testing.T, password string) string {
	t.Helper()
	cmd := exec.Command(binary, "nats-password")
	cmd.Stdin = strings.NewReader(password + "\n")
	return strings.TrimSpace(output(t, cmd))
}

// guarded runs the binary with a user of each kind.
type guarded struct {
	*server
	nats string
	key  nkeys.KeyPair
}

func launchGuarded(t *testing.T, flags ...string) *guarded {
	t.Helper()
	key := ledgertest.Must(nkeys.CreateUser())
	public := ledgertest.Must(key.PublicKey())
	hash := hashed(t, "correct horse")
	file := filepath.Join(t.TempDir(), "users.yaml")
	text := fmt.Sprintf(`users:
  - {name: nova, password: %[1]q, role: submitter, commands: [AllocateForConsumers, ReleaseConsumer]}
  - {name: tenant, password: %[1]q, role: submitter, project: p}
  - {name: eve, password: %[1]q, role: auditor}
  - {name: root, nkey: %[2]s, role: operator}
`, hash, public)
	write(t, file, text)
	g := &guarded{nats: freeAddress(t), key: key}
	g.server = launch(t, t.TempDir(), append([]string{"--nats", g.nats, "--nats-users", file}, flags...)...)
	return g
}

func (g *guarded) connect(user string, options ...nats.Option) *nats.Conn {
	g.T.Helper()
	options = append(options, nats.UserInfo(user, "correct horse"))
	if user == "root" {
		public, err := g.key.PublicKey()
		must(g.T, err)
		options = append(options, nats.Nkey(public, g.key.Sign))
	}
	return dial(g.T, "nats://"+g.nats, options...)
}

func (g *guarded) client(user string) *client.Client {
	return client.New(g.connect(user), client.Options{TryTimeout: 500 * time.Millisecond})
}

// patiently is how long the test waits for an answer that must come.
func patiently(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), hang)
	t.Cleanup(cancel)
	return ctx
}

func allocate(provider ledger.UUID, consumer ledger.UUID, project string) *commands.AllocateForConsumers {
	return &commands.AllocateForConsumers{Allocations: []commands.ConsumerAllocations{{
		Consumer: consumer, Project: project, User: "u", AnyGeneration: true,
		Resources: []commands.ProviderAllocation{{Provider: provider, Class: "VCPU", Amount: 1}},
	}}}
}

func code(err error) string {
	var rejected *client.RejectedError
	var failure *wire.Error
	switch {
	case errors.As(err, &rejected):
		return string(rejected.Code)
	case errors.As(err, &failure):
		return failure.Code
	}
	return fmt.Sprint(err)
}

// TestUsersHideNothing: a batch gives no user what its role does not (docs/security.md has the
// roles, and TestNATSMatrix), and records name the user, whatever a client says of itself.
func TestUsersHideNothing(t *testing.T) {
	t.Parallel()
	g := launchGuarded(t)
	root, nova, tenant, eve := g.client("root"), g.client("nova"), g.client("tenant"), g.client("eve")
	provider, theirs, mine := ledger.UUID(uuid.New()), ledger.UUID(uuid.New()), ledger.UUID(uuid.New())
	const accepted = "<nil>"
	for what, one := range []struct {
		by    *client.Client
		batch []commands.Command
		want  string
	}{
		{root, []commands.Command{&commands.CreateProvider{Provider: provider, Name: "p"}, &commands.ReplaceInventories{
			Provider: provider, Inventories: []commands.Inventory{{Class: "VCPU", Total: 100}},
		}}, accepted},
		{nova, []commands.Command{allocate(provider, theirs, "q")}, accepted},
		{tenant, []commands.Command{allocate(provider, theirs, "p")}, string(demand.CodeForbidden)},
		{tenant, []commands.Command{allocate(provider, mine, "p")}, accepted},
		{tenant, []commands.Command{
			&commands.ReleaseConsumer{Consumer: mine}, &commands.ReleaseConsumer{Consumer: theirs},
		}, string(demand.CodeConsumerNotFound)},
		{nova, []commands.Command{&commands.CreateTrait{Name: "CUSTOM_X"}}, wire.ErrorForbidden},
	} {
		_, err := one.by.SubmitAtomic(patiently(t), ledger.UUID(uuid.New()), one.batch...)
		if got := code(err); got != one.want {
			t.Errorf("batch %d: %s, want %s", what, got, one.want)
		}
	}
	results, err := nova.SubmitAll(patiently(t), []client.Item{
		{ID: ledger.UUID(uuid.New()), Command: &commands.CreateTrait{Name: "CUSTOM_X"}},
		{ID: ledger.UUID(uuid.New()), Command: allocate(provider, theirs, "q")},
	})
	if err != nil || code(results[0].Err) != wire.ErrorForbidden || results[1].Err != nil {
		t.Errorf("a mixed batch: %+v, %v", results, err)
	}
	history, err := eve.History(patiently(t), wire.HistoryQuery{Of: wire.OfProvider, Name: provider.String()})
	must(t, err)
	actors := ""
	for _, entry := range history.Result.Entries {
		actors += entry.Actor + " "
	}
	if actors != "nats:nova nats:tenant nats:nova nats:root " {
		t.Errorf("actors are %s", actors)
	}
	theirs = ledger.UUID(uuid.New())
	reserve := &commands.Reserve{Seconds: 999, Projects: []string{"p"}, Allocations: allocate(provider, theirs, "q").Allocations}
	reserve.Allocations[0].Resources[0].Amount = 2
	ledgertest.Must(root.Submit(patiently(t), reserve))
	claim := ledgertest.Must(commands.Decode("Claim", fmt.Appendf(nil, `{"for":[{"consumer":%q,"project":"p","user":"u",
		"from_reservation":%q}],"requests":[{"groups":[{"resources":{"VCPU":1}}]}]}`, uuid.New(), theirs)))
	told := ledgertest.Must(tenant.DryRun(patiently(t), claim))
	if len(told) == 0 || slices.ContainsFunc(told, func(e ledger.EventLine) bool { return e.Kind == "AllocationsReserved" }) {
		t.Errorf("a dry run of a claim from another project's reservation tells %v", told)
	}
	// A header that says who the sender is does not count.
	msg := nats.NewMsg("allot.command.ReleaseConsumer")
	msg.Data = fmt.Appendf(nil, `{"consumer":%q}`, theirs)
	msg.Header.Set(wire.HeaderCommandID, uuid.NewString())
	msg.Header.Add("Nats-Request-Info", `{"acc":"client:root","user":"root"}`)
	answer, err := g.connect("tenant").RequestMsg(msg, hang)
	must(t, err)
	var reply wire.Reply
	must(t, json.Unmarshal(answer.Data, &reply))
	refused := reply.Error != nil || reply.Rejection != nil && reply.Rejection.Code == demand.CodeConsumerNotFound
	if !refused || reply.Sequence != 0 {
		t.Errorf("%s", answer.Data)
	}
}

// issue writes a new certificate for 127.0.0.1, which is its own authority.
func issue(t *testing.T, dir string, serial int64) *x509.CertPool {
	t.Helper()
	key := ledgertest.Must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: "allot"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der := ledgertest.Must(x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key))
	private := ledgertest.Must(x509.MarshalECPrivateKey(key))
	pool := x509.NewCertPool()
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	pool.AppendCertsFromPEM(certificate)
	// The key first: the pair is read when either file changes, and then again when the other does.
	write(t, filepath.Join(dir, "key.pem"), string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: private})))
	write(t, filepath.Join(dir, "cert.pem"), string(certificate))
	return pool
}

// TestTLS speaks TLS over REST and NATS while the certificate is replaced on a
// running server. An invalid certificate is not used.
func TestTLS(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	pool := issue(t, dir, 1)
	address, natsAddress := freeAddress(t), freeAddress(t)
	s := begin(t, address, exec.Command(binary, "serve", "--data", t.TempDir(), "--http", address, "--nats", natsAddress,
		"--tls-cert", filepath.Join(dir, "cert.pem"), "--tls-key", filepath.Join(dir, "key.pem")))
	serial := func(pool *x509.CertPool) int64 {
		web := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, DisableKeepAlives: true}}
		resp, err := web.Get("https://" + address + "/baremetal/")
		if err != nil {
			return 0
		}
		defer func() { _ = resp.Body.Close() }() // nothing was written
		body, err := io.ReadAll(resp.Body)
		if err != nil || !strings.Contains(string(body), "https://"+address+"/baremetal/v1/") {
			t.Errorf("%s, %v", body, err)
		}
		nc, err := nats.Connect("tls://"+natsAddress, nats.Secure(&tls.Config{RootCAs: pool}), quiet)
		if err != nil {
			return 0
		}
		defer nc.Close()
		if _, err := nc.Request("$SRV.PING.allot", nil, hang); err != nil {
			t.Error(err)
		}
		state, err := nc.TLSConnectionState()
		if err != nil || state.PeerCertificates[0].SerialNumber.Cmp(resp.TLS.PeerCertificates[0].SerialNumber) != 0 {
			t.Errorf("the doors have different certificates: %v", err)
		}
		return resp.TLS.PeerCertificates[0].SerialNumber.Int64()
	}
	until := func(want int64, pool *x509.CertPool) {
		t.Helper()
		ledgertest.WaitFor(t, fmt.Sprintf("certificate %d on both doors", want), func() bool { return serial(pool) == want })
	}
	until(1, pool)
	asked := []string{"history", "command", uuid.NewString(), "--url", address, "--ca-file", filepath.Join(dir, "cert.pem")}
	says(t, allot(t, false, asked...), "there are no such records")
	allot(t, false, "log", "--url", "https://"+address)
	if _, err := http.Get("https://" + address + "/"); err == nil {
		t.Error("the certificate is trusted by everybody")
	}
	if _, err := nats.Connect("nats://"+natsAddress, quiet, nats.Timeout(time.Second)); err == nil {
		t.Error("NATS does without TLS")
	}
	write(t, filepath.Join(dir, "cert.pem"), "nonsense")
	ledgertest.WaitFor(t, "the certificate to be refused", func() bool {
		if got := serial(pool); got != 1 {
			t.Fatalf("certificate %d", got)
		}
		return strings.Contains(s.Logs.String(), "the changed certificate cannot be read")
	})
	until(2, issue(t, dir, 2))
}
