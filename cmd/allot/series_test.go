package main_test

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/nats-io/nats.go"

	"github.com/allot-project/allot/ledger/ledgertest"
)

// TestStrangersMakeNoSeries: whatever strangers send, metrics have no series that others
// of the same kind would not have made. Otherwise a stranger could fill the memory of the
// server, and of every Prometheus that reads it.
func TestStrangersMakeNoSeries(t *testing.T) {
	t.Parallel()
	metrics := freeAddress(t)
	s := launchUnguarded(t, "--metrics", metrics)
	s.makeProvider(10)
	nc := s.connect()
	replies := s.beStrange(nc, "first")
	before := counted(t, metrics, replies)
	for range 3 {
		replies += s.beStrange(nc, "x"+strings.ReplaceAll(uuid.NewString(), "-", ""))
	}
	after := counted(t, metrics, replies)
	if diff := cmp.Diff(slices.Sorted(maps.Keys(before)), slices.Sorted(maps.Keys(after))); diff != "" {
		t.Errorf("strangers have changed the series:\n%s", diff)
	}
	for _, kind := range []string{"allot_http_requests_total", "allot_nats_requests_total", "allot_commands_total"} {
		says(t, fmt.Sprint(before), kind)
	}
}

// beStrange sends requests with a word wherever a client may put one. It returns
// how many over NATS were answered.
func (s *server) beStrange(nc *nats.Conn, word string) (replies float64) {
	s.T.Helper()
	id := uuid.NewString()
	for _, path := range []string{
		"/" + word, "/placement/" + word, "/baremetal/v1/" + word, "/baremetal/v1/nodes/" + word, "/audit/" + word, "/console/" + word,
		"/cluster/" + word, "/resource_providers/" + id + "/" + word, "/traits/CUSTOM_" + strings.ToUpper(word), "//" + word,
		"/" + word + "%2f" + word, "/usages?project_id=" + word + "&" + word + "=" + word, "/audit/find?q=" + word,
	} {
		for _, method := range []string{"GET", "PUT", "OPTIONS", word} {
			for _, headers := range []map[string]string{{"X-Auth-Token": "admin"}, {
				"X-Auth-Token": "admin", "OpenStack-API-Version": "placement 1.39", word: word, "User-Agent": word, "Accept": word,
				"Content-Type": word, "Allot-Command-Id": word, "X-Openstack-Request-Id": word, "Traceparent": word,
			}} {
				if _, _, err := sendTo(method, "http://"+s.HTTP+path, "", headers); err != nil {
					s.T.Fatalf("%s %s: %v", method, path, err)
				}
			}
		}
	}
	s.Must(http.StatusCreated, "PUT", "/traits/"+"CUSTOM_"+strings.ToUpper(word)+"_2", "")
	for _, subject := range []string{
		"allot.command.CreateTrait", "allot.query.Usages", "allot.batch", // these are answered
		"allot.command." + word, "allot.query." + word, "$SRV.INFO." + word,
	} {
		for _, header := range []nats.Header{
			{}, {"Allot-Command-Id": {uuid.NewString()}, "Allot-Request-Id": {word}, "Content-Type": {word}, word: {word}},
		} {
			msg := &nats.Msg{Subject: subject, Data: fmt.Appendf(nil, `{"name": %q, %q: 1}`, word, word), Header: header}
			err := error(nil)
			if strings.HasSuffix(subject, "."+word) {
				err = nc.PublishMsg(msg)
			} else {
				replies++
				_, err = nc.RequestMsg(msg, hang)
			}
			if err != nil {
				s.T.Fatalf("%s: %v", subject, err)
			}
		}
	}
	return replies
}

// counted waits until metrics count a number of requests over NATS, and returns
// all series: a request is counted once its reply is sent.
func counted(t *testing.T, metrics string, replies float64) map[string]float64 {
	t.Helper()
	var series map[string]float64
	ledgertest.WaitFor(t, fmt.Sprint(replies, " counted requests over NATS"), func() bool {
		sum := 0.0
		series = readMetrics(t, metrics)
		for one, value := range series {
			if strings.HasPrefix(one, "allot_nats_requests_total{") {
				sum += value
			}
		}
		return sum == replies
	})
	return series
}
