package cmd_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"flunq.io/flunq/engine/store/redistest"
)

// A script on a running engine whose tenants are on the masters of a Redis Cluster.
func TestScriptOnCluster(t *testing.T) {
	t.Parallel()
	url := redistest.StartCluster(t).URL()
	serve(t, url, "t-1", "t-2", "t-3", "t-4", "t-5")
	onPage(t, url, "../testdata/script/cluster/cluster.txtar")
}

// A command whose tenant is on a master that is down ends with the code for an unreachable Redis, the
// other tenants are reachable, and doctor does not suggest changing a stream that it could not read.
func TestMasterDown(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, "--cluster-node-timeout", "60000")
	url := cluster.URL()
	down := cluster.MasterOf(t, "tenant:{default}:events")
	var up []string
	for _, tenant := range []string{"t-1", "t-2", "t-3", "t-4", "t-5"} {
		if cluster.MasterOf(t, "tenant:{"+tenant+"}:events") != down {
			up = append(up, tenant)
		}
	}
	if out, _, _ := flunq(t, nil, "doctor", "--redis-url", url); strings.Count(out, ": 0 tenants") != 3 {
		t.Errorf("doctor says of a cluster without tenants:\n%s", out)
	}
	down.Kill()
	if _, stderr, code := flunq(t, nil, "timers", "ls", "--redis-url", url); code != 6 {
		t.Errorf("timers ls: code %d, want 6: %s", code, stderr)
	}
	for _, tenant := range up {
		if _, stderr, code := flunq(t, nil, "ps", "--tenant", tenant, "--redis-url", url); code != 0 {
			t.Errorf("ps of %s: code %d, want 0: %s", tenant, code, stderr)
		}
	}
	stdout, stderr, code := flunq(t, nil, "doctor", "--redis-url", url)
	if code != 4 || !strings.Contains(stdout, "? unknown  streams        could not be checked: ") || strings.Contains(stdout, "rename it") || strings.Contains(stdout, "ok       lag") {
		t.Errorf("doctor: code %d: %s%s", code, stdout, stderr)
	}
}

// If a master is down, timers ls lists the timers on the others and says which are missing, and
// a process is ready, says so too, and still has the metrics of the others.
func TestTimersOfOtherMasters(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, "--cluster-node-timeout", "60000")
	url := cluster.URL()
	shared := cluster.MasterOf(t, "flunq:processes")
	down := ""
	tenants := []string{"t-1", "t-2", "t-3", "t-4", "t-5", "t-6", "t-7", "t-8"}
	for _, tenant := range tenants {
		if _, stderr, code := flunq(t, nil, "start", "../workflows/reminder.yaml", "--after", "1h", "--tenant", tenant, "--redis-url", url); code != 0 {
			t.Fatal(stderr)
		}
		if at := cluster.MasterOf(t, "tenant:{"+tenant+"}:events"); down == "" && at != shared && at != cluster.MasterOf(t, "flunq:tenants") {
			down = tenant
		}
	}
	if down == "" {
		t.Fatal("every tenant is on the master of the shared keys")
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	address, lines, stopped := serving(ctx, t, "--redis-url", url)
	go drain(lines)
	ready := func(want string) {
		t.Helper()
		for {
			stdout, stderr, code := flunq(t, nil, "health", "--http", address)
			if code == 0 && strings.HasPrefix(stdout, want) {
				return
			}
			if ctx.Err() != nil {
				t.Fatalf("health: code %d: %s%s", code, stdout, stderr)
			}
			time.Sleep(100 * time.Millisecond)
		}
	}
	ready("ready\n")
	cluster.MasterOf(t, "tenant:{"+down+"}:events").Kill()
	ready("ready, but only 2 of 3 masters of the Redis Cluster answer and accept writes: the tenants of the others wait\n")
	stdout, stderr, code := flunq(t, nil, "timers", "ls", "-A", "-o", "json", "--redis-url", url)
	if code != 6 || !strings.Contains(stderr, "flunq: the timers of these tenants are missing: ") || !strings.Contains(stderr, down) || !strings.Contains(stdout, `"tenant": "t-`) || strings.Contains(stdout, down) {
		t.Errorf("timers ls: code %d: %s%s", code, stdout, stderr)
	}
	answer, err := http.Get("http://" + address + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	page, err := io.ReadAll(answer.Body)
	if err != nil || answer.Body.Close() != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(page), "\nflunq_stream_length{tenant=\"t-") || strings.Contains(string(page), "\nflunq_stream_length{tenant=\""+down) {
		t.Errorf("the metrics are those of other tenants:\n%s", page)
	}
	cancel()
	if got := <-stopped; got != 0 {
		t.Errorf("exit code %d", got)
	}
}

// A delay counts by the clock of the master that has the tenant, which fires the timer.
func TestDelayOnSkewedCluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartSkewed(t, 0, time.Hour, 2*time.Hour)
	url := cluster.URL()
	for _, tenant := range []string{"t-1", "t-2", "t-3", "t-4", "t-5"} {
		_, stderr, code := flunq(t, nil, "start", "../workflows/approval.yaml", "--id", "x", "--after", "30m", "--tenant", tenant, "--redis-url", url)
		if code != 0 {
			t.Fatal(stderr)
		}
		stdout, stderr, _ := flunq(t, nil, "timers", "ls", "-o", "json", "--tenant", tenant, "--redis-url", url)
		var timers []struct {
			Due time.Time `json:"due"`
		}
		if err := json.Unmarshal([]byte(stdout), &timers); err != nil || len(timers) != 1 {
			t.Fatalf("%v: %s%s", err, stdout, stderr)
		}
		now, err := cluster.MasterOf(t, "tenant:{"+tenant+"}:events").Client(t).Time(t.Context()).Result()
		if err != nil {
			t.Fatal(err)
		}
		if left := timers[0].Due.Sub(now); left < 29*time.Minute || left > 30*time.Minute {
			t.Errorf("tenant %s: the timer is due in %v, want 30m", tenant, left)
		}
	}
}
