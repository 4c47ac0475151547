package cmd_test

import (
	"context"
	"crypto/tls"
	"encoding/pem"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"flunq.io/flunq/engine/store/redistest"
)

// bridged is an installation with a bridge.
type bridged struct {
	*testing.T

	env  map[string]string
	stop func() // ends the bridge
}

// bridge runs flunq serve with a bridge.
func bridge(t *testing.T, only string, env map[string]string) *bridged {
	t.Helper()
	env["REDIS_URL"], env["HOME"], env["HTTP_ADDRESS"] = "redis://"+redistest.Serve(t).Addr(), t.TempDir(), redistest.FreeAddr(t)
	ctx, cancel := context.WithCancel(t.Context())
	var serving sync.WaitGroup
	serving.Go(func() {
		if out, errs, code := flunqWith(ctx, env, "serve", "--only", only); code != 0 {
			t.Errorf("serve: %d\n%s%s", code, out, errs)
		}
	})
	b := &bridged{t, env, func() { cancel(); serving.Wait() }}
	t.Cleanup(b.stop)
	b.until("flunq is ready", func() string {
		out, errs, code := b.flunq("health")
		if code == 0 {
			return ""
		}
		return out + errs
	})
	return b
}

func (b *bridged) flunq(line string) (out, errs string, code int) {
	return flunqWith(b.Context(), b.env, strings.Fields(line)...)
}

// until repeats check until it returns "".
func (b *bridged) until(what string, left func() string) {
	b.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		still := left()
		if still == "" {
			return
		}
		if time.Now().After(deadline) {
			b.Fatalf("%s: not yet: %s", what, still)
		}
	}
}

// says checks that the output of a command contains some strings.
func (b *bridged) says(line string, wants ...string) {
	b.Helper()
	out, errs, _ := b.flunq(line)
	for _, want := range wants {
		if !strings.Contains(out, want) {
			b.Errorf("%s does not say %q:\n%s%s", line, want, out, errs)
		}
	}
}

// metrics returns the metrics of the bridge.
func (b *bridged) metrics() string {
	b.Helper()
	r, err := http.Get("http://" + b.env["HTTP_ADDRESS"] + "/metrics")
	if err != nil {
		return err.Error()
	}
	defer r.Body.Close()
	text, _ := io.ReadAll(r.Body)
	return string(text)
}

// A bridge to a Kafka with TLS and SASL publishes events and takes records in; doctor and the
// metrics show both.
func TestBridgeToKafka(t *testing.T) {
	t.Parallel()
	certified := httptest.NewTLSServer(nil)
	defer certified.Close()
	ca := written(t, "ca.pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certified.Certificate().Raw})))
	password := written(t, "password", "s3cret\n")
	cluster, err := kfake.NewCluster(
		kfake.NumBrokers(1), kfake.TLS(&tls.Config{Certificates: certified.TLS.Certificates, MinVersion: tls.VersionTLS12}),
		kfake.EnableSASL(), kfake.Superuser("SCRAM-SHA-256", "anna", "s3cret"), kfake.SeedTopics(1, "flunq.default.in"),
	)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	b := bridge(t, "worker,timer,bridge", map[string]string{
		"EVENT_STREAM_TYPE": "kafka", "KAFKA_BROKERS": cluster.ListenAddrs()[0], "KAFKA_TLS": "true", "KAFKA_TLS_CA": ca,
		"KAFKA_SASL": "scram-sha-256", "KAFKA_USERNAME": "anna", "KAFKA_PASSWORD_FILE": password,
		"KAFKA_CREATE_TOPICS": "true", "KAFKA_REPLICATION": "1", "KAFKA_MODE": "structured",
	})
	if _, errs, code := b.flunq("emit --type com.example.paid --data 7"); code != 0 {
		t.Fatal(errs)
	}
	client, err := kgo.NewClient(
		kgo.SeedBrokers(cluster.ListenAddrs()...), kgo.ConsumeTopics("flunq.default.events"), kgo.UnknownTopicRetries(-1),
		kgo.DialTLSConfig(certified.Client().Transport.(*http.Transport).TLSClientConfig),
		kgo.SASL(scram.Auth{User: "anna", Pass: "s3cret"}.AsSha256Mechanism()), kgo.MetadataMinAge(100*time.Millisecond), kgo.MetadataMaxAge(time.Second),
	)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	found := client.PollFetches(ctx).Records()
	if len(found) != 1 || !strings.Contains(string(found[0].Value), `"type":"com.example.paid"`) || !strings.Contains(string(found[0].Value), `"data":7`) {
		t.Fatalf("published %v", found)
	}
	if err := client.ProduceSync(ctx, &kgo.Record{Topic: "flunq.default.in", Value: []byte("hello")}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	b.until("the record is a dead letter", func() string {
		if out, _, _ := b.flunq("dlq ls"); !strings.Contains(out, "flunq.default.in/0/0: not a CloudEvent") {
			return out
		}
		return ""
	})
	for _, want := range []string{
		`bridge_published_total{tenant="default"} 1`, `bridge_received_total{result="rejected",topic="flunq.default.in"} 1`,
		`bridge_errors_total{class="rejected"} 1`, `bridge_feed_lag{partition="0",topic="flunq.default.in"} 0`, `bridge_lag{tenant="default"} 0`,
	} {
		b.until("the metrics have "+want, func() string {
			if metrics := b.metrics(); !strings.Contains(metrics, want+"\n") {
				return metrics
			}
			return ""
		})
	}
	b.says("doctor", "bridge for all tenants", "worker and timer run for tenant default; other programs perform its tasks", "0 entries behind", "1 broker; 0 records not yet taken in (KAFKA_LISTEN)")
	b.env["KAFKA_PASSWORD_FILE"] = written(t, "other", "wrong")
	b.says("doctor", "bad      kafka", "check KAFKA_BROKERS, KAFKA_TLS and KAFKA_SASL")
	b.env["KAFKA_SASL"] = "kerberos"
	if _, errs, code := b.flunq("serve --only bridge"); code == 0 || !strings.Contains(errs, "KAFKA_SASL") {
		t.Errorf("a wrong setting: %d %s", code, errs)
	}
	b.stop()
	for _, topic := range []string{"flunq.default.in", "flunq.default.in", "orders", "other"} {
		cluster.CreateTopic(topic, 1, nil)
		if err := client.ProduceSync(ctx, &kgo.Record{Topic: topic, Value: []byte("hello")}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	b.env["KAFKA_SASL"], b.env["KAFKA_PASSWORD_FILE"] = "scram-sha-256", password
	b.says("doctor", "2 records not yet taken in (KAFKA_LISTEN)")
	b.env["KAFKA_LISTEN"] = "flunq.{tenant}.in,orders" // the group has no offset of orders
	b.says("doctor", "3 records not yet taken in (KAFKA_LISTEN)")
	b.env["KAFKA_LISTEN"] = "orders"
	b.says("doctor", "1 record not yet taken in (KAFKA_LISTEN)")
	b.env["EVENT_STREAM_TYPE"], b.env["KAFKA_SASL"] = "redis", ""
	b.says("doctor", "no process runs the bridge that reads with bridge-kafka", "redis-cli XGROUP DESTROY tenant:default:events bridge-kafka")
}

// A bridge to NATS creates its stream; doctor reports its number of messages, or what is wrong.
func TestBridgeToNATS(t *testing.T) {
	t.Parallel()
	binary, err := exec.LookPath("nats-server")
	if err != nil {
		t.Skip("NATS NOT TESTED: no nats-server in the PATH (apt-get install nats-server)")
	}
	address := redistest.FreeAddr(t)
	host, port, _ := net.SplitHostPort(address)
	server := exec.CommandContext(t.Context(), binary, "-js", "-sd", t.TempDir(), "-a", host, "-p", port)
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = server.Wait() }()
	b := bridge(t, "bridge", map[string]string{
		"EVENT_STREAM_TYPE": "nats", "NATS_URL": "nats://anna:s3cret@" + address, "NATS_CREATE_STREAM": "true", "NATS_TRUSTED": "flunq.{tenant}.in.>",
	})
	conn, err := nats.Connect(address, nats.RetryOnFailedConnect(true))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	if _, errs, code := b.flunq("emit --type com.example.paid --data 7"); code != 0 {
		t.Fatal(errs)
	}
	b.until("the event is published", func() string {
		stream, err := js.Stream(t.Context(), "FLUNQ")
		if err != nil {
			return err.Error()
		}
		m, err := stream.GetLastMsgForSubject(t.Context(), "flunq.default.events.com.example.paid")
		if err != nil {
			return err.Error()
		}
		if string(m.Data) != "7" || m.Header.Get("ce-type") != "com.example.paid" || m.Header.Get("flunq-entry") == "" {
			t.Errorf("%s %v", m.Data, m.Header)
		}
		return ""
	})
	if _, err := js.Publish(t.Context(), "flunq.default.in.shop", []byte(`{"specversion":"1.0","id":"1","source":"/shop","type":"com.example.new","data":8}`)); err != nil {
		t.Fatal(err)
	}
	b.until("the message is taken", func() string {
		if metrics := b.metrics(); !strings.Contains(metrics, `bridge_received_total{result="received",topic="flunq.default.in.>"} 1`) {
			return "no such metric"
		}
		return ""
	})
	b.says("doctor", "ok       nats", "stream FLUNQ has 2 messages; 0 not yet taken in (NATS_LISTEN)", "0 entries behind")
	b.env["NATS_STREAM"] = "OTHER"
	b.says("doctor", "bad      nats", "stream OTHER does not exist")
	b.env["NATS_STREAM"] = "FLUNQ"
	b.stop()
	for range 2 {
		if _, err := js.Publish(t.Context(), "flunq.default.in.shop", nil); err != nil {
			t.Fatal(err)
		}
	}
	b.says("doctor", "2 not yet taken in (NATS_LISTEN)")
	_ = server.Process.Kill()
	_ = server.Wait()
	b.says("doctor", "no connection to NATS at nats://***@"+address, "check NATS_URL")
	b.says("config show", "nats://***@"+address)
}
