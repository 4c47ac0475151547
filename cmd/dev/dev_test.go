package dev_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"flunq.io/flunq/cmd/dev"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/wire"
)

func open(t *testing.T, opts dev.Options) (*dev.Redis, wire.Redis) {
	t.Helper()
	opts.Groups = []string{store.WorkerGroup}
	r, err := dev.Open(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	rdb, err := store.Dial(t.Context(), r.URL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { rdb.Close() })
	return r, rdb
}

func start() time.Time { return time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC) }

func advance(t *testing.T, rdb wire.Redis, d time.Duration) dev.Move {
	t.Helper()
	text, err := rdb.Do(t.Context(), dev.Command, "ADVANCE", d.Milliseconds()).Text()
	if err != nil {
		t.Fatal(err)
	}
	var m dev.Move
	if err := json.Unmarshal([]byte(text), &m); err != nil {
		t.Fatal(err)
	}
	return m
}

// advanceAll advances until the target is reached. One advance takes a limited real time.
func advanceAll(t *testing.T, rdb wire.Redis, d time.Duration) dev.Move {
	t.Helper()
	all := advance(t, rdb, d)
	for began := time.Now(); !all.Done && time.Since(began) < patience; {
		m := advance(t, rdb, max(0, all.Target.Sub(all.Now)+time.Millisecond-1))
		all.Now, all.Done, all.Busy, all.Fired = m.Now, m.Done, m.Busy, all.Fired+m.Fired
		all.Timers = append(all.Timers, m.Timers...)
	}
	return all
}

// patience is how long a step may take on a busy machine.
const patience = 2 * time.Minute

func timer(t *testing.T, rdb wire.Redis, id string, at time.Time) {
	t.Helper()
	member := event.Encode(event.Timer{Tenant: "default", Execution: id, TaskID: "/do/0/w", FireAt: at, Kind: event.WaitTimer})
	if err := rdb.ZAdd(t.Context(), "flunq:timers:all", redis.Z{Score: float64(at.UnixMicro()) / 1e6, Member: string(member)}).Err(); err != nil {
		t.Fatal(err)
	}
}

// A paused clock stands still, a resumed one runs at real speed, and scripts see its time.
func TestClock(t *testing.T) {
	t.Parallel()
	_, rdb := open(t, dev.Options{Mode: dev.Virtual, Start: start()})
	if err := rdb.Do(t.Context(), dev.Command, "PAUSE").Err(); err != nil {
		t.Fatal(err)
	}
	first := rdb.Time(t.Context()).Val()
	if d := first.Sub(start()); d < 0 || d > time.Minute {
		t.Errorf("the clock is at %s, want soon after %s", first, start())
	}
	script, err := rdb.Eval(t.Context(), "return redis.call('TIME')[1]", nil).Text()
	if err != nil || script != "1767225600" && first.Second() == 0 {
		t.Errorf("a script has the time %s, %v", script, err)
	}
	if second := rdb.Time(t.Context()).Val(); !second.Equal(first) {
		t.Errorf("a paused clock went from %s to %s", first, second)
	}
	if err := rdb.Do(t.Context(), dev.Command, "RESUME").Err(); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(patience); !rdb.Time(t.Context()).Val().After(first); {
		if time.Now().After(deadline) {
			t.Fatal("the clock does not run")
		}
	}
	id := rdb.XAdd(t.Context(), &redis.XAddArgs{Stream: "s", Values: []string{"a", "b"}}).Val()
	if !strings.HasPrefix(id, "17672256") {
		t.Errorf("a stream gives id %s, want one of the clock", id)
	}
	if err := rdb.Eval(t.Context(), "return redis.call('FLUNQ.CLOCK', 'PAUSE')", nil).Err(); err == nil {
		t.Error("a script moved the clock")
	}
}

// The clock stops at every timer in order, and none fires early.
func TestAdvance(t *testing.T) {
	t.Parallel()
	_, rdb := open(t, dev.Options{Mode: dev.Virtual, Start: start()})
	timer(t, rdb, "b", start().Add(48*time.Hour))
	timer(t, rdb, "a", start().Add(24*time.Hour))
	timer(t, rdb, "late", start().Add(96*time.Hour))
	rdb.Do(t.Context(), dev.Command, "PAUSE")
	m := advanceAll(t, rdb, 72*time.Hour)
	var fired []string
	for _, f := range m.Timers {
		fired = append(fired, f.Execution)
	}
	if diff := cmp.Diff([]string{"a", "b"}, fired); diff != "" || !m.Done || m.Fired != 2 {
		t.Errorf("advance: %+v%s", m, diff)
	}
	if d := m.Now.Sub(m.From) - 72*time.Hour; d < 0 || d > 50*time.Millisecond { // a fraction with each advance
		t.Errorf("the clock was moved by %s too much", d)
	}
	var at []string
	for _, e := range rdb.XRange(t.Context(), "tenant:default:events", "-", "+").Val() {
		text, _ := e.Values["time"].(string)
		at = append(at, text)
	}
	if diff := cmp.Diff([]string{"2026-01-02T00:00:00Z", "2026-01-03T00:00:00Z"}, at); diff != "" {
		t.Errorf("fired at%s", diff)
	}
}

// Timers that are set while the clock moves are not skipped.
func TestAdvanceRelay(t *testing.T) {
	t.Parallel()
	_, rdb := open(t, dev.Options{Mode: dev.Virtual, Start: start()})
	ctx := t.Context()
	stream := "tenant:default:events"
	rdb.XGroupCreateMkStream(ctx, stream, store.WorkerGroup, "0")
	timer(t, rdb, "0", start().Add(time.Hour))
	go func() {
		for n := 1; n < 50; n++ {
			read := &redis.XReadGroupArgs{Group: store.WorkerGroup, Consumer: "w", Streams: []string{stream, ">"}, Block: patience}
			msgs, err := rdb.XReadGroup(ctx, read).Result()
			if err != nil {
				return
			}
			member := event.Encode(event.Timer{Tenant: "default", Execution: strconv.Itoa(n), FireAt: start().Add(time.Duration(n+1) * time.Hour)})
			rdb.Eval(ctx, "redis.call('ZADD', KEYS[2], ARGV[1], ARGV[2]) redis.call('XACK', KEYS[1], ARGV[3], ARGV[4])",
				[]string{stream, "flunq:timers:all"}, start().Add(time.Duration(n+1)*time.Hour).Unix(), string(member), store.WorkerGroup, msgs[0].Messages[0].ID)
		}
	}()
	m := advanceAll(t, rdb, start().Add(49*time.Hour+30*time.Minute).Sub(rdb.Time(ctx).Val()))
	if m.Fired != 49 {
		t.Errorf("%d timers fired, want 49", m.Fired)
	}
}

// Unfinished work keeps the clock from advancing and is named.
func TestAdvanceWaits(t *testing.T) {
	t.Parallel()
	_, rdb := open(t, dev.Options{Mode: dev.Virtual, Start: start()})
	ctx := t.Context()
	timer(t, rdb, "a", start().Add(24*time.Hour))
	rdb.XGroupCreateMkStream(ctx, "tenant:default:events", store.WorkerGroup, "0")
	rdb.XGroupCreateMkStream(ctx, "tenant:default:events", "another-program", "0")
	m := advance(t, rdb, 72*time.Hour)
	for began := time.Now(); m.Busy == "" && !m.Done && time.Since(began) < patience; {
		m = advance(t, rdb, max(0, m.Target.Sub(m.Now)))
	}
	if m.Done || !strings.Contains(m.Busy, store.WorkerGroup) || strings.Contains(m.Busy, "another-program") || m.Now.Sub(start()) > 25*time.Hour {
		t.Errorf("with an event unread: %+v", m)
	}
	read := &redis.XReadGroupArgs{Group: store.WorkerGroup, Consumer: "w", Streams: []string{"tenant:default:events", ">"}}
	msgs, err := rdb.XReadGroup(ctx, read).Result()
	if err != nil {
		t.Fatal(err)
	}
	if m := advance(t, rdb, time.Hour); m.Done {
		t.Errorf("with an event pending: %+v", m)
	}
	rdb.XAck(ctx, "tenant:default:events", store.WorkerGroup, msgs[0].Messages[0].ID)
	if m := advanceAll(t, rdb, time.Hour); !m.Done {
		t.Errorf("with all done: %+v", m)
	}
}

// Sleepers wake when the clock is moved.
func TestSleep(t *testing.T) {
	t.Parallel()
	r, rdb := open(t, dev.Options{Mode: dev.Virtual, Start: start()})
	done := make(chan error, 1)
	go func() { done <- r.Sleep(t.Context(), 3*time.Hour) }()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		advance(t, rdb, 2*time.Hour)
		select {
		case err := <-done:
			if err != nil {
				t.Fatal(err)
			}
			return
		case <-ctx.Done():
			t.Fatal("nobody wakes")
		case <-time.After(time.Millisecond):
		}
	}
}

// Keys expire by the clock, also after a restart.
func TestExpiry(t *testing.T) {
	t.Parallel()
	opts := dev.Options{Mode: dev.Virtual, Start: start(), Data: filepath.Join(t.TempDir(), "dev.json")}
	r, rdb := open(t, opts)
	rdb.Set(t.Context(), "short", "x", time.Hour)
	rdb.Set(t.Context(), "long", "x", 10*24*time.Hour)
	advance(t, rdb, 5*24*time.Hour)
	rdb.Set(t.Context(), "later", "x", 10*24*time.Hour)
	if keys := rdb.Exists(t.Context(), "short", "long", "later").Val(); keys != 2 {
		t.Errorf("%d of the keys exist after 5 days, want 2", keys)
	}
	if err := r.SaveAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.Close()
	opts.Start = time.Time{}
	_, rdb = open(t, opts)
	advance(t, rdb, 6*24*time.Hour)
	if long, later := rdb.Exists(t.Context(), "long").Val(), rdb.Exists(t.Context(), "later").Val(); long != 0 || later != 1 {
		t.Errorf("after 11 days there are %d and %d of the keys long and later, want 0 and 1", long, later)
	}
}

// The data file restores everything, and the clock continues from its time.
func TestData(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	data := filepath.Join(t.TempDir(), "dev.json")
	first, rdb := open(t, dev.Options{Mode: dev.Virtual, Start: start(), Data: data})
	rdb.Do(ctx, dev.Command, "PAUSE")
	rdb.Set(ctx, "text", "grüße\x00\xff", 0)
	rdb.HSet(ctx, "hash", "a", "1", "b", "")
	rdb.RPush(ctx, "list", "x", "y", "x")
	rdb.SAdd(ctx, "set", "p", "q")
	rdb.ZAdd(ctx, "zset", redis.Z{Score: 1767225600.123457, Member: "m"})
	for range 4 {
		rdb.XAdd(ctx, &redis.XAddArgs{Stream: "stream", Values: []string{"k", "v", "a", "b"}})
	}
	rdb.XGroupCreate(ctx, "stream", "g", "0")
	msgs := rdb.XReadGroup(ctx, &redis.XReadGroupArgs{Group: "g", Consumer: "c", Count: 3, Streams: []string{"stream", ">"}}).Val()
	rdb.XAck(ctx, "stream", "g", msgs[0].Messages[0].ID, msgs[0].Messages[2].ID)
	gone := rdb.XAdd(ctx, &redis.XAddArgs{Stream: "empty", Values: []string{"k", "v"}}).Val()
	rdb.XDel(ctx, "empty", gone)
	rdb.XGroupCreateMkStream(ctx, "new", "g", "0")
	want := dump(t, rdb)
	if err := first.SaveAll(ctx); err != nil {
		t.Fatal(err)
	}
	at := first.Clock().Now
	first.Close()

	_, reopened := open(t, dev.Options{Data: data})
	if diff := cmp.Diff(want, dump(t, reopened)); diff != "" {
		t.Errorf("what came back (-before +after):\n%s", diff)
	}
	if now := reopened.Time(ctx).Val(); !now.Equal(at) {
		t.Errorf("the clock is at %s, want %s", now, at)
	}
	claimed, _, err := reopened.XAutoClaim(ctx, &redis.XAutoClaimArgs{Stream: "stream", Group: "g", Consumer: "d", MinIdle: 24 * time.Hour, Start: "0"}).Result()
	if err != nil || len(claimed) != 1 || claimed[0].ID != msgs[0].Messages[1].ID {
		t.Errorf("pending: %v, %v", claimed, err)
	}
	if id := reopened.XAdd(ctx, &redis.XAddArgs{Stream: "empty", Values: []string{"k", "v"}}).Val(); id <= gone {
		t.Errorf("id %s was given again as %s", gone, id)
	}
}

func dump(t *testing.T, rdb wire.Redis) map[string]any {
	t.Helper()
	ctx := t.Context()
	group := func(key string) any {
		groups := rdb.XInfoGroups(ctx, key).Val()
		pending := rdb.XPendingExt(ctx, &redis.XPendingExtArgs{Stream: key, Group: "g", Start: "-", End: "+", Count: 10}).Val()
		for i := range pending {
			pending[i].Idle = 0
		}
		return []any{groups, pending}
	}
	return map[string]any{
		"text": rdb.Get(ctx, "text").Val(), "hash": rdb.HGetAll(ctx, "hash").Val(),
		"list": rdb.LRange(ctx, "list", 0, -1).Val(), "set": rdb.SMembers(ctx, "set").Val(),
		"zset": rdb.ZRangeWithScores(ctx, "zset", 0, -1).Val(), "stream": rdb.XRange(ctx, "stream", "-", "+").Val(),
		"group": group("stream"), "new": group("new"), "keys": rdb.Keys(ctx, "*").Val(),
	}
}

// The file is written only if data has changed. An invalid file is reported and not
// changed.
func TestDataFile(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	data := filepath.Join(t.TempDir(), "dev.json")
	r, rdb := open(t, dev.Options{Data: data})
	rdb.Set(ctx, "a", "1", 0)
	stamp := func() time.Time {
		if err := r.Save(ctx); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(data)
		if err != nil {
			t.Fatal(err)
		}
		return info.ModTime()
	}
	first := stamp()
	if second := stamp(); !second.Equal(first) {
		t.Error("the file was written again though nothing had changed")
	}
	text, err := os.ReadFile(data)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := dev.Open(ctx, dev.Options{Data: data}); !errors.Is(err, dev.ErrUsed) || !strings.Contains(err.Error(), strconv.Itoa(os.Getpid())) {
		t.Errorf("opening a file that is in use: %v", err)
	}
	if err := os.WriteFile(data, append(text, '\n'), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := r.SaveAll(ctx); !errors.Is(err, dev.ErrChanged) {
		t.Errorf("saving over what another has saved: %v", err)
	}
	r.Close()
	r, _ = open(t, dev.Options{Data: data})
	r.Close()
	if _, err := os.Stat(data + ".lock"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the lock is left: %v", err)
	}
	for name, broken := range map[string]string{
		"half": string(text[:len(text)/2]), "empty": "", "another": `{"flunq_dev": 2}`, "other": "{}",
		"kind": `{"flunq_dev": 1, "saved": "2026-01-01T00:00:00Z", "keys": [{"key": "a", "type": "tree", "values": ["x"]}]}`,
		"id":   `{"flunq_dev": 1, "saved": "2026-01-01T00:00:00Z", "keys": [{"key": "a", "type": "stream", "entries": [{"id": "x", "fields": ["a", "b"]}]}]}`,
	} {
		bad := filepath.Join(t.TempDir(), name+".json")
		if err := os.WriteFile(bad, []byte(broken), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := dev.Open(ctx, dev.Options{Data: bad})
		if !errors.Is(err, dev.ErrBroken) || !strings.Contains(err.Error(), bad) {
			t.Errorf("%s: %v, want an error that names the file", name, err)
		}
		if now, _ := os.ReadFile(bad); string(now) != broken {
			t.Errorf("%s: the file was changed to %q", name, now)
		}
	}
}

// A virtual clock that is ahead cannot become a real one.
func TestClockOfFile(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "dev.json")
	r, _ := open(t, dev.Options{Mode: dev.Virtual, Start: time.Now().Add(time.Hour), Data: data})
	if err := r.SaveAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.Close()
	for name, opts := range map[string]dev.Options{
		"real":   {Mode: dev.Real, Data: data},
		"before": {Mode: dev.Virtual, Start: start(), Data: data},
		"after":  {Mode: dev.Virtual, Start: time.Now().Add(48 * time.Hour), Data: data},
	} {
		if reopened, err := dev.Open(t.Context(), opts); err == nil {
			reopened.Close()
			t.Errorf("%s: no error", name)
		}
	}
}

// A malformed command ends its own connection with an error, and no other.
func TestMalformedCommands(t *testing.T) {
	t.Parallel()
	r, _ := open(t, dev.Options{})
	address := strings.TrimPrefix(r.URL(), "redis://")
	for _, text := range []string{
		"*1\r\n$-5\r\n", "$5\r\nhello\r\n", "*1\r\n$999999999999\r\n", "*1\r\n$-1\r\n", "\r\n", "PING\r\n", "*1\r\n:1\r\n",
		"*1000000000\r\n", "*x\r\n", "*1\r\n*1\r\n$4\r\nPING\r\n", "*1\n$4\nPING\n", strings.Repeat("a", 100_000) + "\r\n",
	} {
		if got := exchange(t, address, text); !strings.HasPrefix(got, "-ERR Protocol error: ") {
			t.Errorf("%.20q is answered with %q", text, got)
		}
	}
	if got, want := exchange(t, address, "*0\r\n*-1\r\n*1\r\n$4\r\nPING\r\n"), "+PONG\r\n"; got != want {
		t.Errorf("PING after commands without arguments is answered with %q, want %q", got, want)
	}
}

// exchange sends text and returns the beginning of the reply.
func exchange(t *testing.T, address, text string) string {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, text); err != nil {
		t.Fatal(err)
	}
	answer, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil {
		t.Errorf("%.20q: %v", text, err)
	}
	return answer
}
