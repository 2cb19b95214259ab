package shadow

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/allot-project/allot/api/rest"
	"github.com/allot-project/allot/ledger"
)

// sides sends requests to both services, and notes whether they answer.
type sides struct {
	peers [2]Peer // by Side
	watch *watch
	minor atomic.Int32 // of the microversion of the proxy's own requests; 0: not known
}

// errAway means that a side does not answer, or cannot now.
var errAway = errors.New("no answer")

// busyStatus are what a service answers that is there and cannot answer now.
var busyStatus = map[int]bool{
	http.StatusTooManyRequests: true, http.StatusBadGateway: true, http.StatusServiceUnavailable: true,
	http.StatusGatewayTimeout: true,
}

// busy returns an error for an answer that is none.
func (s *sides) busy(of Side, status int) error {
	if !busyStatus[status] {
		return nil
	}
	err := fmt.Errorf("%w of %s: %d %s", errAway, of, status, http.StatusText(status))
	s.watch.unreachable(of, err)
	return err
}

// errRefused means that a side refused one of the proxy's own requests.
var errRefused = errors.New("refused")

// document is an object of the API.
type document = map[string]any

// maxAnswer is how many bytes an answer can have that is read as a whole.
const maxAnswer = 64 << 20

// send sends a client's request, or its repetition, to a side.
func (s *sides) send(ctx context.Context, to Side, e *entry, body []byte, query string) (*http.Response, error) {
	peer := &s.peers[to]
	target, err := url.Parse(strings.TrimRight(peer.URL.String(), "/") + e.path)
	if err != nil {
		return nil, err
	}
	rest.PassOn(target, query)
	var content io.Reader
	if len(body) > 0 {
		content = bytes.NewReader(body)
	}
	req, err := http.NewRequestWithContext(ctx, e.method, target.String(), content)
	if err != nil {
		return nil, err
	}
	req.Header = http.Header(e.header).Clone()
	if len(body) >= expectsFrom {
		req.Header.Set("Expect", "100-continue")
	}
	if to == Allot && e.commandID != "" {
		req.Header.Set(commandHeader, e.commandID)
	}
	via := peer.Clients
	if !reads(e.method) {
		via = peer.Writes
	}
	answer, err := via.RoundTrip(req)
	switch {
	case err == nil:
		s.watch.reached(to)
	case !errors.Is(err, context.Canceled):
		s.watch.unreachable(to, err)
	}
	return answer, err
}

// whole reads an answer.
func whole(answer *http.Response) ([]byte, error) {
	body, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer+1))
	if err == nil && len(body) > maxAnswer {
		err = fmt.Errorf("the answer has more than %d bytes", maxAnswer)
	}
	return body, errors.Join(err, answer.Body.Close())
}

// isThere reports whether a side answers at all.
func (s *sides) isThere(ctx context.Context, side Side) bool {
	ctx, cancel := context.WithTimeout(ctx, longestPause)
	defer cancel()
	status, _, err := s.ownAt(ctx, side, http.MethodGet, "/", "", nil)
	return err == nil && status == http.StatusOK
}

// own sends one of the proxy's own requests, and decodes the answer into a document. A 404
// gives nil.
func (s *sides) own(ctx context.Context, to Side, method, path string, body document) (document, error) {
	minor, err := s.microversion(ctx)
	if err != nil {
		return nil, err
	}
	return s.ownBelow(ctx, to, method, path, body, minor)
}

// ownBelow is own in a microversion.
func (s *sides) ownBelow(
	ctx context.Context, to Side, method, path string, body document, minor int,
) (document, error) {
	status, text, err := s.ownAt(ctx, to, method, path, fmt.Sprintf("placement 1.%d", minor), body)
	switch {
	case err != nil:
		return nil, err
	case status == http.StatusNotFound:
		return nil, nil
	case status/100 != 2:
		return nil, errors.Join(s.busy(to, status),
			fmt.Errorf("%w: %s: %s %s: %d %s", errRefused, to, method, path, status, shortened(string(text), 500)))
	}
	answer := document{}
	if len(bytes.TrimSpace(text)) == 0 {
		return answer, nil
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	return answer, decoder.Decode(&answer)
}

func (s *sides) ownAt(
	outer context.Context, to Side, method, path, version string, body document,
) (status int, text []byte, err error) {
	ctx, cancel := context.WithTimeout(outer, followTimeout)
	defer cancel()
	peer := &s.peers[to]
	var content io.Reader
	if body != nil {
		encoded, err := ledger.PlainJSON(body)
		if err != nil {
			return 0, nil, err
		}
		content = bytes.NewReader(encoded)
	}
	req, err := http.NewRequestWithContext(ctx, method, strings.TrimRight(peer.URL.String(), "/")+path, content)
	if err != nil {
		return 0, nil, err
	}
	req.Header.Set("Accept", "application/json")
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if version != "" {
		req.Header.Set(versionHeader, version)
	}
	if peer.Token != "" {
		req.Header.Set("X-Auth-Token", peer.Token)
	}
	req.Close = to == Placement // see Peer.Writes; a read would leave its connection to a write
	answer, err := peer.Own.Do(req)
	if err != nil {
		err = fmt.Errorf("%w of %s: %w", errAway, to, err)
		if outer.Err() == nil {
			s.watch.unreachable(to, err)
		}
		return 0, nil, err
	}
	if text, err = whole(answer); err != nil {
		return 0, nil, fmt.Errorf("%w of %s: %w", errAway, to, err)
	}
	if !busyStatus[answer.StatusCode] {
		s.watch.reached(to)
	}
	return answer.StatusCode, text, nil
}

// microversion returns the newest one that both sides know.
func (s *sides) microversion(ctx context.Context) (int, error) {
	if known := s.minor.Load(); known != 0 {
		return int(known), nil
	}
	lowest := newestMinor
	for _, side := range Sides {
		_, text, err := s.ownAt(ctx, side, http.MethodGet, "/", "", nil)
		if err != nil {
			return 0, err
		}
		var root struct {
			Versions []struct {
				Max string `json:"max_version"`
			} `json:"versions"`
		}
		if err := json.Unmarshal(text, &root); err != nil || len(root.Versions) == 0 {
			return 0, fmt.Errorf("GET / of %s names no versions: is it the address of a Placement?", side)
		}
		_, minor, _ := strings.Cut(root.Versions[0].Max, ".")
		number, err := strconv.Atoi(minor)
		if err != nil || number < oldestMinor {
			return 0, fmt.Errorf("%s knows microversions up to %q, and 1.%d is needed", side, root.Versions[0].Max, oldestMinor)
		}
		lowest = min(lowest, number)
	}
	s.minor.Store(int32(lowest))
	return lowest, nil
}

// generation asks a side for a generation; "null": there is no such thing.
func (s *sides) generation(ctx context.Context, of Side, what Resource) (string, error) {
	kind, id := what.split()
	path, member := "/resource_providers/"+url.PathEscape(id), "generation"
	if kind == kindConsumer {
		path, member = "/allocations/"+url.PathEscape(id), "consumer_generation"
	}
	answer, err := s.own(ctx, of, http.MethodGet, path, nil)
	if err != nil {
		return "", err
	}
	if generation, known := answer[member].(json.Number); known {
		return generation.String(), nil
	}
	return "null", nil
}
