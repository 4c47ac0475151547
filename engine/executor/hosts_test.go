package executor_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/executor"
	"flunq.io/flunq/engine/executor/call"
	httpcall "flunq.io/flunq/engine/executor/http"
)

// patience is how long a test waits for an event that must come.
const patience = 2 * time.Minute

// await receives a value that must come.
func await[T any](t *testing.T, from <-chan T, what string) (got T) {
	t.Helper()
	select {
	case got = <-from:
	case <-time.After(patience):
		t.Fatalf("no %s", what)
	}
	return got
}

// ask sends a request and leaves its response open, if it has a body.
func ask(ctx context.Context, t *testing.T, way http.RoundTripper, uri string) (open io.Closer, err error) {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, uri, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	res, err := way.RoundTrip(req)
	if err != nil || res.Body == nil {
		return nil, err
	}
	return res.Body, nil
}

func TestLimitHosts(t *testing.T) {
	t.Parallel()
	const limit, calls = 2, 6
	arrived, release := make(chan struct{}, calls), make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		arrived <- struct{}{}
		<-release
	}))
	defer server.Close()
	way := httpcall.LimitHosts(httpcall.NewTransport(httpcall.AnyNetwork), limit)
	c := &executor.Caller{HTTP: &httpcall.Caller{Transport: way}}
	task := request{Endpoint: server.URL}.task(t)
	ended := make(chan error, calls)
	for range calls {
		go func() {
			_, err := output(t.Context(), c, task, scope(nil), call.Origin{})
			ended <- err
		}()
	}
	for range calls / limit {
		for range limit {
			await(t, arrived, "call")
		}
		select {
		case <-arrived:
			t.Fatalf("more than %d concurrent calls", limit)
		default:
		}
		for range limit {
			release <- struct{}{}
		}
		for range limit {
			if err := await(t, ended, "end of a call"); err != nil {
				t.Error(err)
			}
		}
	}
}

// A slot is taken until the response is closed, once; other hosts have their own slots.
func TestLimitHostsUntilTheAnswerIsClosed(t *testing.T) {
	t.Parallel()
	way := httpcall.LimitHosts(answers(func(req *http.Request) (*http.Response, error) {
		switch req.URL.Path {
		case "/fails":
			return nil, io.ErrUnexpectedEOF
		case "/empty":
			return &http.Response{StatusCode: http.StatusNoContent}, nil
		}
		return respond(200, "", "x"), nil
	}), 1)
	for _, uri := range []string{"https://a.test/fails", "https://a.test/empty"} {
		if open, _ := ask(t.Context(), t, way, uri); open != nil {
			t.Errorf("%s has a body", uri)
		}
	}
	first, err := ask(t.Context(), t, way, "https://a.test/")
	if err != nil {
		t.Fatal(err)
	}
	other, err := ask(t.Context(), t, way, "https://b.test/")
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()

	next := make(chan io.Closer)
	go func() {
		open, err := ask(t.Context(), t, way, "https://A.test:443/")
		if err != nil {
			t.Error(err)
		}
		next <- open
	}()
	select {
	case <-next:
		t.Error("a second call began before the response to the first was closed")
	default:
	}
	_ = first.Close()
	_ = first.Close()
	second := await(t, next, "second call")

	late, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := ask(late, t, way, "https://a.test/"); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want context.Canceled: closing twice frees one slot", err)
	}
	_ = second.Close()
}

// A request that waits for a slot ends with its context, which is no failure of its host.
func TestLimitHostsEndsWithTheContext(t *testing.T) {
	t.Parallel()
	way := httpcall.LimitHosts(status(200), 1)
	open, err := ask(t.Context(), t, way, "https://a.test/")
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	c := guard(t, way)
	task := request{Endpoint: "https://a.test/"}.task(t)

	stopped, cancel := context.WithCancelCause(t.Context())
	lost := errors.New("lost")
	time.AfterFunc(10*time.Millisecond, func() { cancel(lost) })
	if err := callAt(stopped, c, task, 0); !errors.Is(err, lost) {
		t.Errorf("error %v, want the cause of the context's end", err)
	}
	late, done := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer done()
	err = callAt(late, c, task, 0)
	wantProblem(t, err, event.Communication, 500, "waiting for a free slot among the calls to a.test:443, which has 1 under way (limit EXECUTOR_HOST_CONCURRENCY)")
	if states := c.HTTP.Breakers.States(); len(states) != 0 {
		t.Errorf("states %v, want none", states)
	}
	if _, made, _ := c.Call(late, task, scope(nil), call.Origin{}, c.Memory.Reserve("")); made != nil {
		t.Errorf("made %v, want none: it was not sent", made)
	}
}

func TestLimitHostsIsOff(t *testing.T) {
	t.Parallel()
	environment, _ := recorder(200, "", "")
	for range 3 {
		if _, err := ask(t.Context(), t, httpcall.LimitHosts(environment, 0), "https://a.test/"); err != nil {
			t.Fatal(err)
		}
	}
}

// A call whose task is lost ends immediately with the cause of its context, before the response or in
// the middle of it.
func TestCallUnderWayEndsWithItsContext(t *testing.T) {
	t.Parallel()
	lost := errors.New("the request is another's")
	for _, path := range []string{"/silent", "/begun"} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			arrived, release := make(chan struct{}, 1), make(chan struct{})
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/begun" {
					_, _ = w.Write([]byte("begun"))
					_ = http.NewResponseController(w).Flush()
				}
				arrived <- struct{}{}
				<-release
			}))
			defer server.Close()
			defer close(release)
			c := guard(t, httpcall.LimitHosts(httpcall.NewTransport(httpcall.AnyNetwork), 1))
			ctx, cancel := context.WithCancelCause(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- callAt(ctx, c, request{Endpoint: server.URL + path}.task(t), 0) }()
			await(t, arrived, "call")
			cancel(lost)
			err := await(t, ended, "end of the call")
			if problem := (*event.Problem)(nil); !errors.Is(err, lost) || errors.As(err, &problem) {
				t.Errorf("error %v, want the cause of the context's end, and no problem", err)
			}
			if states := c.HTTP.Breakers.States(); len(states) != 0 {
				t.Errorf("states %v, want none", states)
			}
		})
	}
}
