package telemetry

import (
	"fmt"
	"log/slog"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

func TestTenantLabels(t *testing.T) {
	t.Parallel()
	var labels tenantLabels
	names := map[string]bool{}
	for range 2 {
		for i := range 1500 {
			names[labels.of(fmt.Sprint("t", i))] = true
		}
	}
	if len(names) != maxTenants+1 || !names["t0"] || !names[otherTenants] {
		t.Errorf("1,500 tenants have %d names, want %d", len(names), maxTenants+1)
	}
}

func TestGaugesShareLabels(t *testing.T) {
	t.Parallel()
	desc := prometheus.NewDesc("n", "", []string{"tenant"}, nil)
	g := gauges{values: map[*prometheus.Desc]map[string]*gauge{}}
	for _, value := range []float64{2, -1, 3} {
		g.add(desc, sum, value, otherTenants)
	}
	out := make(chan prometheus.Metric, 2)
	g.send(out)
	if len(out) != 1 {
		t.Fatalf("%d metrics, want 1", len(out))
	}
	if got := g.values[desc][otherTenants].value; got != 5 {
		t.Errorf("the value is %v, want 5", got)
	}
}

// The lag of topics that share a label is their sum.
func TestBridgeLagSharesLabels(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	b := NewBridge(slog.New(slog.DiscardHandler), registry)
	lags := map[string]int64{}
	for i := range maxTenants + 3 {
		lags[fmt.Sprintf("t%d/0", i)] = 2
	}
	b.Lag(lags)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	sum := 0.0
	for _, m := range families[0].GetMetric() {
		sum += m.GetGauge().GetValue()
	}
	if want := 2.0 * (maxTenants + 3); sum != want {
		t.Errorf("%s of all topics is %v, want %v", families[0].GetName(), sum, want)
	}
}
