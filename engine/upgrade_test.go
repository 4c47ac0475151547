package engine_test

import (
	"compress/gzip"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/store/wire"
)

// Executions of an earlier version of flunq continue with this one. Each file contains all
// keys of a Redis as commands, one JSON array per line, as that version left them: l1 waits
// in a fork for two timers, which are long overdue, and has received its event; l2 is
// suspended, and its event arrived meanwhile; f1 has faulted.
func TestUpgrade(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/upgrade/*.jsonl.gz")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, name := range files {
		t.Run(filepath.Base(name), func(t *testing.T) {
			t.Parallel()
			onBoth(t, func(t *testing.T, rdb wire.Redis) {
				load(t, rdb, name)
				goesOn(t, rdb)
			})
		})
	}
}

func goesOn(t *testing.T, rdb wire.Redis) {
	t.Helper()
	e := newEngine(t, rdb, "later")
	run(t, e)
	send := func(id string, typ event.Type) {
		if err := e.Store.Publish(t.Context(), event.Event{ID: id + "/" + string(typ), Source: "/test", Type: typ, Tenant: tenant, Workflow: "acme.long", Execution: id, Time: time.Now()}); err != nil {
			t.Fatal(err)
		}
	}
	const want = `{"paid":{"amount":5},"turn":99}`
	if x := ended(t, e, "l1"); string(x.Output) != want {
		t.Errorf("l1 is %s: %s %s", x.Status, x.Output, x.Error)
	}
	send("l2", event.ExecutionResumed)
	if x := ended(t, e, "l2"); string(x.Output) != want {
		t.Errorf("l2 is %s: %s %s", x.Status, x.Output, x.Error)
	}
	before, err := e.Store.Execution(t.Context(), tenant, "f1")
	if err != nil || before.Status != string(decide.Faulted) {
		t.Fatalf("f1 is %s, %v", before.Status, err)
	}
	send("f1", event.ExecutionRetried)
	until(t, "f1 is retried", func() bool {
		x, err := e.Store.Execution(t.Context(), tenant, "f1")
		return err == nil && x.Version > before.Version && decide.Status(x.Status).Ended()
	})
	for _, id := range []string{"l1", "l2"} {
		fields, err := rdb.HKeys(t.Context(), "tenant:"+tenant+":execution:"+id).Result()
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range fields {
			if name == "state" || name == "snapshot" {
				t.Errorf("%s has ended but still has its %s", id, name)
			}
		}
	}
}

// load sends the commands of a file to Redis.
func load(t *testing.T, rdb wire.Redis, name string) {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	lines, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	pipe := rdb.Pipeline()
	for dec := json.NewDecoder(lines); ; {
		var args []any
		if err := dec.Decode(&args); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		pipe.Do(t.Context(), args...)
	}
	if _, err := pipe.Exec(t.Context()); err != nil {
		t.Fatal(err)
	}
}
