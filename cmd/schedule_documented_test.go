package cmd_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"flunq.io/flunq/cmd"
	"flunq.io/flunq/cmd/cli"
	"flunq.io/flunq/engine/dynamo/dynamotest"
	"flunq.io/flunq/engine/store/redistest"
)

// flunqWith runs a command line with variables of the environment, and returns its output and its
// exit code.
func flunqWith(ctx context.Context, env map[string]string, args ...string) (out, errs string, code int) {
	var stdout, stderr lockedBuffer
	code = cmd.Execute(ctx, args, cli.Streams{In: strings.NewReader(""), Out: &stdout, Err: &stderr, Env: environment(env)})
	return stdout.String(), stderr.String(), code
}

// lockedBuffer is a buffer that several goroutines write to.
type lockedBuffer struct {
	mu sync.Mutex
	bytes.Buffer
}

// Write implements io.Writer.
func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.Write(p)
}

// The documented deployment works with its configuration file and its variables: an API, a
// consumer and a worker on Kafka, DynamoDB and Redis. An event reaches its topic at its time,
// and a cancelled one never does.
func TestDocumentedDeployment(t *testing.T) {
	t.Parallel()
	endpoint := dynamotest.Dynalite(t)
	broker, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(4, "orders"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(broker.Close)
	redis, grpc := redistest.Serve(t).Addr(), redistest.FreeAddr(t)
	config := written(t, "config.yaml", fmt.Sprintf(`grpc: {name: scheduler-service, host: "%s"}
redis: {mode: standalone, hosts: ["%s"], password: "", cluster: false, pool_size: 75, dial_timeout: 500}
dynamo: {region: us-east-1, endpoint: "%s", table_name: %s}
kafka: {brokers: ["%s"], group_id: scheduler-consumer}
scheduler: {total_partitions: 4, bucket_size_sec: 60}
scheduler_worker: {past_buckets_count: 5, semaphore_limit: 20, batch_size: 50, backoff_ms: 10, max_backoff_ms: 1000}
retry_worker: {past_buckets_count: 5, retry_scan_interval_ms: 5000, retry_batch_size: 50}
`, grpc, redis, endpoint, "table-"+strings.ReplaceAll(grpc, ":", "-"), broker.ListenAddrs()[0]))
	env := func(more ...string) map[string]string {
		out := map[string]string{"CONFIG_PATH": config, "SCHEDULER_MIN_DELAY": "0s", "SCHEDULER_ADDRESS": grpc, "HOME": t.TempDir()}
		for i := 0; i < len(more); i += 2 {
			out[more[i]] = more[i+1]
		}
		return out
	}
	for _, one := range []struct{ args, want string }{
		{"schedule init --dry-run", "missing: topic schedule_events does not exist\n"},
		{"schedule init", "topic schedule_events created\ntopic schedule_events.dlq created\n"},
		{"schedule init", " exists\ntopic schedule_events exists\ntopic schedule_events.dlq exists\n"},
	} {
		out, errs, code := flunqWith(t.Context(), env(), strings.Fields(one.args)...)
		if code != 0 || !strings.Contains(out, one.want) {
			t.Fatalf("%s: %d\n%s%s\nwant %s", one.args, code, out, errs, one.want)
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for _, mode := range []string{"api", "consumer", "worker"} {
		wg.Go(func() {
			if out, errs, code := flunqWith(ctx, env("APP_MODE", mode), "serve", "--http", ""); code != 0 {
				t.Errorf("%s: %d\n%s%s", mode, code, out, errs)
			}
		})
	}
	defer wg.Wait()
	defer stop()
	for deadline := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		if _, _, code := flunqWith(t.Context(), env(), "schedule", "partitions"); code == 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("no API answers")
		}
	}
	var ids []string
	for _, after := range []string{"2s", "2s", "1h"} {
		out, errs, code := flunqWith(t.Context(), env(), "schedule", "add", "--topic", "orders", "--after", after, "--payload", "paid", "--header", "a=b")
		if code != 0 {
			t.Fatalf("add: %d\n%s", code, errs)
		}
		ids = append(ids, strings.TrimSpace(out))
	}
	if _, errs, code := flunqWith(t.Context(), env(), "schedule", "cancel", "--yes", ids[1]); code != 0 {
		t.Fatalf("cancel: %d\n%s", code, errs)
	}
	reader, err := kgo.NewClient(kgo.SeedBrokers(broker.ListenAddrs()...), kgo.ConsumeTopics("orders"))
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	limit, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	found := reader.PollFetches(limit).Records()
	if len(found) != 1 || string(found[0].Key) != ids[0] || string(found[0].Value) != "paid" {
		t.Fatalf("published %v, want %s", found, ids[0])
	}
	// Doctor finds the table and the brokers, and topics that are missing.
	out, errs, _ := flunqWith(t.Context(), env("APP_MODE", "worker", "SCHEDULER_TOPICS", "orders,event:paid,parcels"), "doctor")
	for _, want := range []string{"1 broker; group scheduler-consumer has ", "topic parcels does not exist", "dynamodb ", "1 process"} {
		if !strings.Contains(out, want) {
			t.Errorf("doctor does not say %q:\n%s%s", want, out, errs)
		}
	}
	for id, want := range map[string]string{ids[0]: "FIRED", ids[1]: "CANCELLED", ids[2]: "SCHEDULED"} {
		for deadline := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
			out, errs, code := flunqWith(t.Context(), env(), "schedule", "get", id)
			if code == 0 && strings.Contains(out, "status    "+want) {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("event %s is not %s: %d\n%s%s", id, want, code, out, errs)
			}
		}
	}
}

// Init does not report as missing what it could not look at.
func TestInitWithoutDynamo(t *testing.T) {
	t.Parallel()
	env := map[string]string{"SCHEDULER_RECORDS": "dynamodb", "DYNAMO_ENDPOINT": "http://127.0.0.1:1", "HOME": t.TempDir()}
	if out, errs, code := flunqWith(t.Context(), env, "schedule", "init"); code != int(cli.ExitFailed) || out != "" || !strings.Contains(errs, "connection refused") {
		t.Errorf("%d %s%s", code, out, errs)
	}
}

// A process that ignores CONFIG_PATH says so: with a misspelled APP_MODE it would otherwise run the other
// services on another Redis without a word.
func TestConfigPathWithoutMode(t *testing.T) {
	t.Parallel()
	env := map[string]string{
		"APP_MODE": "apii", "CONFIG_PATH": "scheduler.yaml", "REDIS_URL": "redis://" + redistest.Serve(t).Addr(), "HOME": t.TempDir(),
		"WORKER_CONCURRENCY": "0", "EXECUTOR_CONCURRENCY": "0", "TIMER_CONCURRENCY": "0", // so that it ends
	}
	_, errs, code := flunqWith(t.Context(), env, "serve", "--http", "")
	if code != 2 || !strings.Contains(errs, "CONFIG_PATH=scheduler.yaml has no effect without --scheduler, SCHEDULER_ENABLED=true or APP_MODE=api, consumer or worker") {
		t.Errorf("%d\n%s", code, errs)
	}
}

// An error about the kind of Redis says where its address is from.
func TestConfiguredRedisIsNoCluster(t *testing.T) {
	t.Parallel()
	config := written(t, "config.yaml", fmt.Sprintf("redis: {mode: cluster, hosts: [%q]}\n", redistest.Addr(t)))
	env := map[string]string{"CONFIG_PATH": config, "HOME": t.TempDir()}
	_, errs, code := flunqWith(t.Context(), env, "serve", "--scheduler", "--http", "")
	if want := "is not part of a Redis Cluster: write redis://host:port (" + config + ":1:31: redis.hosts, a cluster by redis.mode or redis.cluster)"; code != 2 || !strings.Contains(errs, want) {
		t.Errorf("%d, want %q:\n%s", code, want, errs)
	}
}
