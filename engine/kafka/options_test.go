package kafka_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"flunq.io/flunq/engine/kafka"
	"flunq.io/flunq/engine/schedule"
)

// All mistakes are reported together, by the names of their settings.
func TestOptionsCheck(t *testing.T) {
	t.Parallel()
	if err := kafka.Defaults().Check(); err != nil {
		t.Errorf("the defaults: %v", err)
	}
	o := kafka.Options{
		Brokers: []string{"a:9092", "b", "c:99999"}, Version: "new", CA: "ca.pem", Cert: "cert.pem",
		SASL: "kerberos", PasswordFile: "none", Compression: "best", Linger: time.Hour, Replication: 0,
	}
	err := o.Check()
	for _, want := range []string{
		`"b": want host:port`, `"c:99999": want`, "KAFKA_VERSION", "KAFKA_TLS=true", "need each other", "KAFKA_SASL is", "KAFKA_PASSWORD_FILE: stat none", "KAFKA_COMPRESSION",
		"KAFKA_LINGER", "KAFKA_PARTITIONS", "KAFKA_REPLICATION", "SCHEDULER_SCHEDULE_TOPIC", "time-out of publications", "wait for messages",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
}

// certificate returns a certificate for 127.0.0.1 and the name of a file with it.
func certificate(t *testing.T) (tls.Certificate, string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, file
}

// TLS with a private certificate authority, and passwords in files, which may change.
func TestTLSAndSASL(t *testing.T) {
	t.Parallel()
	cert, ca := certificate(t)
	config := &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}
	cluster, err := kfake.NewCluster(
		kfake.NumBrokers(1), kfake.TLS(config), kfake.EnableSASL(), kfake.SeedTopics(1, "orders"),
		kfake.Superuser("PLAIN", "anna", "secret"), kfake.Superuser("SCRAM-SHA-256", "anna", "secret"), kfake.Superuser("SCRAM-SHA-512", "anna", "secret"),
	)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	for _, mechanism := range []string{"plain", "scram-sha-256", "scram-sha-512"} {
		t.Run(mechanism, func(t *testing.T) {
			t.Parallel()
			o := kafka.Defaults()
			o.Brokers, o.Timeout = cluster.ListenAddrs(), 2*time.Second
			o.TLS, o.CA, o.SASL, o.Username = true, ca, mechanism, "anna"
			o.PasswordFile = filepath.Join(t.TempDir(), "password")
			for _, test := range []struct {
				password string
				err      error
			}{{"wrong", schedule.ErrUnreachable}, {"secret\n", nil}} {
				if err := os.WriteFile(o.PasswordFile, []byte(test.password), 0o600); err != nil {
					t.Fatal(err)
				}
				want(t, newSink(t, o).Publish(t.Context(), events(3, "orders")), test.err)
			}
		})
	}
}

// Init creates what is missing, once, and Check sees it.
func TestInit(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	o := f.options()
	o.Partitions, o.Replication = 5, 1
	both := []string{o.ScheduleTopic, o.ScheduleDLQ}
	for _, step := range []struct {
		dry     bool
		created []string
	}{{true, both}, {false, both}, {false, nil}, {true, nil}} {
		created, err := kafka.Init(t.Context(), o, step.dry)
		if err != nil || !slices.Equal(created, step.created) {
			t.Fatalf("created %v, %v, want %v", created, err, step.created)
		}
	}
	state, err := kafka.Inspect(t.Context(), o, o.ScheduleTopic, o.ScheduleDLQ, "orders")
	if err != nil || state.Brokers != 1 || len(state.Topics) != 3 || state.Topics[0].Partitions != 5 || state.Topics[0].Missing {
		t.Fatalf("%+v, %v", state, err)
	}
	if problem := state.Topics[2].Problem(); !strings.Contains(problem, "orders does not exist") {
		t.Errorf("problem of a missing topic: %q", problem)
	}
	f.cluster.Close()
	if _, err := kafka.Inspect(t.Context(), o); err == nil {
		t.Error("no error, although the brokers are away")
	}
	f.start()
}

// A topic whose brokers are down takes no records, even if other partitions have all replicas in sync.
func TestInspectOffline(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	host, port, err := net.SplitHostPort(f.options().Brokers[0])
	if err != nil {
		t.Fatal(err)
	}
	number, err := strconv.ParseInt(port, 10, 32)
	if err != nil {
		t.Fatal(err)
	}
	f.cluster.ControlKey(int16(kmsg.Metadata), func(r kmsg.Request) (kmsg.Response, error, bool) {
		f.cluster.KeepControl()
		reply := r.ResponseKind().(*kmsg.MetadataResponse)
		reply.Brokers = []kmsg.MetadataResponseBroker{{NodeID: 0, Host: host, Port: int32(number)}}
		reply.Topics = []kmsg.MetadataResponseTopic{{Topic: new("orders"), Partitions: []kmsg.MetadataResponseTopicPartition{
			{Partition: 0, Leader: 0, Replicas: []int32{0, 1}, ISR: []int32{0, 1}},
			{Partition: 1, Leader: -1, ErrorCode: kerr.LeaderNotAvailable.Code, Replicas: []int32{1, 2}, ISR: []int32{2}, OfflineReplicas: []int32{1, 2}},
		}}}
		return reply, nil, true
	})
	state, err := kafka.Inspect(t.Context(), f.options(), "orders")
	if err != nil {
		t.Fatal(err)
	}
	if topic := state.Topics[0]; topic.Usable() || topic.Replicas != 2 || !strings.Contains(topic.Problem(), "0 of its replicas are in sync") {
		t.Errorf("topic %+v: %s", topic, topic.Problem())
	}
}

// A CA that is replaced in its file counts for the next connection, without a restart.
func TestRenewedCA(t *testing.T) {
	t.Parallel()
	cert, ca := certificate(t)
	cluster, err := kfake.NewCluster(
		kfake.NumBrokers(1), kfake.TLS(&tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}), kfake.SeedTopics(1, "orders"),
	)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	o := kafka.Defaults()
	o.Brokers, o.Timeout, o.TLS = cluster.ListenAddrs(), 2*time.Second, true
	_, o.CA = certificate(t)
	sink := newSink(t, o)
	want(t, sink.Publish(t.Context(), events(1, "orders")), schedule.ErrUnreachable)
	if err := os.Rename(ca, o.CA); err != nil {
		t.Fatal(err)
	}
	want(t, sink.Publish(t.Context(), events(1, "orders")), nil)
}
