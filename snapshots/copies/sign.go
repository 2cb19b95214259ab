package copies

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strings"
	"sync"
	"time"
)

// A copy holds everything of all projects, so that only replicas may have one. A request
// is signed with the cluster's secret, which is never sent: over its method and path, a
// challenge that the answering server has made at random, and a number that the request
// has for itself. A server takes a number once for a challenge, so that a recorded
// request is of no use anywhere, and neither clocks nor restarts matter. Answers are
// signed, too, with the number of the request. What crosses the network can still be read
// without TLS.

// Headers of requests and answers.
const (
	headerChallenge = "Allot-Challenge"
	headerNumber    = "Allot-Number"
	headerSignature = "Allot-Signature"
)

// mostNumbers is how many requests a challenge is for.
const mostNumbers = 1 << 16

// sign signs some texts, none of which has a line break.
func sign(secret string, texts ...string) string {
	mac := hmac.New(sha256.New, []byte(secret))
	_, _ = mac.Write([]byte("allot copies\n" + strings.Join(texts, "\n"))) // a hash takes everything
	return hex.EncodeToString(mac.Sum(nil))
}

func signRequest(secret string, r *http.Request, challenge, number string) string {
	return sign(secret, "request", r.Method, r.URL.RequestURI(), challenge, number)
}

func signAnswer(secret, number string, body []byte) string {
	sum := sha256.Sum256(body)
	return sign(secret, "answer", number, hex.EncodeToString(sum[:]))
}

type guard struct {
	secret string
	next   http.Handler

	mu        sync.Mutex
	challenge string          // guarded by mu
	used      map[string]bool // numbers of requests with this challenge; guarded by mu
}

func newGuard(secret string, next http.Handler) *guard {
	return &guard{secret: secret, next: next, challenge: rand.Text(), used: make(map[string]bool)}
}

// ServeHTTP implements http.Handler. A refused request is answered with the challenge.
func (g *guard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	challenge, admitted := g.admit(r)
	if !admitted {
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(headerWait)) // of a body, which is not read
		w.Header().Set(headerChallenge, challenge)
		http.Error(w, "not signed with the cluster's secret", http.StatusUnauthorized)
		return
	}
	g.next.ServeHTTP(w, r)
}

func (g *guard) admit(r *http.Request) (challenge string, admitted bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	number := r.Header.Get(headerNumber)
	want := signRequest(g.secret, r, g.challenge, number)
	if !hmac.Equal([]byte(want), []byte(r.Header.Get(headerSignature))) || g.used[number] {
		return g.challenge, false
	}
	g.used[number] = true
	if len(g.used) >= mostNumbers {
		g.challenge, g.used = rand.Text(), make(map[string]bool)
	}
	return g.challenge, true
}
