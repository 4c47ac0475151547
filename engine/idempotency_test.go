package engine_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"flunq.io/flunq/engine"
	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/wire"
)

// keyed is a service that fails each call once, and records the calls' keys.
type keyed struct {
	mu   sync.Mutex
	keys map[string][]string // by path
}

// RoundTrip implements http.RoundTripper.
func (k *keyed) RoundTrip(req *http.Request) (*http.Response, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	path := req.URL.Path
	k.keys[path] = append(k.keys[path], req.Header.Get("Idempotency-Key"))
	if len(k.keys[path]) == 1 {
		return nil, errors.New("connection reset")
	}
	return &http.Response{StatusCode: http.StatusNoContent, Body: http.NoBody, Header: http.Header{}, Request: req}, nil
}

// An idempotency key stays the same through the retries of a call. No other tenant, and no later
// execution with the same id, uses it.
func TestIdempotencyKeys(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, rdb wire.Redis) {
		service := &keyed{keys: map[string][]string{}}
		opts := engine.Defaults()
		opts.Process, opts.Transport, opts.Tenants = "one", service, []string{"a", "b"}
		opts.Block(10 * time.Millisecond)
		e := prepared(t, rdb, opts)
		def, _, err := dsl.Parse("case.yaml", []byte(`
document: {dsl: '1.0.3', namespace: test, name: pay, version: '1.0.0'}
do:
  - pay:
      try: [{charge: {call: http, with: {method: post, endpoint: 'https://pay.example/{at}'}}}]
      catch: {errors: {with: {status: 500}}, retry: {delay: {milliseconds: 10}, limit: {attempt: {count: 3}}}}
`))
		if err != nil {
			t.Fatal(err)
		}
		run(t, e)
		charge := func(tenant, at string) {
			t.Helper()
			if _, err := e.Definitions.Register(t.Context(), tenant, def); err != nil {
				t.Fatal(err)
			}
			if err := e.Start(t.Context(), def, engine.StartRequest{Tenant: tenant, ID: "order-7", Input: json.RawMessage(`{"at":"` + at + `"}`)}); err != nil {
				t.Fatal(err)
			}
			ends(t, e, tenant, "order-7")
		}
		charge("a", "a")
		charge("b", "b")
		for gone := 0; gone == 0; {
			if gone, _, _, err = e.Store.Forget(t.Context(), "a", store.Keep{Age: time.Nanosecond}, store.ForgetProgress{}); err != nil {
				t.Fatal(err)
			}
		}
		charge("a", "again")

		known := map[string]string{}
		for _, path := range []string{"/a", "/b", "/again"} {
			keys := service.keys[path]
			if len(keys) != 2 || keys[0] != keys[1] {
				t.Errorf("%s was called with the keys %q, want the same one twice", path, keys)
				continue
			}
			if other, ok := known[keys[0]]; ok {
				t.Errorf("%s and %s were called with the same key %s", other, path, keys[0])
			}
			known[keys[0]] = path
			if !strings.Contains(keys[0], "/order-7/") || !strings.HasSuffix(keys[0], "/do/0/pay/try/0/charge/0") {
				t.Errorf("%s was called with the key %s, want tenant, execution, nonce, reference and iteration in it", path, keys[0])
			}
		}
	})
}
