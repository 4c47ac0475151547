package dynamo_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"flunq.io/flunq/engine/dynamo"
	"flunq.io/flunq/engine/dynamo/dynamotest"
	"flunq.io/flunq/engine/schedule"
)

// between starts a server that the requests to an emulator pass through.
func between(t *testing.T, opts *dynamo.Options, handle func(w http.ResponseWriter, r *http.Request, pass http.Handler)) {
	t.Helper()
	target, err := url.Parse(opts.Endpoint)
	if err != nil {
		t.Fatal(err)
	}
	pass := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		r.Out.Host = r.In.Host
	}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { handle(w, r, pass) }))
	t.Cleanup(server.Close)
	opts.Endpoint = server.URL
}

// isWrite reports whether a request is one of those that store an event.
func isWrite(r *http.Request) bool {
	target := r.Header.Get("X-Amz-Target")
	return strings.HasSuffix(target, ".PutItem") || strings.HasSuffix(target, ".UpdateItem")
}

func someEvent(id string) schedule.Event {
	return schedule.Event{
		Content: schedule.Content{Due: noon(), Topic: "orders", Payload: []byte("{}")},
		ID:      id, Status: schedule.Scheduled, Version: 1, Next: noon(), Created: noon(), Updated: noon(),
	}
}

// A write whose reply is lost is not repeated by the SDK. A caller that repeats it finds it done.
func TestLostReply(t *testing.T) {
	t.Parallel()
	opts := dynamotest.Options(dynamotest.Dynalite(t))
	table := dynamotest.Init(t, opts)
	var writes atomic.Int64
	lossy := opts
	between(t, &lossy, func(w http.ResponseWriter, r *http.Request, pass http.Handler) {
		pass.ServeHTTP(httptest.NewRecorder(), r)
		if isWrite(r) {
			writes.Add(1)
		}
		panic(http.ErrAbortHandler) // closes the connection
	})
	broken, err := dynamo.New(t.Context(), lossy)
	if err != nil {
		t.Fatal(err)
	}
	e := someEvent(firstID)
	if _, err := broken.Put(t.Context(), []schedule.Event{e}); err == nil {
		t.Error("a Put whose reply was lost is no error")
	}
	placed, err := table.Put(t.Context(), []schedule.Event{e})
	if err != nil || placed[0].Created || !placed[0].Event.Equal(e.Content) {
		t.Errorf("the repeated Put returns %+v, %v: want the event of the first", placed, err)
	}
	claimed, err := broken.Claim(t.Context(), []string{firstID}, "p", noon(), noon().Add(time.Minute))
	if err == nil || len(claimed) != 1 || claimed[0] != nil {
		t.Errorf("a Claim whose reply was lost returns %v, %v", claimed, err)
	}
	took, err := broken.Settle(t.Context(), []schedule.Settled{{ID: firstID, Version: 2, Status: schedule.Fired, Attempts: 1}}, noon())
	if err == nil || took[0] {
		t.Errorf("a Settle whose reply was lost returns %v, %v", took, err)
	}
	found, err := table.Get(t.Context(), []string{firstID})
	if err != nil || found[0].Status != schedule.Fired || found[0].Version != 3 {
		t.Errorf("the event is %+v, %v: want it FIRED with version 3", found[0], err)
	}
	if n := writes.Load(); n != 3 {
		t.Errorf("%d writes were sent, want 3", n)
	}
}

// A read whose reply is lost is repeated.
func TestLostRead(t *testing.T) {
	t.Parallel()
	opts := dynamotest.Options(dynamotest.Dynalite(t))
	table := dynamotest.Init(t, opts)
	if _, err := table.Put(t.Context(), []schedule.Event{someEvent(firstID)}); err != nil {
		t.Fatal(err)
	}
	var requests atomic.Int64
	between(t, &opts, func(w http.ResponseWriter, r *http.Request, pass http.Handler) {
		if requests.Add(1)%2 == 1 {
			panic(http.ErrAbortHandler) // closes the connection
		}
		pass.ServeHTTP(w, r)
	})
	lossy, err := dynamo.New(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	if found, err := lossy.Get(t.Context(), []string{firstID}); err != nil || found[0] == nil {
		t.Errorf("Get returns %v, %v", found, err)
	}
	if page, _, err := lossy.List(t.Context(), schedule.Filter{Limit: 10}); err != nil || len(page) != 1 {
		t.Errorf("List returns %v, %v", page, err)
	}
	if n := requests.Load(); n != 4 {
		t.Errorf("%d requests were sent, want 4", n)
	}
}

// A throttled request is retried.
func TestThrottled(t *testing.T) {
	t.Parallel()
	opts := dynamotest.Options(dynamotest.Dynalite(t))
	dynamotest.Init(t, opts)
	var requests atomic.Int64
	between(t, &opts, func(w http.ResponseWriter, r *http.Request, pass http.Handler) {
		if requests.Add(1)%3 != 0 {
			w.Header().Set("Content-Type", "application/x-amz-json-1.0")
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, `{"__type":"com.amazonaws.dynamodb.v20120810#ProvisionedThroughputExceededException","message":"slow down"}`)
			return
		}
		pass.ServeHTTP(w, r)
	})
	table, err := dynamo.New(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	placed, err := table.Put(t.Context(), []schedule.Event{someEvent(firstID)})
	if err != nil || !placed[0].Created {
		t.Errorf("Put returns %+v, %v", placed, err)
	}
}

// If the caller's time ends while the SDK waits before it repeats a throttled request, the error says so.
func TestThrottledTooLong(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/x-amz-json-1.0")
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, `{"__type":"com.amazonaws.dynamodb.v20120810#ThrottlingException","message":"slow down"}`)
	}))
	defer server.Close()
	opts := dynamo.Defaults()
	opts.Endpoint = server.URL
	table, err := dynamo.New(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	for what, call := range map[string]func(context.Context) error{
		"Get": func(ctx context.Context) error { _, err := table.Get(ctx, []string{firstID}); return err },
		"Put": func(ctx context.Context) error {
			_, err := table.Put(ctx, []schedule.Event{someEvent(firstID)})
			return err
		},
	} {
		said := false
		for range 20 { // the pauses are random, and all of them may be short
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			err := call(ctx)
			cancel()
			if errors.Is(err, context.DeadlineExceeded) && strings.Contains(err.Error(), "throttles requests, or fails") {
				said = true
				break
			}
		}
		if !said {
			t.Errorf("%s: no error says that requests are throttled", what)
		}
	}
}

// The outcomes of publications are recorded despite throttling, and if those of others cannot be recorded.
func TestSettleDespiteFailures(t *testing.T) {
	t.Parallel()
	opts := dynamotest.Options(dynamotest.Dynalite(t))
	table := dynamotest.Init(t, opts)
	ids := []string{firstID, secondID}
	if _, err := table.Put(t.Context(), []schedule.Event{someEvent(ids[0]), someEvent(ids[1])}); err != nil {
		t.Fatal(err)
	}
	if _, err := table.Claim(t.Context(), ids, "p", noon(), noon().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	throttled := 0
	between(t, &opts, func(w http.ResponseWriter, r *http.Request, pass http.Handler) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		answer := ""
		if bytes.Contains(body, []byte(firstID)) {
			answer = "InternalServerError"
		} else if throttled++; throttled <= 4 {
			answer = "ThrottlingException"
		}
		if answer == "" {
			pass.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/x-amz-json-1.0")
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, `{"__type":"`+answer+`","message":"oops"}`)
	})
	opts.Parallel = 1
	broken, err := dynamo.New(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	ends := []schedule.Settled{{ID: ids[0], Version: 2, Status: schedule.Fired, Attempts: 1}, {ID: ids[1], Version: 2, Status: schedule.Fired, Attempts: 1}}
	if took, err := broken.Settle(t.Context(), ends, noon()); err == nil || took[0] || !took[1] {
		t.Errorf("Settle returns %v, %v: want an error for the first, and the second recorded", took, err)
	}
}

// Whatever DynamoDB answers, the error names the operation, the table and the cause.
func TestErrors(t *testing.T) {
	t.Parallel()
	answer := func(status int, body string) string {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/x-amz-json-1.0")
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body)
		}))
		t.Cleanup(server.Close)
		return server.URL
	}
	closed := httptest.NewServer(http.NotFoundHandler())
	closed.Close()
	hang := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // otherwise the server does not notice that the client has gone
		<-r.Context().Done()
	}))
	t.Cleanup(hang.Close)
	for name, test := range map[string]struct{ endpoint, want string }{
		"away":    {closed.URL, "connection refused"},
		"silent":  {hang.URL, "no answer in time: "},
		"denied":  {answer(http.StatusBadRequest, `{"__type":"AccessDeniedException","message":"no dynamodb:GetItem"}`), "AccessDeniedException: no dynamodb:GetItem"},
		"broken":  {answer(http.StatusInternalServerError, `{"__type":"InternalServerError","message":"oops"}`), "InternalServerError: oops"},
		"foreign": {answer(http.StatusOK, "<html>"), "does not respond like DynamoDB"},
		"gateway": {answer(http.StatusBadGateway, "<html>"), "does not respond like DynamoDB"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			opts := dynamo.Defaults()
			opts.Endpoint = test.endpoint
			if name == "silent" {
				opts.Timeout = 100 * time.Millisecond
			}
			table, err := dynamo.New(t.Context(), opts)
			if err != nil {
				t.Fatal(err)
			}
			_, err = table.Get(t.Context(), []string{firstID})
			if err == nil || !strings.Contains(err.Error(), test.want) || !strings.HasPrefix(err.Error(), "read event "+firstID) || !strings.Contains(err.Error(), test.endpoint) {
				t.Errorf("the error is %v, want it to say %q", err, test.want)
			}
		})
	}
}

// Invalid options are rejected before anything is sent.
func TestOptions(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*dynamo.Options){
		"want a name":     func(o *dynamo.Options) { o.Table = "" },
		"positive":        func(o *dynamo.Options) { o.Parallel = 0 },
		`"localhost:1"`:   func(o *dynamo.Options) { o.Endpoint = "localhost:1" },
		`"ftp://x"`:       func(o *dynamo.Options) { o.Endpoint = "ftp://x" },
		"positive number": func(o *dynamo.Options) { o.Retention = -time.Hour },
	} {
		opts := dynamo.Defaults()
		change(&opts)
		if _, err := dynamo.New(t.Context(), opts); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("the error is %v, want it to say %s", err, name)
		}
	}
}

// Requests to an emulator use dummy credentials, or those of the environment.
func TestCredentials(t *testing.T) {
	empty := t.TempDir() + "/none"
	for _, name := range []string{"AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"} {
		t.Setenv(name, empty)
	}
	for _, name := range []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE", "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_SESSION_TOKEN", "AWS_CONTAINER_CREDENTIALS_FULL_URI", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "AWS_WEB_IDENTITY_TOKEN_FILE"} {
		t.Setenv(name, "")
	}
	asked := make(chan string, 1)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { asked <- r.Header.Get("Authorization") }))
	t.Cleanup(server.Close)
	signature := func(region string) string {
		t.Helper()
		opts := dynamo.Defaults()
		opts.Endpoint, opts.Region = server.URL, region
		table, err := dynamo.New(t.Context(), opts)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, _ = table.Get(ctx, []string{firstID}) // the empty answer is no answer
		return <-asked
	}
	if got := signature(""); !strings.Contains(got, "Credential=dummy/") || !strings.Contains(got, "/us-east-1/") {
		t.Errorf("the signature is %q, want credentials dummy, region us-east-1", got)
	}
	t.Setenv("AWS_ACCESS_KEY_ID", "someone")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	t.Setenv("AWS_REGION", "eu-north-1")
	if got := signature(""); !strings.Contains(got, "Credential=someone/") || !strings.Contains(got, "/eu-north-1/") {
		t.Errorf("the signature is %q, want credentials someone, region eu-north-1", got)
	}
	if got := signature("eu-west-3"); !strings.Contains(got, "/eu-west-3/") {
		t.Errorf("the signature is %q, want region eu-west-3", got)
	}
}
