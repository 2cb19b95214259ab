package ask

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"math/big"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/allot-project/allot/cmd/internal/cli"
)

// consumed prints how much was held for how long, or charges in the form of FOCUS.
func consumed(ctx context.Context, a *asked) error {
	flags := a.flags.(*consumption)
	form := &focus{issuer: flags.Issuer}
	if flags.Prices != "" && !flags.Focus {
		return errors.New("--prices is for charges: give --focus, too")
	}
	if flags.Prices != "" {
		var err error
		if form.prices, err = readPrices(flags.Prices); err != nil {
			return fmt.Errorf("--prices %s: %w", flags.Prices, err)
		}
	}
	request, by := a.request(), strings.Split(flags.By, ",")
	if flags.Focus {
		if err := form.unitOf(by); err != nil {
			return err
		}
		by, a.Format = []string{form.unit, "project", "class"}, cli.CSV
		request.Query.Set("by", strings.Join(by, ","))
		a.Columns(focusColumns)
	} else {
		a.Columns(slices.Concat(by, amountsOfRows(flags)))
	}
	for {
		answer, raw, err := a.read(ctx, request, "rows")
		if err == nil {
			err = a.Raw(raw)
		}
		var rows []cli.Row
		for _, row := range list(at(a.readable(ctx, answer), "rows")) {
			one := cells(row, slices.Concat(by, amountsOfRows(flags)))
			if flags.Focus && err == nil {
				one, err = form.row(row, field(answer, "from"), field(answer, "to"))
			}
			rows = append(rows, cli.Row{Cells: one})
		}
		if err == nil {
			err = a.Rows(rows...)
		}
		next := field(answer, "next")
		if err != nil {
			return err
		}
		if next == "" {
			return a.Say("\nfrom %s to %s", field(answer, "from"), field(answer, "to"))
		}
		request.Query.Set("after", next)
		request.Query.Set("to", field(answer, "to"))
	}
}

// unitOf finds how long a charge is in the keys of --by.
func (f *focus) unitOf(by []string) error {
	f.unit = "month"
	units := slices.DeleteFunc(slices.Clone(by), func(key string) bool { return key == "project" || key == "class" })
	if len(units) > 0 {
		f.unit = units[0]
	}
	if len(units) > 1 || !slices.Contains([]string{"hour", "day", "month"}, f.unit) {
		return fmt.Errorf("--focus has rows by project, class, and the hour, day or month: not by %s", strings.Join(by, ","))
	}
	return nil
}

func amountsOfRows(flags *consumption) []string {
	if flags.Provider == "" {
		return []string{"amount_ns", "hours"}
	}
	return []string{"amount_ns", "hours", "capacity_ns", "capacity_hours", "idle_ns", "idle_hours"}
}

func cells(row any, columns []string) (list []string) {
	for _, name := range columns {
		list = append(list, field(row, name))
	}
	return list
}

// focusColumns are the mandatory columns of the FinOps Open Cost and Usage Specification 1.2,
// and of the others those that a ledger can fill.
var focusColumns = []string{
	"BilledCost", "BillingAccountId", "BillingAccountName", "BillingCurrency", "BillingPeriodEnd", "BillingPeriodStart",
	"ChargeCategory", "ChargeClass", "ChargeDescription", "ChargeFrequency", "ChargePeriodEnd", "ChargePeriodStart",
	"ConsumedQuantity", "ConsumedUnit", "ContractedCost", "ContractedUnitPrice", "EffectiveCost", "InvoiceIssuer",
	"ListCost", "ListUnitPrice", "PricingCategory", "PricingQuantity", "PricingUnit", "Provider", "Publisher",
	"ServiceCategory", "ServiceName", "SkuId", "SkuPriceId", "SubAccountId",
}

const (
	noCurrency = "XXX" // of ISO 4217
	costDigits = 12    // after the point
)

type focus struct {
	unit, issuer string
	prices       map[string]price // nil: costs are 0
}

// row is the charge of a project for a class in an hour, day or month.
func (f *focus) row(row any, from, to string) ([]string, error) {
	class, project := field(row, "class"), field(row, "project")
	begin, end, err := bounds(f.unit, field(row, f.unit), from, to)
	if err != nil {
		return nil, err
	}
	amount, isNumber := new(big.Int).SetString(field(row, "amount_ns"), 10)
	if !isNumber {
		return nil, cli.ErrNotAllot
	}
	cost, perUnit, currency, sku := "0", "", noCurrency, ""
	if f.prices != nil {
		price, known := f.prices[class]
		if !known {
			return nil, fmt.Errorf("the price list has no price of %q: add one, 0 if it costs nothing", cli.Clean(class))
		}
		cost = decimal(new(big.Rat).Mul(price.perHour, new(big.Rat).SetFrac(amount, big.NewInt(int64(time.Hour)))))
		perUnit, currency, sku = price.Price, price.Currency, class
	}
	if project == "" {
		project = "(none)"
	}
	month := time.Date(begin.Year(), begin.Month(), 1, 0, 0, 0, 0, time.UTC)
	hours, unit, category := field(row, "hours"), class+"-Hours", ""
	if perUnit != "" {
		category = "Standard"
	}
	text := func(t time.Time) string { return t.UTC().Format(time.RFC3339) }
	return []string{
		cost, project, "", currency, text(month.AddDate(0, 1, 0)), text(month),
		"Usage", "", class + " held by " + project, "Usage-Based", text(end), text(begin),
		hours, unit, cost, perUnit, cost, f.issuer,
		cost, perUnit, category, hours, unit, f.issuer, f.issuer,
		serviceCategory(class), class, sku, sku, project,
	}, nil
}

// serviceCategory is one of the values that FOCUS permits.
func serviceCategory(class string) string {
	switch {
	case class == "DISK_GB":
		return "Storage"
	case strings.HasPrefix(class, "NET_") || strings.HasPrefix(class, "IPV4_"):
		return "Networking"
	}
	return "Compute"
}

// bounds is the span with a name, as far as it is in the interval.
func bounds(unit, name, from, to string) (begin, end time.Time, err error) {
	form, step := "2006-01", func(t time.Time) time.Time { return t.AddDate(0, 1, 0) }
	switch unit {
	case "hour":
		form, step = time.RFC3339, func(t time.Time) time.Time { return t.Add(time.Hour) }
	case "day":
		form, step = time.DateOnly, func(t time.Time) time.Time { return t.AddDate(0, 0, 1) }
	}
	first, fromErr := time.Parse(time.RFC3339Nano, from)
	last, toErr := time.Parse(time.RFC3339Nano, to)
	if begin, err = time.Parse(form, name); err != nil || fromErr != nil || toErr != nil {
		return begin, end, cli.ErrNotAllot
	}
	if end = step(begin); last.Before(end) {
		end = last
	}
	if begin.Before(first) {
		begin = first
	}
	return begin, end, nil
}

// decimal writes a number with as many digits as it has, at most costDigits after the point.
func decimal(n *big.Rat) string {
	text := n.FloatString(costDigits)
	return strings.TrimRight(strings.TrimRight(text, "0"), ".")
}

type price struct {
	Class    string `yaml:"class"`
	Price    string `yaml:"price"` // of a unit for an hour
	Currency string `yaml:"currency"`

	perHour *big.Rat
}

var (
	isPrice    = regexp.MustCompile(`^[0-9]+(\.[0-9]+)?$`)
	isCurrency = regexp.MustCompile(`^[A-Z]{3}$`)
)

// readPrices reads a price list: CSV with the columns class, price and currency, or YAML with a list of these.
func readPrices(name string) (map[string]price, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, errors.Unwrap(err)
	}
	var rows []price
	if strings.HasSuffix(name, ".csv") {
		rows, err = pricesOfCSV(string(text))
	} else {
		err = yaml.Unmarshal(text, &rows)
	}
	if err != nil {
		return nil, err
	}
	prices := make(map[string]price)
	for _, row := range rows {
		_, twice := prices[row.Class]
		switch {
		case row.Class == "":
			return nil, fmt.Errorf("a price has no class")
		case twice:
			return nil, fmt.Errorf("class %s has two prices", row.Class)
		case !isPrice.MatchString(row.Price):
			return nil, fmt.Errorf("class %s: %q is no price such as 0.0125", row.Class, row.Price)
		case !isCurrency.MatchString(row.Currency):
			return nil, fmt.Errorf("class %s: %q is no currency such as EUR", row.Class, row.Currency)
		}
		row.perHour, _ = new(big.Rat).SetString(row.Price)
		prices[row.Class] = row
	}
	return prices, nil
}

func pricesOfCSV(text string) (list []price, err error) {
	rows, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	if err != nil {
		return nil, err
	}
	if len(rows) == 0 || !slices.Equal(rows[0], []string{"class", "price", "currency"}) {
		return nil, errors.New("the first line is not class,price,currency")
	}
	for _, row := range rows[1:] {
		list = append(list, price{Class: row[0], Price: row[1], Currency: row[2]})
	}
	return list, nil
}
