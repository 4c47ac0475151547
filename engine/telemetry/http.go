package telemetry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"flunq.io/flunq/engine"
	"flunq.io/flunq/engine/store"
)

// Handler returns a handler for /health and /api/health/worker (the services' health),
// /healthz (liveness), /readyz (readiness: Redis responds and accepts writes, and the services have started) and
// /metrics. In a Redis Cluster one master that accepts writes makes a process ready, and the answer says if
// others are missing.
func (t *Telemetry) Handler(e *engine.Engine, registry *prometheus.Registry) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusOK, map[string]string{"status": "alive"})
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) { ready(w, r, e) })
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, r *http.Request) { t.health(w, r, e) })
	mux.HandleFunc("GET /api/health/worker", func(w http.ResponseWriter, _ *http.Request) {
		h := t.workers(e)
		answer(w, statusCode(h.Status), h)
	})
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError}))
	return mux
}

// answer writes JSON. It ignores write errors, which are the client's.
func answer(w http.ResponseWriter, code int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(v)
}

// patience is how long a probe waits for Redis.
const patience = 2 * time.Second

func ready(w http.ResponseWriter, r *http.Request, e *engine.Engine) {
	ctx, cancel := context.WithTimeout(r.Context(), patience)
	defer cancel()
	state := within(ctx, redisState{reason: "Redis does not respond"}, func() redisState { return stateOf(ctx, e) })
	if state.reason == "" && len(e.Health()) == 0 {
		state.reason = "the services have not started"
	}
	if state.reason != "" {
		answer(w, http.StatusServiceUnavailable, map[string]string{"status": "not ready", "reason": state.reason})
		return
	}
	body := map[string]string{"status": "ready"}
	if state.limit != "" {
		body["reason"] = state.limit
	}
	answer(w, http.StatusOK, body)
}

// redisState says why Redis cannot be used, or only in part; both are "" if all of it can be used.
type redisState struct{ reason, limit string }

// stateOf asks Redis, or all masters of a cluster. A cluster can be used if one of them can.
func stateOf(ctx context.Context, e *engine.Engine) redisState {
	if !e.Store.Clustered() {
		return redisState{reason: readOnly(ctx, e)}
	}
	asking, cancel := context.WithTimeout(ctx, patience/2)
	defer cancel()
	switch writable, all, err := store.WritableMasters(asking, e.Store); {
	case err != nil:
		return redisState{reason: public("Redis", err)}
	case writable == 0:
		return redisState{reason: fmt.Sprintf("none of the %d masters of the Redis Cluster answers and accepts writes", all)}
	case writable < all:
		return redisState{limit: fmt.Sprintf("only %d of %d masters of the Redis Cluster answer and accept writes: the tenants of the others wait", writable, all)}
	default:
		return redisState{}
	}
}

// readOnly returns why Redis does not respond or refuses writes, "" if it accepts them.
func readOnly(ctx context.Context, e *engine.Engine) string {
	reason, err := store.RefusedWrites(ctx, e.Store)
	switch {
	case err != nil:
		return public("Redis", err)
	case reason != "":
		return "Redis refuses writes: " + reason
	default:
		return ""
	}
}

// unreachable returns why Redis cannot be reached, or "" if it can. It returns when ctx ends.
func unreachable(ctx context.Context, e *engine.Engine) (reason string) {
	return within(ctx, "Redis does not respond", func() string {
		if _, err := e.Store.Now(ctx); err != nil {
			return public("Redis", err)
		}
		return ""
	})
}

// within returns the result of ask, or late if ctx ends first: a connection may hang for longer.
func within[T any](ctx context.Context, late T, ask func() T) T {
	answered := make(chan T, 1)
	go func() { answered <- ask() }()
	select {
	case state := <-answered:
		return state
	case <-ctx.Done():
		return late
	}
}

// public returns the message of an error of a server, without its address, which clients must not see.
func public(server string, err error) string {
	if dns, ok := errors.AsType[*net.DNSError](err); ok {
		return server + ": the host name cannot be resolved: " + dns.Err
	}
	if op, ok := errors.AsType[*net.OpError](err); ok {
		return server + ": " + op.Op + ": " + op.Err.Error()
	}
	return err.Error()
}

// WorkerHealth is the documented response of /api/health/worker.
type WorkerHealth struct {
	Status           engine.Status `json:"status"`
	WorkerCount      int           `json:"workerCount"`
	HealthyWorkers   int           `json:"healthyWorkers"`
	DegradedWorkers  int           `json:"degradedWorkers"`
	UnhealthyWorkers int           `json:"unhealthyWorkers"`
	EventsProcessed  int64         `json:"eventsProcessed"`
	EventsSucceeded  int64         `json:"eventsSucceeded"`
	EventsFailed     int64         `json:"eventsFailed"`
	ActiveEvents     int64         `json:"activeEvents"`
	Timestamp        string        `json:"timestamp"`
}

// workers assesses the workers of the process.
func (t *Telemetry) workers(e *engine.Engine) WorkerHealth {
	c := t.Counts("worker")
	found, _ := groups(e)
	all := found["worker"]
	if all == nil { // no workers in this process
		all = &serviceHealth{Status: engine.Healthy}
	}
	return WorkerHealth{
		Status: all.Status, WorkerCount: all.Instances,
		HealthyWorkers: all.Healthy, DegradedWorkers: all.Degraded, UnhealthyWorkers: all.Unhealthy,
		EventsProcessed: c.Processed(), EventsSucceeded: c.Succeeded, EventsFailed: c.Failed, ActiveEvents: c.Active,
		Timestamp: time.Now().UTC().Format("2006-01-02T15:04:05.000Z"),
	}
}

// overall returns the status of several instances: unhealthy if all are, degraded if some
// are not healthy.
func overall(healthy, degraded, unhealthy int) engine.Status {
	switch {
	case degraded+unhealthy == 0:
		return engine.Healthy
	case healthy+degraded > 0:
		return engine.Degraded
	default:
		return engine.Unhealthy
	}
}

func statusCode(s engine.Status) int {
	if s == engine.Unhealthy {
		return http.StatusServiceUnavailable
	}
	return http.StatusOK
}

// serviceHealth is the health of one service's instances.
type serviceHealth struct {
	Status    engine.Status `json:"status"`
	Instances int           `json:"instances"`
	Healthy   int           `json:"healthy"`
	Degraded  int           `json:"degraded"`
	Unhealthy int           `json:"unhealthy"`
	LastError string        `json:"lastError,omitempty"`
}

// groups returns the health of each service of a process, and of all together.
func groups(e *engine.Engine) (found map[string]*serviceHealth, total serviceHealth) {
	found, total.Status = map[string]*serviceHealth{}, engine.Unhealthy // until a service has started
	for _, s := range e.Health() {
		h := found[s.Kind]
		if h == nil {
			h = &serviceHealth{}
			found[s.Kind] = h
		}
		h.add(s)
		total.add(s)
	}
	return found, total
}

// add adds an instance.
func (h *serviceHealth) add(s engine.Health) {
	h.Instances++
	switch s.Status {
	case engine.Healthy:
		h.Healthy++
	case engine.Degraded:
		h.Degraded++
	case engine.Unhealthy:
		h.Unhealthy++
	}
	h.Status = overall(h.Healthy, h.Degraded, h.Unhealthy)
	if s.Err != nil {
		server := "a broker"
		if store.Temporary(s.Err) {
			server = "Redis"
		}
		h.LastError = public(server, s.Err)
	}
}

// health reports the health of all services of the process.
func (t *Telemetry) health(w http.ResponseWriter, r *http.Request, e *engine.Engine) {
	found, total := groups(e)
	status := total.Status
	ctx, cancel := context.WithTimeout(r.Context(), patience)
	defer cancel()
	redis := "reachable"
	if reason := unreachable(ctx, e); reason != "" {
		redis, status = reason, engine.Unhealthy
	}
	answer(w, statusCode(status), map[string]any{
		"status": status, "services": found, "redis": redis, "breakers": e.Breakers().States(),
		"timestamp": time.Now().UTC().Format(time.RFC3339Nano),
	})
}
