package main_test

import (
	"net/http"
	"strings"
	"testing"

	natsserver "github.com/nats-io/nats-server/v2/server"
)

// TestSecondOutside: a server that is started beside another one on the same
// NATS, though no flag says that there are two, takes part in the election: one
// of them decides, and neither answers what is not so any more.
func TestSecondOutside(t *testing.T) {
	t.Parallel()
	ns := outside(t, t.TempDir(), natsserver.RANDOM_PORT, true)
	flags := []string{"--nats-url", ns.ClientURL()}
	r := &replicas{t: t}
	for i := range 2 {
		r.list[i] = launch(t, t.TempDir(), flags...)
	}
	leader := r.leader()
	a, b := r.list[leader], r.list[1-leader]
	const trait = "/traits/CUSTOM_OF_TWO"
	for range 3 {
		a.Must(http.StatusCreated, "PUT", trait, "")
		b.Must(http.StatusNoContent, "GET", trait, "")
		b.Must(http.StatusNoContent, "PUT", trait, "") // it is there
		b.Must(http.StatusNoContent, "DELETE", trait, "")
		a.Must(http.StatusNotFound, "GET", trait, "")
		a.Must(http.StatusNotFound, "DELETE", trait, "")
	}
	if _, h := a.standing("/healthz"); h.Leader == "" || strings.ContainsAny(h.Leader, ". *>") {
		t.Errorf("the name that was made is %q", h.Leader)
	}
	_, h := a.standing("/healthz")
	start(t, t.TempDir(), append(flags, "--cluster-name", h.Leader)...).refuses("is called", "--cluster-name")
	r.lose(leader)
	b.Must(http.StatusCreated, "PUT", trait, "")
}
