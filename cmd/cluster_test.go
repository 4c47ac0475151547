package cmd_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"flunq.io/flunq/engine/store"
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
	if code != 4 || !strings.Contains(stdout, "? unknown  unreachable") || strings.Contains(stdout, "rename it") || strings.Contains(stdout, "ok       lag") {
		t.Errorf("doctor: code %d: %s%s", code, stdout, stderr)
	}
}

// If a master is down, the listings of all tenants list what the others have and say what is missing.
// A process is ready, says so too, and still has the metrics of the others; another one starts.
func TestOtherMasters(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, "--cluster-node-timeout", "60000")
	url := cluster.URL()
	shared := cluster.MasterOf(t, "flunq:processes") // of all masters, commands and services need this one most
	down, up := "", ""
	tenants := []string{"t-1", "t-2", "t-3", "t-4", "t-5", "t-6", "t-7", "t-8"}
	for _, tenant := range tenants {
		if _, stderr, code := flunq(t, nil, "start", "../workflows/reminder.yaml", "--after", "1h", "--tenant", tenant, "--redis-url", url); code != 0 {
			t.Fatal(stderr)
		}
		if cluster.MasterOf(t, "tenant:{"+tenant+"}:events") == shared {
			down = tenant
		} else {
			up = tenant
		}
	}
	if down == "" || up == "" {
		t.Fatal("no tenant is on the master of the shared keys, or all are")
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
	if _, stderr, code := flunq(t, nil, "start", "../workflows/reminder.yaml", "--tenant", up, "--redis-url", url); code != 0 {
		t.Fatal(stderr)
	}
	keys := store.New(cluster.Client(t), store.Options{}).Keys()
	for _, tenant := range tenants {
		redistest.CLI(t, "-c", "-u", "redis://"+cluster.Nodes[0].Addr(), "XADD", keys.DeadLetters(tenant), "*", "reason", "test")
	}
	shared.Kill()
	ready("ready, but only 2 of 3 masters of the Redis Cluster answer and accept writes: the tenants of the others wait\n")
	stdout, stderr, code := flunq(t, nil, "timers", "ls", "-A", "-o", "json", "--redis-url", url)
	if code != 6 || !strings.Contains(stderr, "flunq: the timers of these tenants are missing: ") || !strings.Contains(stderr, down) || !strings.Contains(stdout, `"tenant": "t-`) || strings.Contains(stdout, down) {
		t.Errorf("timers ls: code %d: %s%s", code, stdout, stderr)
	}
	for _, list := range []struct {
		command, missing string
	}{{"ps -A", "the executions of these tenants are missing: "}, {"dlq ls -A", "dead letters on other masters, if there are any, are missing: "}, {"tenants ls", "tenants on other masters, if there are any, are missing: "}} {
		args := append(strings.Fields(list.command), "-o", "json", "--redis-url", url)
		stdout, stderr, code := flunq(t, nil, args...)
		if code != 6 || !strings.Contains(stderr, "flunq: "+list.missing) || !strings.Contains(stdout, `"tenant": "t-`) || strings.Contains(stdout, down) {
			t.Errorf("%s: code %d: %s%s", list.command, code, stdout, stderr)
		}
	}
	document := filepath.Join(t.TempDir(), "set.yaml")
	if err := os.WriteFile(document, []byte("document: {dsl: '1.0.0', namespace: test, name: set, version: '1.0.0'}\ndo: [{done: {set: {done: true}}}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, stderr, code := flunq(t, nil, "start", document, "--wait", "--timeout", "30s", "--tenant", up, "--redis-url", url); code != 0 {
		t.Errorf("start of a tenant on another master: code %d: %s", code, stderr)
	}
	_, log, ended := serving(ctx, t, "--redis-url", url)
	said := ""
	for log.Scan() && !strings.Contains(log.Text(), `"msg":"serving"`) {
		said += log.Text() + "\n"
	}
	if !strings.Contains(said, "not every master of the Redis Cluster answers") || !strings.Contains(said, `"masters":3,"writable":2`) {
		t.Errorf("serve says:\n%s%s", said, log.Text())
	}
	go drain(log)
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
	for _, code := range []chan int{stopped, ended} {
		if got := <-code; got != 0 {
			t.Errorf("exit code %d", got)
		}
	}
}

// kill kills a master, and returns a tenant on another one with a workflow that it has started.
func kill(t *testing.T, cluster *redistest.Cluster, down *redistest.Server) (tenant, document string) {
	t.Helper()
	for n := 0; tenant == ""; n++ {
		if name := fmt.Sprint("t-", n); cluster.MasterOf(t, "tenant:{"+name+"}:events") != down {
			tenant = name
		}
	}
	document = filepath.Join(t.TempDir(), "set.yaml")
	if err := os.WriteFile(document, []byte("document: {dsl: '1.0.0', namespace: test, name: set, version: '1.0.0'}\ndo: [{done: {set: {done: true}}}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, stderr, code := flunq(t, nil, "start", document, "--tenant", tenant, "--redis-url", cluster.URL()); code != 0 {
		t.Fatal(stderr)
	}
	down.Kill()
	return tenant, document
}

// If the master with the list of tenants is down, the tenants of the other masters are found by their
// streams: a process starts and serves them, new executions of theirs complete, and listings list them.
func TestMasterOfTenantsDown(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, "--cluster-node-timeout", "60000")
	url, down := cluster.URL(), cluster.MasterOf(t, "flunq:tenants")
	tenant, document := kill(t, cluster, down)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, lines, stopped := serving(ctx, t, "--redis-url", url)
	go drain(lines)
	if stdout, stderr, code := flunq(t, nil, "start", document, "--wait", "--timeout", "30s", "--tenant", tenant, "--redis-url", url); code != 0 || !strings.Contains(stdout, `"done": true`) {
		t.Errorf("start: code %d: %s%s", code, stdout, stderr)
	}
	stdout, stderr, code := flunq(t, nil, "ps", "-A", "--status", "completed", "-o", "json", "--redis-url", url)
	if code != 6 || strings.Count(stdout, `"tenant": "`+tenant) != 2 || !strings.Contains(stderr, "flunq: the executions of tenants on other masters, if there are any, are missing: ") {
		t.Errorf("ps: code %d: %s%s", code, stdout, stderr)
	}
	if _, stderr, code := flunq(t, nil, "timers", "ls", "-A", "--redis-url", url); code != 6 || !strings.Contains(stderr, "flunq: the timers of tenants on other masters, if there are any, are missing: ") {
		t.Errorf("timers ls: code %d: %s", code, stderr)
	}
	cancel()
	if code := <-stopped; code != 0 {
		t.Errorf("serve: exit code %d", code)
	}
}

// If the master with the keys of the scheduler is down, a process that starts serves the tenants on the
// other masters, and the scheduler once the master is back.
func TestMasterOfSchedulerDown(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, "--cluster-node-timeout", "60000")
	url, down := cluster.URL(), cluster.MasterOf(t, "scheduler:{scheduler}:partitions")
	tenant, document := kill(t, cluster, down)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, lines, stopped := serving(ctx, t, "--scheduler", "--grpc", "127.0.0.1:0", "--redis-url", url)
	var entry struct {
		Message string `json:"msg"`
		GRPC    string `json:"grpc"`
	}
	for entry.GRPC == "" {
		if !lines.Scan() || json.Unmarshal(lines.Bytes(), &entry) != nil {
			t.Fatalf("serve says %q", lines.Text())
		}
	}
	waiting := make(chan bool, 1)
	go func() {
		for lines.Scan() {
			if strings.Contains(lines.Text(), "waiting for the scheduler's store") {
				waiting <- true
			}
		}
	}()
	if stdout, stderr, code := flunq(t, nil, "start", document, "--wait", "--timeout", "30s", "--tenant", tenant, "--redis-url", url); code != 0 || !strings.Contains(stdout, `"done": true`) {
		t.Errorf("start: code %d: %s%s", code, stdout, stderr)
	}
	select {
	case <-waiting:
	case <-ctx.Done():
		t.Fatal("serve does not say that the scheduler waits")
	}
	add := []string{"schedule", "add", "--topic", "orders", "--after", "1h", "--grpc", entry.GRPC}
	if _, stderr, code := flunq(t, nil, add...); code != 6 || !strings.Contains(stderr, "answers, but its store does not: try again; it may have taken effect nevertheless: to repeat the command, give it --id ") {
		t.Errorf("schedule add: code %d: %s", code, stderr)
	}
	down.Restart(t)
	for {
		_, stderr, code := flunq(t, nil, add...)
		if code == 0 {
			break
		}
		if ctx.Err() != nil {
			t.Fatalf("schedule add: code %d: %s", code, stderr)
		}
		time.Sleep(100 * time.Millisecond)
	}
	cancel()
	if code := <-stopped; code != 0 {
		t.Errorf("serve: exit code %d", code)
	}
}

// Doctor asks a master that does not respond once, and not again in each check.
func TestDoctorOfFrozenMaster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, "--cluster-node-timeout", "60000")
	frozen := cluster.MasterOf(t, "tenant:{default}:events")
	if err := syscall.Kill(frozen.PID(), syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	stdout, stderr, code := flunq(t, nil, "doctor", "-A", "--redis-url", cluster.URL())
	const most = 40 * time.Second
	if took := time.Since(began); code != 4 || took > most || !strings.Contains(stdout, "bad      redis        "+frozen.Addr()) {
		t.Errorf("after %v: code %d: %s%s", took, code, stdout, stderr)
	}
}

// Doctor says whose tenants wait if slots have no master.
func TestDoctorOfUncoveredSlots(t *testing.T) {
	t.Parallel()
	for setting, waits := range map[string]string{"yes": "every tenant waits", "no": "their tenants wait"} {
		t.Run("require full coverage: "+setting, func(t *testing.T) {
			t.Parallel()
			cluster := redistest.StartCluster(t, "--cluster-require-full-coverage", setting)
			for _, node := range cluster.Nodes {
				redistest.CLI(t, "-u", "redis://"+node.Addr(), "CONFIG", "SET", "cluster-replica-no-failover", "yes")
			}
			cluster.MasterOf(t, "tenant:{default}:events").Kill()
			for began := time.Now(); ; {
				stdout, stderr, _ := flunq(t, nil, "doctor", "--redis-url", cluster.URL())
				if strings.Contains(stdout, "slots have no master, and "+waits) {
					return
				}
				if time.Since(began) > time.Minute {
					t.Fatalf("%s%s", stdout, stderr)
				}
			}
		})
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
