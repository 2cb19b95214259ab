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
	"slices"
	"strings"
	"sync/atomic"

	"github.com/allot-project/allot/api/rest"
	"github.com/allot-project/allot/cmd/allot-migrate/contents/placementapi"
	"github.com/allot-project/allot/cmd/allot-migrate/contents/services"
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

func whole(answer *http.Response) ([]byte, error) {
	body, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer+1))
	if err == nil && len(body) > maxAnswer {
		err = fmt.Errorf("the answer has more than %d bytes", maxAnswer)
	}
	return body, errors.Join(err, answer.Body.Close())
}

func (s *sides) isThere(ctx context.Context, side Side) bool {
	ctx, cancel := context.WithTimeout(ctx, longestPause)
	defer cancel()
	answer, err := s.ownAt(ctx, side, http.MethodGet, "/", "", nil)
	return err == nil && answer.Status == http.StatusOK
}

// own sends one of the proxy's own requests, and decodes the answer into a document. A 404 gives nil.
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
	got, err := s.ownAt(ctx, to, method, path, fmt.Sprintf("placement 1.%d", minor), body)
	switch {
	case err != nil:
		return nil, err
	case got.Status == http.StatusNotFound:
		return nil, nil
	case got.Status/100 != 2:
		return nil, errors.Join(s.busy(to, got.Status), fmt.Errorf("%w: %s: %s %s: %d %s", errRefused, to, method, path,
			got.Status, shortened(string(got.Body), 500)))
	}
	answer := document{}
	if len(bytes.TrimSpace(got.Body)) == 0 {
		return answer, nil
	}
	decoder := json.NewDecoder(bytes.NewReader(got.Body))
	decoder.UseNumber()
	return answer, decoder.Decode(&answer)
}

func (s *sides) ownAt(
	outer context.Context, to Side, method, path, version string, body document,
) (*services.Answer, error) {
	ctx, cancel := context.WithTimeout(outer, followTimeout)
	defer cancel()
	var content any // else it would be a document that is nil
	if body != nil {
		content = body
	}
	answer, err := s.peers[to].Own.Send(ctx, method, path, content, versionHeader, version)
	if err != nil {
		return nil, s.away(outer, to, err)
	}
	if !busyStatus[answer.Status] {
		s.watch.reached(to)
	}
	return answer, nil
}

// away returns and notes that a side gave no answer, unless it gave one that was not expected.
func (s *sides) away(ctx context.Context, side Side, err error) error {
	if errors.Is(err, services.ErrAnswer) {
		return err
	}
	err = fmt.Errorf("%w of %s: %w", errAway, side, err)
	if ctx.Err() == nil {
		s.watch.unreachable(side, err)
	}
	return err
}

// microversion returns the newest one that both sides know.
func (s *sides) microversion(outer context.Context) (int, error) {
	if known := s.minor.Load(); known != 0 {
		return int(known), nil
	}
	ctx, cancel := context.WithTimeout(outer, followTimeout)
	defer cancel()
	var minors []int
	for _, side := range Sides {
		minor, err := placementapi.Newest(ctx, s.peers[side].Own)
		if err != nil {
			return 0, s.away(outer, side, err)
		}
		minors = append(minors, minor)
	}
	s.minor.Store(int32(slices.Min(minors)))
	return slices.Min(minors), nil
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
