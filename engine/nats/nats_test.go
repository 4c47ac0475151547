package nats_test

import (
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	client "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"flunq.io/flunq/engine/bridge"
	"flunq.io/flunq/engine/bridge/bridgetest"
	"flunq.io/flunq/engine/cloudevents"
	"flunq.io/flunq/engine/nats"
)

// serve starts a server with JetStream.
func serve(t *testing.T, o *server.Options) *server.Server {
	t.Helper()
	o.Host, o.JetStream, o.NoLog, o.NoSigs = "127.0.0.1", true, true, true
	s, err := server.NewServer(o)
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() {
		s.Shutdown()
		s.WaitForShutdown()
	})
	if !s.ReadyForConnections(time.Minute) {
		t.Fatal("the server is not ready")
	}
	return s
}

func options(url string) nats.Options {
	o := nats.Defaults()
	o.URL, o.Create, o.Wait = url, true, 100*time.Millisecond
	return o
}

func connect(t *testing.T, o nats.Options) *nats.Client {
	t.Helper()
	c, err := nats.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func TestBridge(t *testing.T) {
	t.Parallel()
	bridgetest.Run(t, func(t *testing.T) bridgetest.Environment {
		t.Helper()
		s := serve(t, &server.Options{Port: -1, StoreDir: t.TempDir(), MaxPayload: 20_000})
		conn, err := client.Connect(s.ClientURL())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(conn.Close)
		js, err := jetstream.New(conn)
		if err != nil {
			t.Fatal(err)
		}
		o := options(s.ClientURL())
		if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: o.Stream, Subjects: []string{nats.Subjects}}); err != nil {
			t.Fatal(err)
		}
		return bridgetest.Environment{
			Connect: func() (bridge.Sink, bridge.Source) { return connect(t, o), connect(t, o) },
			Put: func(subject string, m cloudevents.Message) {
				msg := &client.Msg{Subject: subject, Data: m.Value, Header: client.Header{}}
				for _, h := range m.Headers {
					msg.Header[h.Name] = append(msg.Header[h.Name], h.Value)
				}
				if _, err := js.PublishMsg(t.Context(), msg); err != nil {
					t.Error(err)
				}
			},
			Records: func(topic string, n int) []cloudevents.Message { return records(t, js, o.Stream, topic+".>", n) },
			Prefix:  cloudevents.NATSPrefix, Out: "flunq.acme.events", TooLarge: 30_000,
			In: "flunq.acme.in.shop", Reads: "flunq.acme.in.>", Secure: "flunq.acme.secure.results", Trusts: "flunq.acme.secure.>",
		}
	})
}

// records returns the messages of a subject once there are n.
func records(t *testing.T, js jetstream.JetStream, stream, subject string, n int) (out []cloudevents.Message) {
	t.Helper()
	consumer, err := js.OrderedConsumer(t.Context(), stream, jetstream.OrderedConsumerConfig{FilterSubjects: []string{subject}})
	if err != nil {
		t.Fatal(err)
	}
	for {
		batch, err := consumer.Fetch(500, jetstream.FetchMaxWait(500*time.Millisecond))
		if err != nil {
			t.Fatal(err)
		}
		before := len(out)
		for msg := range batch.Messages() {
			m := cloudevents.Message{Topic: subject, Value: msg.Data()}
			for name, values := range msg.Headers() {
				m.Headers = append(m.Headers, cloudevents.Header{Name: name, Value: strings.Join(values, " ")})
			}
			m.Key = []byte(m.Header(cloudevents.NATSPrefix + "executionid"))
			if len(m.Key) == 0 {
				m.Key = []byte(m.Header(cloudevents.NATSPrefix + "id"))
			}
			if want := "flunq.acme.events." + m.Header(cloudevents.NATSPrefix+"type"); msg.Subject() != want {
				t.Errorf("subject %s, want %s", msg.Subject(), want)
			}
			out = append(out, m)
		}
		if len(out) == before && len(out) >= n {
			return out
		}
	}
}

// The server drops a message that it gets twice.
func TestDoubles(t *testing.T) {
	t.Parallel()
	s := serve(t, &server.Options{Port: -1, StoreDir: t.TempDir()})
	c := connect(t, options(s.ClientURL()))
	m := cloudevents.Message{Topic: "flunq.acme.events", Type: "com.example.a b.*", ID: "acme/1-1", Value: []byte("1")}
	for range 3 {
		if err := c.Publish(t.Context(), []cloudevents.Message{m})[0]; err != nil {
			t.Fatal(err)
		}
	}
	state, err := nats.Look(t.Context(), options(s.ClientURL()))
	if err != nil || state.Messages != 1 {
		t.Errorf("%+v, %v, want one message", state, err)
	}
}

// A stream that was deleted and created again is read from its beginning, and a server that
// restarts is read on.
func TestStreamIsCreatedAgain(t *testing.T) {
	t.Parallel()
	o := &server.Options{Port: -1, StoreDir: t.TempDir()}
	s := serve(t, o)
	conn, err := client.Connect(s.ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	c := connect(t, options(s.ClientURL()))
	positions := map[string]cloudevents.Position{}
	next := func() string {
		t.Helper()
		for end := time.Now().Add(time.Minute); time.Now().Before(end); {
			messages, err := c.Fetch(t.Context(), []string{"flunq.acme.in.>"}, func(p string) (cloudevents.Position, bool) {
				at, known := positions[p]
				return at, known
			})
			if err != nil || len(messages) == 0 {
				continue
			}
			m := messages[len(messages)-1]
			positions[m.PartitionName()] = cloudevents.Position{Log: m.Log, Offset: m.Offset}
			return string(m.Value)
		}
		t.Fatal("no message arrives")
		return ""
	}
	if _, err := c.Fetch(t.Context(), []string{"flunq.acme.in.>"}, func(string) (cloudevents.Position, bool) { return cloudevents.Position{}, false }); err != nil {
		t.Fatal(err)
	}
	put := func(value string) {
		if _, err := js.Publish(t.Context(), "flunq.acme.in.a", []byte(value)); err != nil {
			t.Fatal(err)
		}
	}
	put("1")
	put("2")
	for next() != "2" {
	}
	if err := js.DeleteStream(t.Context(), "FLUNQ"); err != nil {
		t.Fatal(err)
	}
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "FLUNQ", Subjects: []string{nats.Subjects}}); err != nil {
		t.Fatal(err)
	}
	put("3")
	if got := next(); got != "3" {
		t.Errorf("got %s from the new stream, want 3", got)
	}
}

// Every bad option is reported.
func TestOptions(t *testing.T) {
	t.Parallel()
	err := nats.Options{URL: "localhost:4222", Stream: "a.b", Creds: "/no/such/file"}.Check()
	for _, want := range []string{"NATS_URL", "NATS_STREAM", "NATS_CREDS", "time-out", "wait"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not name %s", err, want)
		}
	}
	missing := nats.Defaults()
	missing.URL = serve(t, &server.Options{Port: -1, StoreDir: t.TempDir()}).ClientURL()
	if _, err := nats.Look(t.Context(), missing); err == nil || !strings.Contains(err.Error(), "stream add FLUNQ") {
		t.Errorf("%v does not say how to create the stream", err)
	}
}
