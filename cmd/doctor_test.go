package cmd_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"flunq.io/flunq/cmd/cli"
	"flunq.io/flunq/engine/agenda"
	"flunq.io/flunq/engine/dynamo/dynamotest"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/schedule"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/processes"
	"flunq.io/flunq/engine/store/redistest"
	"flunq.io/flunq/engine/store/stream"
	"flunq.io/flunq/engine/store/wire"
)

// diagnosis is the part of doctor's output that the tests read.
type diagnosis struct {
	State    string `json:"state"`
	Findings []struct {
		Check  string `json:"check"`
		State  string `json:"state"`
		Text   string `json:"text"`
		Remedy string `json:"remedy"`
	} `json:"findings"`
}

// examined runs doctor -o json.
func examined(t *testing.T, server *redistest.Server, args ...string) (d diagnosis, code int) {
	t.Helper()
	url := "redis://" + server.Addr()
	stdout, stderr, code := flunq(t, nil, append([]string{"doctor", "-o", "json", "--redis-url", url}, args...)...)
	if err := json.Unmarshal([]byte(stdout), &d); err != nil {
		t.Fatalf("%v: %s%s", err, stdout, stderr)
	}
	return d, code
}

// says returns the result of a check.
func (d diagnosis) says(check string) (state, text string) {
	for _, f := range d.Findings {
		if f.Check == check {
			return f.State, f.Text + " -> " + f.Remedy
		}
	}
	return "", ""
}

// Doctor reports what a crash would lose, according to the configuration of a real Redis.
func TestDoctorOnRedis(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		settings []string
		code     int
		want     map[string]string // by the check: a state and a part of the text
	}{
		"nothing kept": {nil, 4, map[string]string{
			"persistence": "bad none: a crash of Redis loses everything since start -> redis-cli CONFIG SET appendonly yes",
			"eviction":    "ok noeviction", "role": "ok master with 0 replicas", "clock": "ok differs", "redis": "ok Redis ",
		}},
		"append-only file": {[]string{"--appendonly", "yes"}, 0, map[string]string{
			"persistence": "ok append-only file, flushed every second: a power cut loses the last second; kill -9 of Redis nothing",
		}},
		"always": {[]string{"--appendonly", "yes", "--appendfsync", "always"}, 0, map[string]string{"persistence": "ok append-only file, flushed always"}},
		"when it likes": {[]string{"--appendonly", "yes", "--appendfsync", "no"}, 0, map[string]string{
			"persistence": "warn append-only file, flushed by the operating system",
		}},
		"snapshots": {[]string{"--save", "900 1 60 10000"}, 0, map[string]string{
			"persistence": "warn snapshots only: a crash of Redis loses up to 15 minutes",
		}},
		"a provider's": {[]string{"--appendonly", "yes", "--rename-command", "CONFIG", ""}, 0, map[string]string{
			"persistence": "unknown append-only file, but Redis does not", "eviction": "ok noeviction",
		}},
		"evicts": {[]string{"--appendonly", "yes", "--maxmemory", "50mb", "--maxmemory-policy", "allkeys-lru"}, 4, map[string]string{
			"eviction": "bad allkeys-lru: when it is full, timers and histories vanish without an error -> redis-cli CONFIG SET maxmemory-policy noeviction",
			"memory":   "ok ",
		}},
		"evicts some": {[]string{"--appendonly", "yes", "--maxmemory-policy", "volatile-ttl"}, 0, map[string]string{
			"eviction": "warn volatile-ttl: keys with an expiry",
		}},
		"full": {[]string{"--appendonly", "yes", "--maxmemory", "1kb"}, 4, map[string]string{
			"memory": "%: it refuses writes -> give it more memory", "role": "ok master",
		}},
		"nearly full": {[]string{"--appendonly", "yes", "--maxmemory", "1100kb"}, -1, map[string]string{"memory": "MiB of 1.1 MiB (maxmemory)"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, code := examined(t, redistest.Serve(t, test.settings...))
			if test.code >= 0 && code != test.code {
				t.Errorf("code %d, want %d: %+v", code, test.code, d)
			}
			for check, want := range maps.All(test.want) {
				if state, text := d.says(check); !strings.Contains(state+" "+text, want) {
					t.Errorf("%s is %s %s, want %s", check, state, text, want)
				}
			}
		})
	}
}

// Doctor does not count an unreadable timer as late.
func TestDoctorOfUnreadableTimer(t *testing.T) {
	t.Parallel()
	server := redistest.Serve(t)
	redistest.CLI(t, "-u", "redis://"+server.Addr(), "ZADD", "flunq:timers:all", "12", "garbage")
	d, _ := examined(t, server, "-A")
	if state, text := d.says("timers"); state != "warn" || !strings.HasPrefix(text, "1 timer, 1 overdue; 7579c-795b6904e5 is unreadable") {
		t.Errorf("%s %s", state, text)
	}
}

// Doctor reports missing Kafka topics of scheduled events.
func TestDoctorOfMissingTopic(t *testing.T) {
	t.Parallel()
	broker, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "orders"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(broker.Close)
	server := redistest.Serve(t)
	client := wire.NewClient(server.Client(t))
	if err := agenda.NewIndex(client).SetPartitions(t.Context(), 0, 4); err != nil {
		t.Fatal(err)
	}
	due := time.Now().Add(time.Hour).Truncate(time.Millisecond)
	_, err = agenda.NewLedger(client, agenda.Defaults()).Place(t.Context(), []schedule.Event{
		{ID: "a8c51d54-5675-4a39-88c0-f28824decc01", Status: schedule.Scheduled, Next: due, Content: schedule.Content{Due: due, Topic: "orders"}},
		{ID: "a8c51d54-5675-4a39-88c0-f28824decc02", Status: schedule.Scheduled, Next: due, Content: schedule.Content{Due: due, Topic: "parcels"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	env := map[string]string{"SCHEDULER_SINK": "kafka", "KAFKA_BROKERS": broker.ListenAddrs()[0], "HOME": t.TempDir(), "REDIS_URL": "redis://" + server.Addr()}
	out, errs, _ := flunqWith(t.Context(), env, "doctor")
	if !strings.Contains(out, "topic parcels does not exist") || strings.Contains(out, "topic orders") {
		t.Errorf("%s%s", out, errs)
	}
	t.Run("dynamodb", func(t *testing.T) {
		opts := dynamotest.Options(dynamotest.Dynalite(t))
		_, err := dynamotest.Init(t, opts).Put(t.Context(), []schedule.Event{{
			ID: "a8c51d54-5675-4a39-88c0-f28824decc03", Status: schedule.Scheduled, Version: 1, Next: due, Created: due, Updated: due,
			Content: schedule.Content{Due: due, Topic: "parcels", Payload: []byte("{}")},
		}})
		if err != nil {
			t.Fatal(err)
		}
		env["SCHEDULER_RECORDS"], env["DYNAMO_ENDPOINT"], env["DYNAMO_TABLE"] = "dynamodb", opts.Endpoint, opts.Table
		out, errs, _ := flunqWith(t.Context(), env, "doctor")
		if !strings.Contains(out, "topic parcels does not exist") {
			t.Errorf("%s%s", out, errs)
		}
	})
}

// Doctor reports the processes: none has run, some have died or were stopped, and some run
// a part of the services for a part of the tenants.
func TestDoctorSeesProcesses(t *testing.T) {
	t.Parallel()
	server := redistest.Serve(t, "--appendonly", "yes")
	ctx := t.Context()
	rdb := server.Client(t)
	st := store.New(rdb, store.Options{})
	if err := stream.New(st).Groups(ctx, "default"); err != nil {
		t.Fatal(err)
	}
	if err := st.Publish(ctx, event.Event{ID: "1", Type: "com.x", Tenant: "default", Time: time.Now()}); err != nil {
		t.Fatal(err)
	}
	says := func(wantCode int, check, want string, args ...string) {
		t.Helper()
		d, code := examined(t, server, args...)
		state, text := d.says(check)
		if got := state + " " + text; code != wantCode || !strings.Contains(got, want) {
			t.Errorf("code %d, %s is %s, want %d, %s", code, check, got, wantCode, want)
		}
	}
	says(4, "services", "bad no process runs the worker, executor or timer; the worker has 1 event to read")
	entry := func(name string, tenants []string, all bool, services ...string) *processes.Process {
		p := &processes.Process{Name: name, Command: "serve", Host: "h", PID: 7, Tenants: tenants, All: all}
		for _, s := range services {
			p.Services = append(p.Services, processes.Service{Name: s, Group: s + "-service", Consumers: []string{s + "-" + name}})
		}
		return p
	}
	register := func(p *processes.Process) {
		t.Helper()
		if err := processes.In(st).Register(ctx, p); err != nil {
			t.Fatal(err)
		}
	}
	// A group without consumers counts as served if a process says that it serves it.
	one := entry("one", nil, true, "worker")
	register(one)
	says(4, "services", "bad no process runs the executor or timer; the executor has 1 event to read; the timer has 1 event to read -> flunq serve --only executor,timer starts it")
	two := entry("two", []string{"default"}, false, "executor", "timer")
	register(two)
	says(0, "services", "ok worker, executor and timer run for tenant default")
	says(0, "processes", "ok 2 running: flunq serve (pid 7 on h): worker for all tenants, started ")
	register(entry("three", []string{"default"}, false)) // serve --only scheduler
	says(0, "processes", "flunq serve (pid 7 on h): the scheduler, started ")
	if err := rdb.HDel(ctx, store.ProcessesKey, "three").Err(); err != nil {
		t.Fatal(err)
	}
	says(0, "services", "warn no process runs the executor or timer -> flunq serve --only executor,timer starts it", "--tenant", "other")
	// The work of a dead process has been taken over if others run its services for its tenants.
	for tenant, over := range map[string]bool{"default": true, "other": false} {
		gone := entry("gone", []string{tenant}, false, "worker", "timer")
		gone.Heartbeat = one.Heartbeat.Add(-5 * time.Minute)
		if err := rdb.HSet(ctx, store.ProcessesKey, "gone", event.Encode(gone)).Err(); err != nil {
			t.Fatal(err)
		}
		d, _ := examined(t, server)
		if text := fmt.Sprint(d.Findings); strings.Contains(text, "cannot reach Redis; other processes have taken over its work") != over {
			t.Errorf("taken over for %s: want %v: %s", tenant, over, text)
		}
	}
	if err := rdb.HDel(ctx, store.ProcessesKey, "gone").Err(); err != nil {
		t.Fatal(err)
	}
	// One is stopped, and one dies.
	if err := processes.In(st).SignOff(ctx, two); err != nil {
		t.Fatal(err)
	}
	says(4, "services", "no process runs the executor or timer (the last one, flunq serve (pid 7 on h), was stopped ")
	// A late heartbeat is reported before the process counts as dead.
	one.Heartbeat = one.Heartbeat.Add(-20 * time.Second)
	if err := rdb.HSet(ctx, store.ProcessesKey, "one", event.Encode(one)).Err(); err != nil {
		t.Fatal(err)
	}
	says(4, "processes", "warn flunq serve (pid 7 on h): worker for all tenants, started ")
	says(4, "processes", " ago (counts as dead after 30s) -> a heartbeat is late: check whether flunq serve (pid 7 on h) still runs")
	other := entry("other", nil, true, "timer")
	other.PID, other.Heartbeat = 8, one.Heartbeat
	if err := rdb.HSet(ctx, store.ProcessesKey, "other", event.Encode(other)).Err(); err != nil {
		t.Fatal(err)
	}
	says(4, "processes", " -> heartbeats are late: check whether these still run: flunq serve (pid 8 on h), flunq serve (pid 7 on h)")
	if err := rdb.HDel(ctx, store.ProcessesKey, "other").Err(); err != nil {
		t.Fatal(err)
	}
	one.Heartbeat = one.Heartbeat.Add(-40 * time.Second)
	if err := rdb.HSet(ctx, store.ProcessesKey, "one", event.Encode(one)).Err(); err != nil {
		t.Fatal(err)
	}
	// Redis has just started: the process may still register again.
	says(0, "services", "unknown no process runs the worker, executor or timer (the last one, flunq serve (pid 7 on h), sent its last heartbeat 1m")
	// The text condenses dead processes, which have no tenant.
	for i := range 14 {
		dead := entry("dead"+strconv.Itoa(i), nil, true, "worker")
		dead.PID, dead.Heartbeat = i, one.Heartbeat
		if err := rdb.HSet(ctx, store.ProcessesKey, dead.Name, event.Encode(dead)).Err(); err != nil {
			t.Fatal(err)
		}
	}
	if text, _, _ := flunq(t, nil, "doctor", "--redis-url", "redis://"+server.Addr()); !strings.Contains(text, "processes      6 more like these\n") {
		t.Errorf("15 dead processes: %s", text)
	}
	// A reader that has not registered is an earlier version.
	if err := rdb.Del(ctx, store.ProcessesKey).Err(); err != nil {
		t.Fatal(err)
	}
	for _, group := range []string{store.WorkerGroup, store.ExecutorGroup, store.TimerGroup} {
		got, err := stream.New(st).Read(ctx, stream.Reader{Group: group, Consumer: "c", Tenants: []string{"default"}}, 10, 0)
		msgs := got.Messages
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range msgs {
			if err := stream.New(st).AcknowledgeOwned(ctx, m); err != nil {
				t.Fatal(err)
			}
		}
	}
	says(0, "services", "unknown no registered process runs the worker, but c read with worker-service ")
	says(0, "pending", "ok 0 events read and not acknowledged, none for longer than 5m00s")
	says(0, "lag", "ok 0 events unread by ")
}

// A replica is reported with the address of its master.
func TestDoctorOnReplica(t *testing.T) {
	t.Parallel()
	master := redistest.Serve(t, "--appendonly", "yes")
	host, port, _ := strings.Cut(master.Addr(), ":")
	replica := redistest.Serve(t, "--appendonly", "yes", "--replicaof", host+" "+port)
	d, code := examined(t, replica)
	if state, text := d.says("role"); code != 4 || state != "bad" || !strings.Contains(text, "use its master at "+master.Addr()) {
		t.Errorf("code %d, role %s: %s", code, state, text)
	}
	deadline := time.Now().Add(patience)
	for {
		d, _ = examined(t, master)
		if state, text := d.says("failover"); state == "warn" && strings.Contains(text, "min-replicas-to-write 1") {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the master does not speak of its replica: %+v", d)
		}
		time.Sleep(50 * time.Millisecond)
	}
	if err := agenda.NewIndex(wire.NewClient(master.Client(t))).SetPartitions(t.Context(), 0, 1); err != nil {
		t.Fatal(err)
	}
	for wait, want := range map[string]string{"1": "ok", "all": "ok", "2": "bad"} {
		env := func(s *cli.Streams) { s.Env = environment(map[string]string{"REDIS_WAIT": wait}) }
		stdout, stderr, _ := flunq(t, env, "doctor", "-o", "json", "--redis-url", "redis://"+master.Addr())
		var d diagnosis
		if err := json.Unmarshal([]byte(stdout), &d); err != nil {
			t.Fatal(err, stderr)
		}
		if state, text := d.says("failover"); state != want || !strings.Contains(text, "REDIS_WAIT") {
			t.Errorf("REDIS_WAIT=%s: %s %s", wait, state, text)
		}
		if state, text := d.says("scheduler"); state != "ok" {
			t.Errorf("REDIS_WAIT=%s: scheduler %s: %s", wait, state, text)
		}
	}
}

// Doctor warns about a slow connection to Redis, with its figure.
func TestDoctorLatency(t *testing.T) {
	t.Parallel()
	slow := connectBy(t, redistest.Serve(t).Addr())
	slow.delay = 15 * time.Millisecond
	stdout, stderr, _ := flunq(t, nil, "doctor", "--redis-url", slow.url())
	if !strings.Contains(stdout, "! warn     latency        a round trip from this machine takes ") {
		t.Errorf("%s%s", stdout, stderr)
	}
}
