package telemetry_test

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/prometheus/client_golang/prometheus"
	"gopkg.in/yaml.v3"

	"flunq.io/flunq/engine"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/telemetry"
)

const monitoring = "../../.release/monitoring"

// names returns the names and the helps of all metrics.
func names(t *testing.T) map[string]string {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	all := new(described)
	telemetry.New(log, all)
	telemetry.NewScheduler(log, all)
	telemetry.NewBridge(log, all)
	rdb, err := store.Dial(t.Context(), miniredis.RunT(t).Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = rdb.Close() })
	opts := engine.Defaults()
	opts.Process, opts.Transport = "one", http.DefaultTransport
	e, err := engine.New(rdb, opts)
	if err != nil {
		t.Fatal(err)
	}
	all.MustRegister(telemetry.Depth(e, log), telemetry.SchedulerDepth(telemetry.SchedulerProcess{}, log))
	return all.names
}

// described is a registry that only keeps descriptions.
type described struct {
	prometheus.Registry

	names map[string]string
}

func (d *described) MustRegister(collectors ...prometheus.Collector) {
	if d.names == nil {
		d.names = map[string]string{}
	}
	text := regexp.MustCompile(`fqName: "([^"]*)", help: "([^"]*)"`)
	for _, c := range collectors {
		out := make(chan *prometheus.Desc, 100)
		c.Describe(out)
		close(out)
		for desc := range out {
			if found := text.FindStringSubmatch(desc.String()); found != nil {
				d.names[found[1]] = found[2]
			}
		}
	}
}

// Metric names follow Prometheus' conventions: counters end with _total, and times are in seconds.
func TestMetricNames(t *testing.T) {
	t.Parallel()
	for name, help := range names(t) {
		counts := regexp.MustCompile(`_(processed|errors|claimed|dlq|removed|restored|stuck|handled|fired|expired|reconciled)$`).MatchString(name)
		times := regexp.MustCompile(`_(duration|latency|lateness|time|ms|milliseconds)$`).MatchString(name) || strings.HasPrefix(help, "Seconds") && !strings.HasSuffix(name, "_seconds")
		if counts || times || help == "" || strings.ToLower(name) != name {
			t.Errorf("%s: %q", name, help)
		}
	}
}

// The alert rules and the dashboard use only metrics that exist.
func TestMonitoring(t *testing.T) {
	t.Parallel()
	known := names(t)
	var expressions []string
	var rules struct {
		Groups []struct {
			Rules []struct {
				Expr string `yaml:"expr"`
			} `yaml:"rules"`
		} `yaml:"groups"`
	}
	text, err := os.ReadFile(filepath.Join(monitoring, "alerts.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(text, &rules); err != nil {
		t.Fatal(err)
	}
	for _, rule := range rules.Groups[0].Rules {
		expressions = append(expressions, rule.Expr)
	}
	var dashboard struct {
		Panels []struct {
			Targets []struct {
				Expr string `json:"expr"`
			} `json:"targets"`
		} `json:"panels"`
	}
	if text, err = os.ReadFile(filepath.Join(monitoring, "grafana.json")); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &dashboard); err != nil {
		t.Fatal(err)
	}
	for _, panel := range dashboard.Panels {
		for _, target := range panel.Targets {
			expressions = append(expressions, target.Expr)
		}
	}
	if len(expressions) < 20 {
		t.Fatalf("%d expressions", len(expressions))
	}
	metric := regexp.MustCompile(`\b(flunq|worker|executor|timer|scheduler|bridge|grpc)_\w+`)
	for _, expression := range expressions {
		found := metric.FindAllString(expression, -1)
		if len(found) == 0 {
			t.Errorf("%s: no metric", expression)
		}
		for _, name := range found {
			base := regexp.MustCompile(`_(bucket|count|sum)$`).ReplaceAllString(name, "")
			if known[name] == "" && known[base] == "" {
				t.Errorf("%s: there is no metric %s", expression, name)
			}
		}
	}
}

// promtool finds nothing wrong with the alert rules.
func TestAlertsWithPromtool(t *testing.T) {
	t.Parallel()
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("ALERT RULES NOT CHECKED: no promtool found (Debian's package prometheus)")
	}
	if out, err := exec.CommandContext(t.Context(), promtool, "check", "rules", filepath.Join(monitoring, "alerts.yaml")).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
