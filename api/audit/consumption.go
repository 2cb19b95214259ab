package audit

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/allot-project/allot/api/present"
	"github.com/allot-project/allot/api/rest"
	"github.com/allot-project/allot/api/wire"
)

var consumptionParameters = []string{
	"from", "to", "by", "project", "user", "type", "class", "provider", "tree", "strict", "limit", "after",
}

// consumption is GET /audit/consumption: amounts times time, exact to the nanosecond.
func (q *Questions) consumption(ctx context.Context, p parameters) (any, error) {
	asked, err := consumptionOf(p)
	if err != nil {
		return nil, err
	}
	answer, err := present.Consumption(ctx, q.Views, asked, time.Now())
	if errors.Is(err, present.ErrQuery) {
		return nil, rest.BadRequest("%s", strings.TrimPrefix(err.Error(), present.ErrQuery.Error()+": "))
	}
	return answer, err
}

// consumptionOf reads the parameters.
func consumptionOf(p parameters) (*wire.ConsumptionQuery, error) {
	q := &wire.ConsumptionQuery{
		From: wire.Instant(p["from"]), To: wire.Instant(p["to"]), Project: p["project"], User: p["user"],
		Type: p["type"], Class: p["class"], After: p["after"],
	}
	if p["by"] != "" {
		q.By = strings.Split(p["by"], ",")
	}
	limit, err := p.number("limit", 1, present.MaxConsumed, present.MaxConsumed)
	q.Limit = int(limit)
	if err == nil && p["provider"] != "" {
		q.Provider, err = p.uuid("provider")
	}
	for name, value := range map[string]*bool{"tree": &q.Tree, "strict": &q.Strict} {
		if *value = p[name] == "true"; err == nil && p[name] != "" && !*value && p[name] != "false" {
			err = rest.BadRequest("%s: %q is neither true nor false", name, p[name])
		}
	}
	return q, err
}
