package vitals

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/allot-project/allot/ledger/witness"
)

// witnessMetrics are those of each witness, by the names of their keys.
type witnessMetrics struct{ *witness.Group }

var (
	witnessSize = prometheus.NewDesc("allot_witness_cosigned_records",
		"Records of the last checkpoint that a witness has cosigned; 0: none.", []string{"witness"}, nil)
	witnessTime = prometheus.NewDesc("allot_witness_cosigned_timestamp_seconds",
		"When a witness has cosigned its last checkpoint, by its own clock; 0: not since the start.", []string{"witness"}, nil)
)

// Describe implements prometheus.Collector.
func (witnessMetrics) Describe(to chan<- *prometheus.Desc) {
	to <- witnessSize
	to <- witnessTime
}

// Collect implements prometheus.Collector.
func (m witnessMetrics) Collect(to chan<- prometheus.Metric) {
	for _, one := range m.Status() {
		seconds := 0.0
		if !one.Time.IsZero() {
			seconds = float64(one.Time.Unix())
		}
		to <- prometheus.MustNewConstMetric(witnessSize, prometheus.GaugeValue, float64(one.Size), one.Name)
		to <- prometheus.MustNewConstMetric(witnessTime, prometheus.GaugeValue, seconds, one.Name)
	}
}
