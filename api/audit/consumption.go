package audit

import (
	"context"
	"time"

	"github.com/allot-project/allot/api/present"
	"github.com/allot-project/allot/api/wire"
)

var consumptionParameters = []string{
	"from", "to", "by", "project", "user", "type", "class", "provider", "tree", "strict", "limit", "after",
}

// consumption is GET /audit/consumption: amounts times time, exact to the nanosecond.
func (q *Questions) consumption(ctx context.Context, p *parameters) (any, error) {
	asked := &wire.ConsumptionQuery{}
	if err := p.into(asked); err != nil {
		return nil, err
	}
	answer, err := present.Consumption(ctx, q.Views, asked, time.Now())
	return answer, asBad(err)
}
