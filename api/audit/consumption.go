package audit

import (
	"bytes"
	"context"
	"maps"
	"math/big"
	"net/http"
	"slices"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"

	"github.com/allot-project/allot/api/present"
	"github.com/allot-project/allot/api/rest"
	"github.com/allot-project/allot/api/wire"
	"github.com/allot-project/allot/ledger"
	"github.com/allot-project/allot/projector"
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

// maxConsumptionSeries is how many counters one answer has at most.
const maxConsumptionSeries = 100_000

const (
	consumptionName = "allot_consumption_unit_seconds_total"
	consumptionHelp = "Amounts of a resource class that a project has held, times seconds, since the ledger's beginning."
)

// consumptionMetrics is GET /audit/consumption/metrics, in Prometheus' text format.
func (q *Questions) consumptionMetrics(ctx context.Context, _ *parameters) (any, error) {
	moment, err := present.MomentAt(q.Views, "", time.Now())
	if err != nil || moment.Sequence == 0 {
		return plain(nil), err
	}
	view, err := q.Views.ViewAt(moment.Sequence)
	if err != nil {
		return nil, err
	}
	family := &dto.MetricFamily{
		Name: new(consumptionName), Help: new(consumptionHelp), Type: new(dto.MetricType_COUNTER),
	}
	names := view.ClassNames()
	for project, err := range view.ProjectsConsumption(moment) {
		if err == nil {
			err = addCounters(family, project, names)
		}
		if err != nil || ctx.Err() != nil {
			return nil, err
		}
		if len(family.Metric) > maxConsumptionSeries {
			return nil, rest.Errorf(http.StatusUnprocessableEntity,
				"there are more than %d projects and classes; ask GET /audit/consumption, which has pages", maxConsumptionSeries)
		}
	}
	if len(family.Metric) == 0 {
		return plain(nil), nil
	}
	var out bytes.Buffer
	err = expfmt.NewEncoder(&out, expfmt.NewFormat(expfmt.TypeTextPlain)).Encode(family)
	return plain(out.Bytes()), err
}

func addCounters(family *dto.MetricFamily, project *projector.ProjectConsumption, names *projector.ClassNames) error {
	sums := make(map[string]ledger.Integral)
	for _, c := range project.Classes {
		name, err := names.Of(c.Class)
		if err != nil {
			return err
		}
		sums[name] = sums[name].Plus(c.UpTo)
	}
	for _, class := range slices.Sorted(maps.Keys(sums)) {
		seconds, _ := new(big.Rat).SetFrac(sums[class].Big(), big.NewInt(int64(time.Second))).Float64()
		family.Metric = append(family.Metric, &dto.Metric{
			Label: []*dto.LabelPair{
				{Name: new("class"), Value: new(class)}, {Name: new("project"), Value: new(project.Project)},
			},
			Counter: &dto.Counter{Value: &seconds},
		})
	}
	return nil
}
