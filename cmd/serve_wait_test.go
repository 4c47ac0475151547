package cmd_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"flunq.io/flunq/cmd"
	"flunq.io/flunq/cmd/cli"
	"flunq.io/flunq/engine/store/redistest"
)

// serve waits while Redis is unavailable, answers that it is alive and not ready, logs that, and
// exits cleanly when it is stopped.
func TestServeWaitsForRedis(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	redis := "redis://" + l.Addr().String()
	l.Close() // nothing listens there
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	address, lines, code := serving(ctx, t, "--redis-url", redis)
	if lines.Scan(); !strings.Contains(lines.Text(), "waiting for Redis") {
		t.Errorf("it says %q", lines.Text())
	}
	go drain(lines)
	alive, err := http.Get("http://" + address + "/healthz")
	if err != nil {
		t.Fatal(err)
	}
	if alive.Body.Close(); alive.StatusCode != http.StatusOK {
		t.Errorf("/healthz: %s", alive.Status)
	}
	want := "flunq: not ready: the services have not started: is Redis reachable?\n"
	if _, stderr, code := flunq(t, nil, "health", "--http", address); code != 1 || stderr != want {
		t.Errorf("health: code %d, %q, want code 1, %q", code, stderr, want)
	}
	cancel()
	if got := <-code; got != 0 && got != 130 {
		t.Errorf("exit code %d", got)
	}
}

// serving runs 'flunq serve' until ctx ends. It returns the address of its health checks, the other
// lines of its log and its exit code.
func serving(ctx context.Context, t *testing.T, args ...string) (address string, lines *bufio.Scanner, code chan int) {
	t.Helper()
	logs, log := io.Pipe()
	code = make(chan int, 1)
	go func() {
		code <- cmd.Execute(ctx, append([]string{"serve"}, args...), cli.Streams{
			In: strings.NewReader(""), Out: io.Discard, Err: log, Env: environment(map[string]string{"HTTP_ADDRESS": "127.0.0.1:0"}),
		})
		log.Close()
	}()
	lines = bufio.NewScanner(logs)
	var entry struct {
		HTTP string `json:"http"`
	}
	if lines.Scan(); json.Unmarshal(lines.Bytes(), &entry) != nil || entry.HTTP == "" {
		t.Fatalf("it says %q, want the address of the health checks", lines.Text())
	}
	return entry.HTTP, lines, code
}

// The permissions that the help of serve lists are enough for the services, the scheduler, and the commands
// of operators. Without a permission, serve ends and refers to that help.
func TestPermissions(t *testing.T) {
	t.Parallel()
	help, _, _ := flunq(t, nil, "serve", "--help")
	_, rules, _ := strings.Cut(help, "(ACL SETUSER):\n")
	rules, _, _ = strings.Cut(rules, "\n\n")
	server := redistest.Serve(t)
	admin := "redis://" + server.Addr()
	redistest.CLI(t, append([]string{"-u", admin, "ACL", "SETUSER", "app", "on", ">secret"}, strings.Fields(rules)...)...)
	redistest.CLI(t, "-u", admin, "ACL", "SETUSER", "other", "on", ">secret", "~tenant:*", "+@all")
	url := "redis://app:secret@" + server.Addr()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	_, lines, stopped := serving(ctx, t, "--scheduler", "--grpc", "127.0.0.1:0", "--redis-url", url)
	go drain(lines)
	for _, line := range []string{
		"start ../workflows/reminder.yaml --id r --after 1h", "start ../workflows/hello.yaml --id s", "ps -A", "timers ls -A", "timers fire --execution r --yes",
		"cancel r --yes", "show r", "history r", "audit", "dlq ls -A", "inputs ls", "tenants ls", "workflows ls", "doctor -A",
	} {
		if _, stderr, code := flunq(t, nil, append(strings.Fields(line), "--redis-url", url)...); strings.Contains(stderr, "NOPERM") {
			t.Errorf("%s: code %d: %s", line, code, stderr)
		}
	}
	cancel()
	if code := <-stopped; code != 0 {
		t.Errorf("serve: exit code %d", code)
	}
	if denied := redistest.CLI(t, "-u", admin, "ACL", "LOG"); strings.TrimSpace(denied) != "" {
		t.Errorf("Redis has denied:\n%s", denied)
	}
	redistest.CLI(t, append(append([]string{"-u", admin, "ACL", "SETUSER", "part", "on", ">secret"}, strings.Fields(rules)...), "-xadd")...)
	_, stderr, code := flunq(t, nil, "start", "../workflows/hello.yaml", "--redis-url", "redis://part:secret@"+server.Addr())
	if code != 1 || !strings.Contains(stderr, "'flunq serve --help' lists the permissions") {
		t.Errorf("start without the permission for a command of its script: code %d: %s", code, stderr)
	}
	_, stderr, code = flunq(t, nil, "serve", "--http", "127.0.0.1:0", "--redis-url", "redis://other:secret@"+server.Addr())
	if code != 1 || !strings.Contains(stderr, "NOPERM") || !strings.Contains(stderr, "'flunq serve --help' lists the permissions") {
		t.Errorf("serve without permissions: code %d: %s", code, stderr)
	}
}

// drain reads the rest of a log.
func drain(lines *bufio.Scanner) {
	for lines.Scan() {
	}
}

// While Redis refuses writes because it cannot save its data, what it contains can be read, doctor says why, and serve
// waits.
func TestUnsavedRedis(t *testing.T) {
	t.Parallel()
	rdb := redistest.Serve(t, "--save", "3600 1").Client(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	dir, err := rdb.ConfigGet(ctx, "dir").Result()
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(rdb.Set(ctx, "changed", 1, 0).Err(), os.RemoveAll(dir["dir"]), rdb.BgSave(ctx).Err()); err != nil {
		t.Fatal(err)
	}
	if !eventually(t, func() bool {
		err := rdb.Ping(ctx).Err()
		return err != nil && strings.HasPrefix(err.Error(), "MISCONF")
	}) {
		t.Fatal("Redis accepts writes")
	}
	address := "redis://" + redistest.AddrOf(t, rdb)
	if _, stderr, code := flunq(t, nil, "ps", "--redis-url", address); code != 0 {
		t.Errorf("ps: code %d, %s", code, stderr)
	}
	if stdout, _, code := flunq(t, nil, "doctor", "--redis-url", address); code != 4 || !strings.Contains(stdout, "master that refuses writes: it cannot save its data to disk (MISCONF)") {
		t.Errorf("doctor: code %d, %s", code, stdout)
	}
	_, lines, code := serving(ctx, t, "--redis-url", address)
	for lines.Scan() && !strings.Contains(lines.Text(), "MISCONF") {
	}
	go drain(lines)
	if err := rdb.ConfigSet(ctx, "stop-writes-on-bgsave-error", "no").Err(); err != nil {
		t.Fatal(err)
	}
	file := written(t, "w.yaml", "document: {dsl: '1.0.3', namespace: d, name: w, version: '1.0.0'}\ndo: [a: {set: {done: true}}]\n")
	if _, stderr, code := flunq(t, nil, "start", file, "--wait", "--timeout", "50s", "--redis-url", address); code != 0 {
		t.Errorf("start: code %d, %s", code, stderr)
	}
	if err := rdb.ConfigSet(ctx, "stop-writes-on-bgsave-error", "yes").Err(); err != nil {
		t.Fatal(err)
	}
	cancel()
	if got := <-code; got != 0 && got != 130 {
		t.Errorf("serve: exit code %d", got)
	}
}

// A scheduler that keeps its events in Redis says at its first start that those in DynamoDB wait.
func TestRecordsChanged(t *testing.T) {
	t.Parallel()
	server := redistest.Serve(t)
	server.Client(t).Set(t.Context(), "scheduler:whole", "yes", 0) // as a scheduler with a table has left it
	for _, want := range []bool{true, false} {
		ctx, cancel := context.WithCancel(t.Context())
		_, lines, code := serving(ctx, t, "--only", "scheduler", "--grpc", "127.0.0.1:0", "--redis-url", "redis://"+server.Addr())
		said := false
		for lines.Scan() {
			said = said || strings.Contains(lines.Text(), "SCHEDULER_RECORDS=dynamodb")
			if strings.Contains(lines.Text(), `"msg":"serving gRPC"`) {
				cancel()
			}
		}
		cancel()
		if got := <-code; got != 0 || said != want {
			t.Errorf("exit code %d; it says that events wait: %v, want %v", got, said, want)
		}
	}
}
