package engine_test

import (
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"flunq.io/flunq/engine"
	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/store"
)

// So many tenants that all are read only now and then: each one's executions end,
// those that begin while others are at work and the first of a quiet tenant.
func TestManyTenants(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, rdb *redis.Client) {
		const text = "document: {dsl: '1.0.3', namespace: test, name: case, version: '1.0.0'}\ndo:\n  - one: {set: {n: 1}}\n"
		def, _, err := dsl.Parse("case.yaml", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		opts := engine.Defaults()
		opts.Process, opts.Transport, opts.Remote, opts.Tenants = "many", http.DefaultTransport, true, nil
		for i := range 150 {
			opts.Tenants = append(opts.Tenants, fmt.Sprintf("t%03d", i))
		}
		e, err := engine.New(rdb, opts)
		if err != nil {
			t.Fatal(err)
		}
		run(t, e)
		for i, tenant := range e.Tenants() {
			if _, err := e.Library.Register(t.Context(), tenant, def); err != nil {
				t.Fatal(err)
			}
			for n := range 1 + i%3 {
				if err := e.Start(t.Context(), tenant, fmt.Sprint("x", n), def, nil); err != nil {
					t.Fatal(err)
				}
			}
		}
		for i, tenant := range e.Tenants() {
			for n := range 1 + i%3 {
				ends(t, e, tenant, fmt.Sprint("x", n))
			}
		}
		if err := e.Start(t.Context(), "t149", "late", def, nil); err != nil {
			t.Fatal(err)
		}
		ends(t, e, "t149", "late")
	})
}

// One that has many executions at once keeps nobody waiting, and loses none of them.
func TestCrowd(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, rdb *redis.Client) {
		const text = "document: {dsl: '1.0.3', namespace: test, name: case, version: '1.0.0'}\ndo:\n  - one: {set: {n: 1}}\n  - two: {set: {n: 2}}\n"
		def, _, err := dsl.Parse("case.yaml", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		opts := engine.Defaults()
		opts.Process, opts.Transport, opts.Remote, opts.Tenants = "crowd", http.DefaultTransport, true, []string{"many", "few"}
		e, err := engine.New(rdb, opts)
		if err != nil {
			t.Fatal(err)
		}
		for _, tenant := range opts.Tenants {
			if _, err := e.Library.Register(t.Context(), tenant, def); err != nil {
				t.Fatal(err)
			}
		}
		const crowd = 600
		for i := range crowd {
			if err := e.Start(t.Context(), "many", fmt.Sprint("x", i), def, nil); err != nil {
				t.Fatal(err)
			}
		}
		run(t, e)
		for i := range 5 {
			if err := e.Start(t.Context(), "few", fmt.Sprint("x", i), def, nil); err != nil {
				t.Fatal(err)
			}
			ends(t, e, "few", fmt.Sprint("x", i))
		}
		for i := range crowd {
			ends(t, e, "many", fmt.Sprint("x", i))
		}
	})
}

// ends waits until an execution has completed.
func ends(t *testing.T, e *engine.Engine, tenant, id string) {
	t.Helper()
	for until := time.Now().Add(30 * time.Second); ; time.Sleep(2 * time.Millisecond) {
		x, err := e.Store.Execution(t.Context(), tenant, id)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			t.Fatal(err)
		}
		if x.Status == "completed" {
			return
		}
		if time.Now().After(until) {
			t.Fatalf("%s of %s is %q", id, tenant, x.Status)
		}
	}
}
