package audit

import (
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/allot-project/allot/api/answers"
	"github.com/allot-project/allot/api/rest"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/ledger/proof"
	"github.com/allot-project/allot/projector"
)

// Digest serves GET /audit/digest: the position of the newest commit, and the
// digest of the read models after it, which a replay of the log must give, too.
type Digest struct {
	Views *projector.Projector
	// Authorize answers the request itself and returns false if the client
	// may not read the log.
	Authorize func(http.ResponseWriter, *http.Request) bool
	Logger    *slog.Logger
}

// digestTries is how often the read models are read through while commits
// keep coming in.
const digestTries = 3

// ServeHTTP implements http.Handler.
func (h *Digest) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !admitted(w, r, h.Authorize) {
		return
	}
	p, err := parse(rest.ParseQuery(r), []string{"at"})
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if p["at"] != "" {
		h.past(w, p["at"])
		return
	}
	for range digestTries {
		head := h.Views.Checkpoint()
		sum, err := h.Views.Digest()
		if err != nil {
			unreadable(w, h.Logger, "digest not answered", "the read models cannot be read", err)
			return
		}
		view := h.Views.View()
		if h.Views.Checkpoint() != head || view.Sequence() != head.Sequence {
			continue
		}
		checkpoint, err := view.Checkpoint()
		if err != nil {
			unreadable(w, h.Logger, "digest not answered", "the read models cannot be read", err)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = ledger.PlainEncoder(w).Encode(struct {
			ledger.Head
			ReadModels ledger.Digest `json:"read_models"`
			Root       ledger.Digest `json:"root"` // of the tree of all records
		}{head, sum, checkpoint.Root}) // the client is gone if this fails
		return
	}
	w.Header().Set("Retry-After", "1")
	http.Error(w, "too much is being written to say", http.StatusServiceUnavailable)
}

// past answers the position of a past commit, and the root of the tree of all
// records then. The read models have one digest, which is that of now.
func (h *Digest) past(w http.ResponseWriter, at string) {
	view, err := answers.ViewAt(h.Views, at, time.Now())
	if errors.Is(err, answers.ErrMoment) {
		http.Error(w, "at: "+err.Error(), http.StatusBadRequest)
		return
	}
	var checkpoint *proof.Checkpoint
	if err == nil {
		checkpoint, err = view.Checkpoint()
	}
	if err != nil {
		h.Logger.Error("digest not answered", "error", err)
		http.Error(w, "the read models cannot be read; the server's log says more", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = ledger.PlainEncoder(w).Encode(struct {
		ledger.Head
		Records int64         `json:"records"`
		Root    ledger.Digest `json:"root"`
	}{checkpoint.Head, checkpoint.Size, checkpoint.Root}) // the client is gone if this fails
}
