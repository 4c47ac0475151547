package executor_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/executor"
	"flunq.io/flunq/engine/executor/breaker"
	"flunq.io/flunq/engine/executor/call"
	httpcall "flunq.io/flunq/engine/executor/http"
)

// guard returns a caller whose breakers open for 10 s after two failures.
func guard(t *testing.T, environment http.RoundTripper) *executor.Caller {
	t.Helper()
	opts := breaker.Options{Failures: 2, Open: 10 * time.Second}
	breakers, err := breaker.New(opts)
	if err != nil {
		t.Fatal(err)
	}
	return &executor.Caller{HTTP: &httpcall.Caller{Transport: environment, Breakers: breakers}}
}

// moment returns the time seconds after the start.
func moment(seconds int) time.Time {
	return time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(seconds) * time.Second)
}

func callAt(ctx context.Context, c *executor.Caller, task *dsl.Task, second int) error {
	_, err := output(ctx, c, task, scope(nil), call.Origin{Now: moment(second)})
	return err
}

func TestBreakerOpensForAFailingHost(t *testing.T) {
	t.Parallel()
	var calls atomic.Int32
	var status atomic.Int32
	status.Store(503)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		calls.Add(1)
		w.Header().Set("Retry-After", "25")
		w.WriteHeader(int(status.Load()))
	}))
	defer server.Close()
	c := guard(t, httpcall.NewTransport(httpcall.AnyNetwork))
	task := request{Endpoint: server.URL + "/x?token=1"}.task(t)
	for range 2 {
		wantProblem(t, callAt(t.Context(), c, task, 0), event.Communication, 503, "answered 503")
	}
	host := strings.TrimPrefix(server.URL, "http://")
	err := callAt(t.Context(), c, task, 24)
	wantProblem(t, err, event.Communication, 503, "GET "+server.URL+"/x: not sent, because the circuit breaker of "+host+
		" is open: consecutive failures: 2, the last: answered 503 Service Unavailable; the host is tried again at 2026-01-01T00:00:25Z")
	if got := calls.Load(); got != 2 {
		t.Errorf("the server got %d calls, want 2", got)
	}
	status.Store(200)
	for range 2 {
		if err := callAt(t.Context(), c, task, 25); err != nil {
			t.Error(err)
		}
	}
}

func TestWhatIsAFailureOfAHost(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name        string
		environment answers
		want        int // consecutive failures after one call
	}{
		{name: "success", environment: status(200)},
		{name: "no content", environment: status(204)},
		{name: "not found", environment: status(404)},
		{name: "a redirect that is not followed", environment: status(301)},
		{name: "too many requests", environment: status(429), want: 1},
		{name: "server error", environment: status(500), want: 1},
		{name: "unavailable", environment: status(503), want: 1},
		{name: "no response", environment: func(*http.Request) (*http.Response, error) { return nil, io.ErrUnexpectedEOF }, want: 1},
		{name: "no end of a response", environment: func(*http.Request) (*http.Response, error) {
			res := respond(200, "text/plain", "")
			res.Body = io.NopCloser(io.MultiReader(strings.NewReader("begun"), broken{}))
			return res, nil
		}, want: 1},
		{name: "a response without a body", environment: func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}}, nil
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := guard(t, tt.environment)
			_ = callAt(t.Context(), c, request{Endpoint: "https://A.test/"}.task(t), 0)
			states := c.HTTP.Breakers.States()
			switch {
			case tt.want == 0 && len(states) == 0:
			case len(states) != 1 || states[0].Host != "a.test:443" || states[0].Failures != tt.want:
				t.Errorf("states %v, want %d failures of a.test:443", states, tt.want)
			}
		})
	}
}

func status(code int) answers {
	return func(*http.Request) (*http.Response, error) { return respond(code, "text/plain", "x"), nil }
}

func TestForbiddenAddressIsNoFailureOfItsHost(t *testing.T) {
	t.Parallel()
	c := guard(t, httpcall.NewTransport(httpcall.PublicNetwork))
	for range 3 {
		err := callAt(t.Context(), c, request{Endpoint: "http://127.0.0.1:1/"}.task(t), 0)
		wantProblem(t, err, event.Configuration, 400, "this machine itself")
	}
}

// A probe whose task is lost, or that panics, frees its slot.
func TestProbeThatIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	var environment answers
	c := guard(t, answers(func(req *http.Request) (*http.Response, error) { return environment(req) }))
	task := request{Endpoint: "https://a.test/"}.task(t)
	environment = status(500)
	for range 2 {
		_ = callAt(t.Context(), c, task, 0)
	}
	ctx, cancel := context.WithCancel(t.Context())
	environment = func(req *http.Request) (*http.Response, error) {
		cancel()
		return nil, req.Context().Err()
	}
	if err := callAt(ctx, c, task, 10); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want context.Canceled", err)
	}
	func() {
		defer func() { _ = recover() }()
		environment = func(*http.Request) (*http.Response, error) { panic("oh") }
		_ = callAt(t.Context(), c, task, 11)
	}()
	environment = status(200)
	if err := callAt(t.Context(), c, task, 12); err != nil {
		t.Error(err)
	}
}

// Each hop of a redirect counts for its own host.
func TestBreakersOfRedirects(t *testing.T) {
	t.Parallel()
	calls := map[string]int{}
	c := guard(t, answers(func(req *http.Request) (*http.Response, error) {
		calls[req.URL.Host]++
		if req.URL.Host == "b.test" {
			return respond(502, "", ""), nil
		}
		res := respond(307, "", "")
		res.Header.Set("Location", "https://b.test/")
		return res, nil
	}))
	task := request{Endpoint: "https://a.test/", Redirect: true}.task(t)
	for range 2 {
		wantProblem(t, callAt(t.Context(), c, task, 0), event.Communication, 502, "502")
	}
	wantProblem(t, callAt(t.Context(), c, task, 1), event.Communication, 503, "breaker of b.test:443")
	if calls["a.test"] != 3 || calls["b.test"] != 2 {
		t.Errorf("calls %v, want 3 to a.test and 2 to b.test", calls)
	}
}

// The state of a host reveals no workflow's secrets to others.
func TestBreakersTellNoSecret(t *testing.T) {
	t.Parallel()
	c := guard(t, answers(func(req *http.Request) (*http.Response, error) {
		return nil, errors.New("no way to " + req.URL.Host + " with " + req.Header.Get("X-Key"))
	}))
	leaky := request{Endpoint: "https://a.test/", Headers: map[string]any{"X-Key": "${ $secrets.token.token }"}}.task(t)
	for range 2 {
		_ = callAt(t.Context(), c, leaky, 0)
	}
	err := callAt(t.Context(), c, request{Endpoint: "https://a.test/"}.task(t), 1)
	wantProblem(t, err, event.Communication, 503, "no way to a.test with ***;")

	redacted := request{Endpoint: `${ "https://" + $secrets.token.token + ".test/" }`}.task(t)
	for range 2 {
		_ = callAt(t.Context(), c, redacted, 1)
	}
	wantProblem(t, callAt(t.Context(), c, redacted, 2), event.Communication, 503, "breaker of ***.test:443 is open")
	if states := c.HTTP.Breakers.States(); len(states) != 1 {
		t.Errorf("states %v, want that of a.test alone", states)
	}
}

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	tests := []struct {
		status            int
		retryAfter, date  string
		wantSecondsOfOpen int
	}{
		{503, "20", "", 20},
		{429, " 20 ", "", 20},
		{500, "20", "", 10},
		{503, "1", "", 10},
		{503, "-5", "", 10},
		{503, "99999999999999999999", "", 10},
		{503, "999999999", "", 300},
		{503, "soon", "", 10},
		{503, moment(30).Format(http.TimeFormat), "", 30},
		{503, moment(1030).Format(http.TimeFormat), moment(1000).Format(http.TimeFormat), 30},
		{503, moment(5).Format(http.TimeFormat), moment(1000).Format(http.TimeFormat), 10},
	}
	for i, tt := range tests {
		t.Run(strconv.Itoa(i), func(t *testing.T) {
			t.Parallel()
			c := guard(t, answers(func(*http.Request) (*http.Response, error) {
				res := respond(tt.status, "", "")
				res.Header.Set("Retry-After", tt.retryAfter)
				if tt.date != "" {
					res.Header.Set("Date", tt.date)
				}
				return res, nil
			}))
			for range 2 {
				_ = callAt(t.Context(), c, request{Endpoint: "https://a.test/"}.task(t), 0)
			}
			if got := c.HTTP.Breakers.States()[0].Until; !got.Equal(moment(tt.wantSecondsOfOpen)) {
				t.Errorf("open until %v, want %v", got, moment(tt.wantSecondsOfOpen))
			}
		})
	}
}
