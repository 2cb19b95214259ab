package audit

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/allot-project/allot/api/answers"
	"github.com/allot-project/allot/api/rest"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/projector"
)

// Digest serves GET /audit/digest?at=MOMENT: the position of a commit, the
// newest one if none is asked for, and the digest that the read models had
// after it, which a replay of the log up to there must give, too.
type Digest struct {
	Views *projector.Projector
	// Authorize answers the request itself and returns false if the client
	// may not read the log.
	Authorize func(http.ResponseWriter, *http.Request) bool
	Logger    *slog.Logger
}

// digestTries is how often the read models are read through while commits
// keep coming in, before those of a moment are looked for among later ones,
// which takes longer.
const digestTries = 3

// digestAnswer is what is so after a commit.
type digestAnswer struct {
	ledger.Head
	ReadModels ledger.Digest `json:"read_models"`
	Records    int64         `json:"records"`
	Root       ledger.Digest `json:"root"` // of the tree of all records
}

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
	answer, err := h.answer(r.Context(), p["at"])
	switch {
	case errors.Is(err, answers.ErrMoment):
		http.Error(w, "at: "+err.Error(), http.StatusBadRequest)
	case r.Context().Err() != nil: // the client is gone
	case err != nil:
		unreadable(w, h.Logger, "digest not answered", "the read models cannot be read", err)
	default:
		w.Header().Set("Content-Type", "application/json")
		_ = ledger.PlainEncoder(w).Encode(answer) // the client is gone if this fails
	}
}

func (h *Digest) answer(ctx context.Context, at string) (*digestAnswer, error) {
	for range digestTries {
		if at != "" {
			break
		}
		head := h.Views.Checkpoint()
		sum, err := h.Views.Digest()
		if err != nil {
			return nil, err
		}
		if view := h.Views.View(); h.Views.Checkpoint() == head && view.Sequence() == head.Sequence {
			return answerOf(view, sum)
		}
	}
	view, err := answers.ViewAt(h.Views, at, time.Now())
	if err != nil {
		return nil, err
	}
	sum, err := view.Digest(ctx)
	if err != nil {
		return nil, err
	}
	return answerOf(view, sum)
}

func answerOf(view projector.View, sum ledger.Digest) (*digestAnswer, error) {
	checkpoint, err := view.Checkpoint()
	if err != nil {
		return nil, err
	}
	return &digestAnswer{Head: checkpoint.Head, ReadModels: sum, Records: checkpoint.Size, Root: checkpoint.Root}, nil
}
