package bench_test

import (
	"log/slog"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"flunq.io/flunq/cmd/bench"
	"flunq.io/flunq/engine"
)

// With brokers, firing to Kafka is measured and compared with bare loops; the topic is deleted
// afterwards.
func TestKafka(t *testing.T) {
	t.Parallel()
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	defer cluster.Close()
	opts := bench.Options{
		URL: own(t).URL, Own: true, Only: []string{"scheduler"}, Quick: true, Timers: 100, Kafka: cluster.ListenAddrs(),
		Duration: 50 * time.Millisecond, Engine: engine.Defaults(), Log: slog.New(slog.DiscardHandler),
	}
	for range 2 { // again, in the same topic
		report, err := bench.Run(t.Context(), opts)
		if err != nil {
			t.Fatal(err)
		}
		found := false
		for _, r := range report.Results {
			if r.Name == "overdue, fired to Kafka" {
				found = r.Rate > 0 && r.Limit > 0 && r.Count == 500
			}
		}
		if !found {
			t.Errorf("results = %+v, want events fired to Kafka beside bare loops", report.Results)
		}
	}
}
