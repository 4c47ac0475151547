//go:build unix

package torture_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"flunq.io/flunq/engine"
	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/event"
)

// Limits of the process that serves both tenants of TestHostileTenant.
const (
	maxMemory   = 1000 << 20 // bytes
	maxCancel   = 2 * time.Second
	maxShutdown = 6 * time.Second
)

// While one tenant does its worst, another tenant's workflows of one task complete, cancel takes effect,
// and the process stays small and stops in time. The test reports how much slower the other tenant
// becomes; the goal is at most five times, for the 99th percentile.
func TestHostileTenant(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "flunq")
	if out, err := exec.Command("go", "build", "-o", binary, "../..").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	for _, a := range attacks() {
		if !*full && !a.small {
			continue
		}
		t.Run(a.name, func(t *testing.T) {
			w := begin(t)
			h := &attackRun{environment: w, attack: a, server: httptest.NewServer(http.HandlerFunc(misbehave))}
			t.Cleanup(h.server.CloseClientConnections)
			h.serve(binary)
			h.run()
		})
	}
}

// attack is what the hostile tenant does: it keeps executions of its documents open, or
// writes to its stream itself.
type attack struct {
	name  string
	do    string // the tasks of its document; URL stands for the server that misbehaves
	open  int    // executions to keep open
	input string
	child string // the tasks of the document "child"
	write func(ctx context.Context, rdb redis.Pipeliner)
	small bool // runs without -torture too
}

// attackRun is one run of an attack.
type attackRun struct {
	*environment

	attack  attack
	server  *httptest.Server
	process *exec.Cmd
	log     bytes.Buffer
	gone    chan struct{}
	started atomic.Int64 // executions and writes
}

const (
	hostileTenant = "a"
	otherTenant   = "b"
)

// serve starts the process.
func (h *attackRun) serve(binary string) {
	h.t.Helper()
	h.process, h.gone = exec.Command(binary, "serve", "--redis-url", "redis://"+h.address, "--http", "", "--allow-private"), make(chan struct{})
	h.process.Env = append(os.Environ(), "LEASE=5s")
	h.process.Stderr = &h.log
	h.must(h.process.Start())
	go func() { defer close(h.gone); _ = h.process.Wait() }()
	h.t.Cleanup(func() { _ = h.process.Process.Kill(); <-h.gone })
}

// run measures the other tenant's latency without and with the attack.
func (h *attackRun) run() {
	h.t.Helper()
	span := size(time.Second, 5*time.Second)
	simple := h.register(otherTenant, "simple", "do: [{one: {set: {x: 1}}}]")
	h.latency(simple, "warm", time.Second)
	idle := h.latency(simple, "idle", span)
	ctx, stop := context.WithCancel(h.t.Context())
	defer stop()
	done := make(chan struct{})
	begin := h.prepare()
	go func() { defer close(done); begin(ctx) }()
	h.pause(size(200*time.Millisecond, 2*time.Second))
	pings := make(chan quantiles, 1)
	go func() { pings <- h.pings(span) }()
	during := h.latency(simple, "during", span)
	ping := <-pings
	cancelled := h.cancel()
	memory := h.memory()
	ended := h.terminate()
	stop()
	<-done
	ratio := float64(during.p99) / float64(max(idle.p99, time.Millisecond))
	h.report("%-22s idle %v, during %v: p99 %.1f times; PING %v; started %d; memory %d MB; cancelled after %v; ended after %v",
		h.attack.name, idle, during, ratio, ping, h.started.Load(), memory>>20, cancelled.Round(time.Millisecond), ended.Round(time.Millisecond))
	if memory > maxMemory {
		h.t.Errorf("memory: %d MB, want at most %d", memory>>20, maxMemory>>20)
	}
	if *full && cancelled > maxCancel {
		h.t.Errorf("cancel took effect after %v, want at most %v", cancelled, maxCancel)
	}
	if ended > maxShutdown {
		h.t.Errorf("SIGTERM ended the process after %v, want at most %v", ended, maxShutdown)
	}
}

func (h *attackRun) pause(d time.Duration) {
	select {
	case <-h.gone:
		h.t.Fatalf("the process ended by itself: %s", tail(h.log.Bytes()))
	case <-time.After(d):
	}
}

func tail(text []byte) []byte {
	const limit = 2000
	return text[max(0, len(text)-limit):]
}

// register registers a workflow of a tenant.
func (h *attackRun) register(tenant, name, do string) *dsl.Definition {
	h.t.Helper()
	text := "document: {dsl: '1.0.3', namespace: torture, name: " + name + ", version: '1.0.0'}\n" + strings.ReplaceAll(do, "URL", h.server.URL)
	def, _, err := dsl.Parse(name+".yaml", []byte(text))
	h.must(err)
	_, err = h.engine.Definitions.Register(h.t.Context(), tenant, def)
	h.must(err)
	return def
}

// prepare registers the documents of the attack and returns what carries it out until a
// context ends.
func (h *attackRun) prepare() func(context.Context) {
	h.t.Helper()
	if h.attack.child != "" {
		h.register(hostileTenant, "child", h.attack.child)
	}
	if h.attack.do == "" {
		return h.keepWriting
	}
	def := h.register(hostileTenant, "hostile", h.attack.do)
	return func(ctx context.Context) {
		var writing sync.WaitGroup
		if h.attack.write != nil {
			writing.Go(func() { h.keepWriting(ctx) })
		}
		h.keepOpen(ctx, def)
		writing.Wait()
	}
}

// keepWriting writes to the stream of the hostile tenant.
func (h *attackRun) keepWriting(ctx context.Context) {
	for ctx.Err() == nil {
		p := h.rdb.Pipeline()
		h.attack.write(ctx, p)
		_, _ = p.Exec(ctx)
		h.started.Add(1)
	}
}

// keepOpen starts executions whenever fewer than wanted are open.
func (h *attackRun) keepOpen(ctx context.Context, def *dsl.Definition) {
	for ctx.Err() == nil {
		open, err := h.store.Open(ctx, hostileTenant, h.attack.open)
		if err != nil || open >= h.attack.open {
			time.Sleep(time.Millisecond)
			continue
		}
		for range h.attack.open - open {
			_ = h.engine.Start(ctx, def, engine.StartRequest{Tenant: hostileTenant, ID: fmt.Sprintf("x%d", h.started.Add(1)), Input: []byte(h.attack.input)})
		}
	}
}

// quantiles are those of n measured times.
type quantiles struct {
	n             int
	p50, p99, top time.Duration
}

func quantilesOf(took []time.Duration) quantiles {
	slices.Sort(took)
	n := len(took)
	return quantiles{n, took[n/2], took[n*99/100], took[n-1]}
}

// String implements fmt.Stringer.
func (q quantiles) String() string {
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	return fmt.Sprintf("p50 %.1f p99 %.1f max %.1f ms of %d", ms(q.p50), ms(q.p99), ms(q.top), q.n)
}

// latency runs executions of the other tenant one after another, and returns how long they took.
func (h *attackRun) latency(def *dsl.Definition, name string, span time.Duration) quantiles {
	h.t.Helper()
	var took []time.Duration
	for began := time.Now(); time.Since(began) < span; {
		id := name + strconv.Itoa(len(took))
		at := time.Now()
		h.must(h.engine.Start(h.t.Context(), def, engine.StartRequest{Tenant: otherTenant, ID: id}))
		h.await(otherTenant, id, patience())
		took = append(took, time.Since(at))
		h.pause(5 * time.Millisecond)
	}
	return quantilesOf(took)
}

// pings measures how long Redis takes to answer a PING: the cost of machine and Redis without flunq.
func (h *attackRun) pings(span time.Duration) quantiles {
	var took []time.Duration
	for began := time.Now(); time.Since(began) < span; time.Sleep(5 * time.Millisecond) {
		at := time.Now()
		_ = h.rdb.Do(h.t.Context(), "PING").Err()
		took = append(took, time.Since(at))
	}
	return quantilesOf(took)
}

// await waits until an execution has ended.
func (h *attackRun) await(tenant, id string, limit time.Duration) {
	h.t.Helper()
	last := "0"
	for deadline := time.Now().Add(limit); time.Now().Before(deadline); {
		streams, err := h.rdb.XRead(h.t.Context(), &redis.XReadArgs{
			Streams: []string{"tenant:" + tenant + ":execution:" + id + ":history", last}, Block: 100 * time.Millisecond,
		}).Result()
		if err != nil && !errors.Is(err, redis.Nil) {
			h.t.Fatal(err)
		}
		for _, s := range streams {
			for _, m := range s.Messages {
				last = m.ID
				if slices.Contains(endings(), event.Type(fmt.Sprint(m.Values["type"]))) {
					return
				}
			}
		}
	}
	h.t.Fatalf("execution %s of tenant %s has not ended after %v", id, tenant, limit)
}

// cancel cancels the oldest execution of the attack that has begun, and returns the time until it has
// ended; 0 if there is none.
func (h *attackRun) cancel() time.Duration {
	h.t.Helper()
	ctx := h.t.Context()
	open, err := h.rdb.ZRange(ctx, "tenant:"+hostileTenant+":executions:open", 0, 1000).Result()
	h.must(err)
	begun := slices.IndexFunc(open, func(id string) bool {
		status := h.status(id)
		return status != "" && !decide.Status(status).Ended()
	})
	if begun < 0 {
		return 0
	}
	id, now, at := open[begun], h.now(), time.Now()
	e := event.Event{
		ID: id + "/cancel/1", Source: decide.Prefix + "test", Type: event.ExecutionCancelled, Time: now,
		Tenant: hostileTenant, Workflow: "torture.hostile", Execution: id, Data: event.Encode(event.Ended{Reason: "enough"}),
	}
	h.must(h.store.Publish(ctx, e))
	for time.Since(at) < 2*maxCancel {
		if status := h.status(id); status == "" || decide.Status(status).Ended() {
			break
		}
		time.Sleep(time.Millisecond)
	}
	return time.Since(at)
}

// status returns the status of an execution of the attack; "" if it has not begun or is gone.
func (h *attackRun) status(id string) string {
	h.t.Helper()
	found, err := h.store.Outlines(h.t.Context(), hostileTenant, id)
	h.must(err)
	if len(found) == 0 || found[0].Version == 0 {
		return ""
	}
	return found[0].Status
}

// memory returns the peak memory of the process in bytes; 0 if the system is not Linux.
func (h *attackRun) memory() int {
	h.t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", h.process.Process.Pid))
	if runtime.GOOS != "linux" {
		return 0
	}
	h.must(err)
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kb, err := strconv.Atoi(strings.Fields(rest)[0])
			h.must(err)
			return kb << 10
		}
	}
	h.t.Fatal("/proc/PID/status has no VmHWM")
	return 0
}

// terminate ends the process with SIGTERM and returns how long it took.
func (h *attackRun) terminate() time.Duration {
	h.t.Helper()
	at := time.Now()
	_ = h.process.Process.Signal(syscall.SIGTERM)
	select {
	case <-h.gone:
		if code := h.process.ProcessState.ExitCode(); code != 0 {
			h.t.Errorf("exit code %d: %s", code, tail(h.log.Bytes()))
		}
	case <-time.After(2 * maxShutdown):
	}
	return time.Since(at)
}

// misbehave handles the calls of hostile workflows.
func misbehave(w http.ResponseWriter, req *http.Request) {
	switch req.URL.Path {
	case "/hang":
		<-req.Context().Done()
	case "/endless":
		w.Header().Set("Content-Type", "application/json")
		line := bytes.Repeat([]byte("x"), 1<<16)
		_, _ = w.Write([]byte{'"'})
		for {
			if _, err := w.Write(line); err != nil {
				return
			}
		}
	case "/nodes":
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(nodes)
	case "/small-nodes":
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, "["+strings.Repeat("{},", 50_000)+"{}]")
	case "/large":
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `"`+strings.Repeat("y", 5<<20)+`"`)
	case "/drip":
		w.WriteHeader(http.StatusOK)
		for req.Context().Err() == nil {
			_, _ = w.Write([]byte(" "))
			_ = http.NewResponseController(w).Flush()
			time.Sleep(10 * time.Millisecond)
		}
	case "/101":
		upgrade(w, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n")
	case "/line":
		upgrade(w, "HTTP/1.1 200 OK\r\nX: "+strings.Repeat("z", 50<<20))
	case "/ok":
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"ok":true}`)
	default:
		w.WriteHeader(http.StatusInternalServerError)
	}
}

var nodes = []byte("[" + strings.Repeat("{},", 3_000_000) + "{}]")

func upgrade(w http.ResponseWriter, text string) {
	conn, rw, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer conn.Close()
	_, _ = io.Copy(conn, strings.NewReader(text))
	_, _ = rw.ReadByte() // until the other side closes
}

// serial numbers written events.
var serial atomic.Int64

func attacks() []attack {
	call := func(path string) string {
		return "do: [{c: {call: http, with: {method: get, endpoint: 'URL" + path + "'}}}]"
	}
	ownStream := "tenant:" + hostileTenant + ":events"
	return []attack{
		{name: "jq recursion", do: "do: [{c: {set: {x: '${ def f(g): def h: g|f(h); h; f(.) }'}}}]", open: 12, small: true},
		{name: "jq labels", do: "do: [{c: {set: {x: '${ def f: label $a|f|f; f }'}}}]", open: 12},
		{name: "jq range", do: "do: [{c: {set: {x: '${ [range(1e9)] | length }'}}}]", open: 12},
		{name: "jq strings", do: "do: [{c: {set: {x: '${ reduce range(40) as $i (\"x\"; . + .) | length }'}}}]", open: 12},
		{name: "jq gsub", do: "do: [{c: {set: {x: '${ (\"a\" * 200000) | gsub(\"(a|aa)+$\"; \"b\") | length }'}}}]", open: 12},
		{name: "jq sort", do: "do: [{c: {set: {x: '${ [range(500000)] | sort_by(-.) | group_by(. % 7) | length }'}}}]", open: 12},
		{name: "jq paths", do: "do: [{c: {set: {x: '${ [range(2000)] | [paths] | map(tostring) | unique | length }'}}}]", open: 12},
		{name: "schema allOf", do: "input: {schema: {document: " + allOf(31) + "}}\ndo: [{c: {set: {x: 1}}}]", open: 12},
		{
			name: "schema oneOf", do: "input: {schema: {document: {$ref: '#/$defs/a', $defs: {a: {oneOf: [{type: array, items: {$ref: '#/$defs/a'}}, {type: array, items: {$ref: '#/$defs/a'}, maxItems: 3}, {type: integer}]}}}}}\ndo: [{c: {set: {x: 1}}}]",
			input: strings.Repeat("[", 40) + strings.Repeat("]", 40), open: 12,
		},
		{
			name: "schema patterns", do: "input: {schema: {document: {additionalProperties: {allOf: [{pattern: '^(a|b|ab)*c$'}, {pattern: '(x+x+)+y'}, {pattern: '^.{0,500}z'}]}}}}\ndo: [{c: {set: {x: 1}}}]",
			input: object(3000, strings.Repeat("ab", 100)), open: 12,
		},
		{
			name: "schema unique", do: "input: {schema: {document: {properties: {l: {uniqueItems: true}}}}}\ndo: [{c: {set: {x: 1}}}]",
			input: `{"l":[` + numbers(20_000) + `]}`, open: 12,
		},
		{name: "then itself", do: "do: [{c: {set: {x: 1}, then: c}}]", open: 6, small: true},
		{name: "then itself, data", do: "do: [{c: {set: {x: '${ \"y\" * 10000 }', n: '${ (.n // 0) + 1 }'}, then: c}}]", open: 6},
		{name: "wait for nothing", do: "do: [{c: {wait: PT0S, then: c}}]", open: 6},
		{name: "for many", do: "do: [{c: {for: {in: '${ [range(100000)] }'}, do: [{d: {set: {x: '${ $item }'}}}]}}]", open: 6},
		{name: "nested for", do: "do: [{c: {for: {in: '${ [range(300)] }', each: i}, do: [{d: {for: {in: '${ [range(300)] }', each: j}, do: [{e: {set: {x: 1}}}]}}]}}]", open: 6},
		{name: "wide fork", do: "do: [{c: {fork: {branches: [" + strings.TrimSuffix(repeat(400, "{b%d: {set: {x: %[1]d}}}, "), ", ") + "]}}}]", open: 6},
		{name: "fork of waits", do: "do: [{c: {fork: {branches: [" + strings.TrimSuffix(repeat(400, "{b%d: {wait: PT0.01S}}, "), ", ") + "]}}}]", open: 6},
		{name: "retry at once", do: "do: [{c: {try: [{d: {call: http, with: {method: get, endpoint: 'URL/500'}}}], catch: {retry: {delay: PT0S, limit: {attempt: {count: 100000}}}}}}]", open: 20},
		{name: "raise and catch", do: "do: [{c: {try: [{d: {raise: {error: {type: 'https://x.y/z', status: 400}}}}], catch: {do: [{e: {set: {x: 1}}}]}, then: c}}]", open: 6},
		{
			name: "children", do: "do: [{c: {for: {in: '${ [range(100)] }'}, do: [{d: {run: {workflow: {namespace: torture, name: child, version: 1.0.0}, await: false}}}]}}]",
			child: "do: [{c: {for: {in: '${ [range(100)] }'}, do: [{d: {run: {workflow: {namespace: torture, name: child, version: 1.0.0}, await: false}}}]}}]", open: 4,
		},
		{name: "emit storm", do: "do: [{c: {for: {in: '${ [range(10000)] }'}, do: [{d: {emit: {event: {with: {source: 'https://x.y', type: com.x.y, data: {n: '${ $item }'}}}}}}]}}]", open: 4},
		{name: "listeners", do: "do: [{c: {listen: {to: {any: [{with: {type: com.x.never}}]}}}}]", open: 3000},
		{name: "events to listeners", do: "do: [{c: {fork: {branches: [{l: {listen: {to: {all: [{with: {type: com.x.y, n: 1}}, {with: {type: com.x.y, n: 2}}]}}}}, {e: {emit: {event: {with: {source: 'https://x.y', type: com.x.y}}}}}]}}}]", open: 300},
		{name: "many timers", do: "do: [{c: {wait: PT0.5S}}]", open: 5000},
		{name: "hanging calls", do: call("/hang"), open: 80, small: true},
		{name: "endless body", do: call("/endless"), open: 20},
		{name: "many nodes", do: call("/nodes"), open: 20},
		{name: "small nodes", do: call("/small-nodes"), open: 20},
		{name: "large bodies", do: call("/large"), open: 20},
		{name: "dripping body", do: call("/drip"), open: 80},
		{name: "status 101", do: call("/101"), open: 20},
		{name: "endless line", do: call("/line"), open: 20},
		{name: "good calls", do: call("/ok"), open: 200},
		{name: "large input", do: "do: [{c: {set: {x: '${ .l | length }'}}}]", input: `{"l":"` + strings.Repeat("x", 5<<20) + `"}`, open: 6},
		{name: "large outputs", do: "do: [{c: {set: {x: '${ \"y\" * 4000000 }'}}}, {d: {set: {x: '${ .x }', y: '${ .x }'}}}]", open: 6},
		{name: "large numbers", do: "do: [{c: {set: {x: '${ [range(100000)] }'}}}, {d: {set: {x: '${ .x | map(. + 1) }'}}}]", open: 6},
		{name: "thousands of fields", write: func(ctx context.Context, rdb redis.Pipeliner) {
			values := make([]any, 0, 20_000)
			for i := range 10_000 {
				values = append(values, "f"+strconv.Itoa(i), "v")
			}
			rdb.XAdd(ctx, &redis.XAddArgs{Stream: ownStream, Values: values})
		}},
		{name: "huge events", write: func(ctx context.Context, rdb redis.Pipeliner) {
			e := event.Event{ID: strconv.FormatInt(serial.Add(1), 10), Source: "/x", Type: "com.x.y", Time: time.Unix(1, 0), Tenant: hostileTenant, Data: []byte(`"` + strings.Repeat("x", 20<<20) + `"`)}
			rdb.XAdd(ctx, &redis.XAddArgs{Stream: ownStream, Values: e.Fields(), MaxLen: 20})
		}},
		{
			name: "large events to listeners", do: "do: [{l: {listen: {to: {one: {with: {type: com.x.y}}}}}}]", open: 50,
			write: func(ctx context.Context, rdb redis.Pipeliner) {
				e := event.Event{ID: strconv.FormatInt(serial.Add(1), 10), Source: "/x", Type: "com.x.y", Time: time.Unix(1, 0), Tenant: hostileTenant, Data: []byte(`"` + strings.Repeat("x", 1<<20) + `"`)}
				rdb.XAdd(ctx, &redis.XAddArgs{Stream: ownStream, Values: e.Fields(), MaxLen: 20})
			},
		},
		{name: "garbage", write: func(ctx context.Context, rdb redis.Pipeliner) {
			for range 100 {
				rdb.XAdd(ctx, &redis.XAddArgs{Stream: ownStream, Values: []any{"type", "io.flunq.task.completed", "data", "{", "executionid", "none" + strconv.FormatInt(serial.Add(1), 10)}})
			}
		}},
		{name: "timers of nobody", write: func(ctx context.Context, rdb redis.Pipeliner) {
			for range 100 {
				id := "n" + strconv.FormatInt(serial.Add(1), 10)
				e := event.Event{ID: id, Source: "/x", Type: event.TimerScheduled, Time: time.Now(), Tenant: hostileTenant, Execution: id, Data: []byte(`{"timer_id":"` + id + `","fire_at":"2020-01-01T00:00:00Z"}`)}
				rdb.XAdd(ctx, &redis.XAddArgs{Stream: ownStream, Values: e.Fields()})
			}
		}},
	}
}

// allOf returns a chain of n definitions, each of which refers to the next one twice.
func allOf(n int) string {
	var b strings.Builder
	b.WriteString("{$ref: '#/$defs/d0', $defs: {")
	for i := range n {
		fmt.Fprintf(&b, "d%d: {allOf: [{$ref: '#/$defs/d%d'}, {$ref: '#/$defs/d%d'}]}, ", i, i+1, i+1)
	}
	fmt.Fprintf(&b, "d%d: {type: object}}}", n)
	return b.String()
}

func object(n int, value string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `,"k%d":%q`, i, value)
	}
	return "{" + b.String()[1:] + "}"
}

func numbers(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, ",%d", i)
	}
	return b.String()[1:]
}

func repeat(n int, format string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, format, i)
	}
	return b.String()
}
