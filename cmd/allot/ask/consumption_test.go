package ask

import (
	"encoding/csv"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/allot-project/allot/cmd/internal/launchtest"
	"github.com/allot-project/allot/ledger/ledgertest"
)

// charged runs the command against a server that has two pages, and returns the rows by heads.
func charged(t *testing.T, prices string, more ...string) (rows []map[string]string, err error) {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		unit := strings.Split(q.Get("by"), ",")[0]
		name := map[string]string{"month": "2026-05", "day": "2026-05-01", "hour": "2026-05-01T13:00:00Z"}[unit]
		const ends = `"from":"2026-05-01T12:00:00.5Z","to":"2026-06-01T00:00:00Z","sequence":7,`
		page := ends + `"next":"eA","rows":[{"` + unit + `":"` + name + `","project":"p","class":"VCPU",` +
			`"amount_ns":"10000000000000000000000000001","hours":"2777777777777777.777777778"}]`
		if q.Get("after") == "eA" && q.Get("to") == "2026-06-01T00:00:00Z" {
			page = ends + `"rows":[{"` + unit + `":"` + name + `","project":"","class":"DISK_GB",` +
				`"amount_ns":"3600000000000","hours":"1.000000000"}]`
		}
		_, _ = w.Write([]byte("{" + page + "}")) // the test sees what is missing
	}))
	t.Cleanup(s.Close)
	args := append([]string{"consumption", "--from", "1", "--focus"}, more...)
	if prices != "" {
		name := filepath.Join(t.TempDir(), "prices.yaml")
		if strings.HasPrefix(prices, "class,") {
			name = filepath.Join(t.TempDir(), "prices.csv")
		}
		launchtest.Write(t, name, prices)
		args = append(args, "--prices", name)
	}
	out, err := call(t, s.URL, args...)
	if err != nil {
		return nil, err
	}
	lines, err := csv.NewReader(strings.NewReader(out)).ReadAll()
	ledgertest.OK(t, err)
	for _, line := range lines[1:] {
		row := make(map[string]string)
		for i, head := range lines[0] {
			row[head] = line[i]
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// TestFocus: charges have all mandatory columns, exact costs, and periods that do not leave the
// interval.
func TestFocus(t *testing.T) {
	t.Parallel()
	mandatory := strings.Fields(`BilledCost BillingAccountId BillingAccountName BillingCurrency BillingPeriodEnd
		BillingPeriodStart ChargeCategory ChargeClass ChargeDescription ChargePeriodEnd ChargePeriodStart ContractedCost
		EffectiveCost InvoiceIssuer ListCost PricingQuantity PricingUnit Provider Publisher ServiceCategory ServiceName`)
	rows, err := charged(t, "")
	if err != nil || len(rows) != 2 {
		t.Fatal(rows, err)
	}
	for _, column := range mandatory {
		if _, has := rows[0][column]; !has {
			t.Errorf("there is no column %s", column)
		}
	}
	for column, want := range map[string]string{
		"BilledCost": "0", "BillingCurrency": "XXX", "BillingAccountId": "p", "ChargeCategory": "Usage",
		"BillingPeriodStart": "2026-05-01T00:00:00Z", "BillingPeriodEnd": "2026-06-01T00:00:00Z",
		"ChargePeriodStart": "2026-05-01T12:00:00Z", "ChargePeriodEnd": "2026-06-01T00:00:00Z",
		"ConsumedQuantity": "2777777777777777.777777778", "PricingUnit": "VCPU-Hours", "ServiceCategory": "Compute",
	} {
		if rows[0][column] != want {
			t.Errorf("%s is %q, not %q", column, rows[0][column], want)
		}
	}
	for _, list := range []string{
		"- {class: VCPU, price: 0.0125, currency: EUR}\n- {class: DISK_GB, price: \"0.1\", currency: USD}",
		"class,price,currency\nVCPU,0.0125,EUR\nDISK_GB,0.1,USD\n",
	} {
		rows, err = charged(t, list, "--by", "class,hour", "--issuer", "me")
		if err != nil || len(rows) != 2 {
			t.Fatal(rows, err)
		}
		if rows[0]["BilledCost"] != "34722222222222.222222222222" || rows[0]["ListUnitPrice"] != "0.0125" ||
			rows[0]["BillingCurrency"] != "EUR" || rows[0]["ChargePeriodEnd"] != "2026-05-01T14:00:00Z" {
			t.Errorf("%v", rows[0])
		}
		if rows[1]["BilledCost"] != "0.1" || rows[1]["BillingCurrency"] != "USD" || rows[1]["Provider"] != "me" ||
			rows[1]["BillingAccountId"] != "(none)" {
			t.Errorf("%v", rows[1])
		}
	}
	for list, want := range map[string]string{
		"class,price,currency\nVCPU,1,EUR\n":             `no price of "DISK_GB"`,
		"class,price,currency\nVCPU,1e3,EUR\n":           `"1e3" is no price`,
		"class,price,currency\nVCPU,1,euro\n":            `"euro" is no currency`,
		"class,price,currency\nVCPU,1,EUR\nVCPU,1,EUR\n": "two prices",
		"class,cost\n":        "first line",
		"- {price: 1}":        "no class",
		"VCPU: 1":             "cannot unmarshal",
		"- {class: V, x: [}]": "did not find",
	} {
		_, err := charged(t, list)
		launchtest.Says(t, fmt.Sprint(err), want)
	}
}
