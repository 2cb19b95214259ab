// Package witness has witnesses cosign checkpoints of the log (c2sp.org/tlog-witness), so
// that an operator cannot show two histories. A witness checks by itself that the log of a
// checkpoint holds everything of the one that it cosigned before. Of its answer nothing is
// believed but its signatures.
package witness

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	cosignature "github.com/transparency-dev/formats/note"
	"golang.org/x/mod/sumdb/note"

	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/proof"
)

// Witness is a witness, and where it is asked.
type Witness struct {
	note.Verifier
	URL string
}

// Parse reads "VKEY URL".
func Parse(text string) (w Witness, err error) {
	fields := strings.Fields(text)
	if len(fields) != 2 {
		return w, fmt.Errorf("%q is not a witness's public key, a blank, and the URL at which it is asked", text)
	}
	if w.Verifier, err = proof.ParseWitness(fields[0]); err != nil {
		return w, err
	}
	u, err := url.Parse(fields[1])
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" {
		return w, fmt.Errorf("%q is not the URL of a witness, as in https://witness.example.org", fields[1])
	}
	w.URL = strings.TrimRight(fields[1], "/") + "/add-checkpoint"
	return w, nil
}

// Signed is a checkpoint for which cosignatures are wanted.
type Signed struct {
	Note []byte // signed by the operator
	proof.Checkpoint
	// Growth proves that the checkpoint's log holds all of one with fewer records.
	Growth func(ctx context.Context, from int64) ([]ledger.Digest, error)
}

const (
	// maxAnswerBytes is more than the signatures of any witness take.
	maxAnswerBytes = 16 << 10
	// maxProofLines is how many hashes a request may have.
	maxProofLines = 63
	// tries is how often a witness may answer that it knows another checkpoint: other
	// servers of the ledger may ask it, too.
	tries = 3
)

var errRedirected = errors.New("it sends requests elsewhere: name the URL that it sends them to")

func newClient() *http.Client {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxResponseHeaderBytes = maxAnswerBytes
	refuse := func(*http.Request, []*http.Request) error { return errRedirected }
	return &http.Client{Transport: transport, CheckRedirect: refuse}
}

// cosign asks a witness for its signature, and returns its line and its time. It begins with the
// size that the witness is believed to know.
func (w Witness) cosign(ctx context.Context, client *http.Client, c *Signed, known int64) (string, time.Time, error) {
	for range tries {
		status, answer, err := w.send(ctx, client, c, known)
		if err != nil {
			return "", time.Time{}, err
		}
		switch status {
		case http.StatusOK:
			return w.signature(c.Note, answer)
		case http.StatusConflict:
			size, err := strconv.ParseInt(strings.TrimSuffix(string(answer), "\n"), 10, 64)
			switch {
			case err != nil || size < 0:
				return "", time.Time{}, fmt.Errorf("it knows another checkpoint, and does not say which: %q", brief(answer))
			case size > c.Size:
				return "", time.Time{}, fmt.Errorf(
					"it has cosigned a log of %d records, and this one has %d: this server is behind, or has another history", size, c.Size)
			}
			known = size
		default:
			return "", time.Time{}, refusal(status, answer, known)
		}
	}
	return "", time.Time{}, fmt.Errorf("it names another checkpoint each time, at last one of %d records", known)
}

// refusal says what a witness means by a status.
func refusal(status int, answer []byte, known int64) error {
	means := map[int]string{
		http.StatusNotFound:            "it does not know the log: tell its operator the log's public key",
		http.StatusForbidden:           "it does not know the key that signs the log: tell its operator the log's public key",
		http.StatusUnprocessableEntity: fmt.Sprintf("it has cosigned another log of %d records: the history was changed", known),
	}[status]
	if means == "" {
		means = http.StatusText(status)
	}
	return fmt.Errorf("%s (%d: %q)", means, status, brief(answer))
}

// send sends a checkpoint, with the proof that it holds the one that the witness knows.
func (w Witness) send(ctx context.Context, client *http.Client, c *Signed, known int64) (int, []byte, error) {
	body := fmt.Appendf(nil, "old %d\n", known)
	if known > 0 && known < c.Size {
		path, err := c.Growth(ctx, known)
		if err != nil {
			return 0, nil, err
		}
		if len(path) > maxProofLines {
			return 0, nil, fmt.Errorf("the proof has %d hashes, and may have %d", len(path), maxProofLines)
		}
		for _, hash := range path {
			body = append(base64.StdEncoding.AppendEncode(body, hash[:]), '\n')
		}
	}
	body = append(append(body, '\n'), c.Note...)
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, w.URL, bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	answer, err := client.Do(request)
	if err != nil {
		return 0, nil, err
	}
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswerBytes+1))
	if err = errors.Join(err, answer.Body.Close()); err != nil {
		return 0, nil, err
	}
	if len(text) > maxAnswerBytes {
		return 0, nil, fmt.Errorf("it answers with more than %d bytes", maxAnswerBytes)
	}
	return answer.StatusCode, text, nil
}

// signature finds the witness's own signature of a checkpoint in its answer.
func (w Witness) signature(signed, answer []byte) (line string, at time.Time, err error) {
	want, _, _ := strings.Cut(string(signed), "\n\n")
	n, err := note.Open(append(bytes.Clone(signed), answer...), note.VerifierList(w))
	if err != nil {
		return "", at, fmt.Errorf("it answers with no signature of the checkpoint: %q: %w", brief(answer), err)
	}
	if n.Text != want+"\n" {
		return "", at, fmt.Errorf("it has signed another text: %q", brief([]byte(n.Text)))
	}
	sig := n.Sigs[0]
	if at, err = cosignature.CoSigV1Timestamp(sig); err != nil {
		return "", at, err
	}
	return fmt.Sprintf("— %s %s\n", sig.Name, sig.Base64), at, nil
}

func brief(answer []byte) []byte { return bytes.TrimSpace(answer[:min(len(answer), 200)]) }
