// Package kafka publishes events to Kafka and reads requests from it. It is the only package of
// the engine that uses the client library.
package kafka

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kversion"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// Options configures how to reach and use the brokers. Errors name settings by their environment
// variables.
type Options struct {
	Brokers  []string // host:port
	ClientID string
	// Version is the newest Kafka version whose protocol to use, such as 2.3, for brokers that
	// misreport theirs; "": what the broker offers.
	Version string

	TLS           bool
	CA, Cert, Key string // file names in PEM; an empty CA means the system's
	SASL          string // "", plain, scram-sha-256, scram-sha-512 or oauthbearer
	Username      string
	Password      string // for oauthbearer, the token
	PasswordFile  string // read at each authentication, in place of Password

	Compression string // none, gzip, snappy, lz4 or zstd
	// Linger is how long a record waits for others for the same partition. Since callers wait for
	// their batches, during which the next ones fill up, 0 is fastest.
	Linger time.Duration
	// Timeout is the longest time that a publication takes.
	Timeout time.Duration
	// TopicWait is how long a topic must be unknown before its events are rejected.
	TopicWait time.Duration

	ScheduleTopic string // of requests
	ScheduleDLQ   string // of requests that cannot be read
	Group         string // of the consumers of ScheduleTopic
	// Wait is the longest time that Fetch waits for messages.
	Wait time.Duration

	Partitions  int // of created topics
	Replication int // of created topics; -1: the broker's default
}

// Defaults are the options of an ordinary deployment.
func Defaults() Options {
	return Options{
		Brokers: []string{"localhost:9092"}, ClientID: "flunq",
		Compression: "snappy", Timeout: 10 * time.Second, TopicWait: 30 * time.Second,
		ScheduleTopic: "schedule_events", ScheduleDLQ: "schedule_events.dlq", Group: "scheduler-consumer", Wait: time.Second,
		Partitions: 12, Replication: -1,
	}
}

// codecs are the compressions by name.
func codecs() map[string]kgo.CompressionCodec {
	return map[string]kgo.CompressionCodec{
		"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
		"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
	}
}

// mechanisms are the ways to authenticate.
func mechanisms() []string { return []string{"plain", "scram-sha-256", "scram-sha-512", "oauthbearer"} }

// Check returns an error that reports every bad option.
func (o Options) Check() error {
	var errs []error
	wrong := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if len(o.Brokers) == 0 {
		wrong("KAFKA_BROKERS is empty: want host:port, several separated by commas")
	}
	for _, broker := range o.Brokers {
		host, port, err := net.SplitHostPort(broker)
		if n, bad := strconv.ParseUint(port, 10, 16); err != nil || host == "" || bad != nil || n == 0 {
			wrong("KAFKA_BROKERS has %q: want host:port", broker)
		}
	}
	if o.Version != "" && kversion.FromString(o.Version) == nil {
		wrong("KAFKA_VERSION is %q: want a version such as 2.3", o.Version)
	}
	if !o.TLS && cmp.Or(o.CA, o.Cert, o.Key) != "" {
		wrong("KAFKA_TLS_CA, KAFKA_TLS_CERT and KAFKA_TLS_KEY need KAFKA_TLS=true")
	}
	if (o.Cert == "") != (o.Key == "") {
		wrong("KAFKA_TLS_CERT and KAFKA_TLS_KEY need each other")
	}
	o.checkLogin(wrong)
	if _, known := codecs()[o.Compression]; !known {
		wrong("KAFKA_COMPRESSION is %q: want none, gzip, snappy, lz4 or zstd", o.Compression)
	}
	if o.Linger < 0 || o.Linger > time.Second {
		wrong("KAFKA_LINGER is %s: want 0 to 1s", o.Linger)
	}
	if o.Timeout < time.Second || o.Timeout > time.Minute {
		wrong("the time-out of publications is %s: want 1s to 1m", o.Timeout)
	}
	if o.ScheduleTopic == "" || o.ScheduleDLQ == "" || o.Group == "" || o.ScheduleTopic == o.ScheduleDLQ {
		wrong("SCHEDULER_SCHEDULE_TOPIC, SCHEDULER_SCHEDULE_DLQ and SCHEDULER_GROUP are %q, %q and %q: want three names, and two topics", o.ScheduleTopic, o.ScheduleDLQ, o.Group)
	}
	if o.TopicWait < time.Second {
		wrong("the time until an unknown topic is refused is %s: want 1s or more", o.TopicWait)
	}
	if o.Wait < 10*time.Millisecond || o.Wait > time.Minute {
		wrong("the wait for messages is %s: want 10ms to 1m", o.Wait)
	}
	if o.Partitions < 1 || o.Partitions > 10_000 {
		wrong("KAFKA_PARTITIONS is %d: want 1 to 10000", o.Partitions)
	}
	if o.Replication != -1 && (o.Replication < 1 || o.Replication > 100) {
		wrong("KAFKA_REPLICATION is %d: want 1 to 100, or -1 for the broker's default", o.Replication)
	}
	return errors.Join(errs...)
}

func (o Options) checkLogin(wrong func(format string, args ...any)) {
	password := o.Password != "" || o.PasswordFile != ""
	switch {
	case o.SASL == "" && (o.Username != "" || password):
		wrong("KAFKA_USERNAME and KAFKA_PASSWORD need KAFKA_SASL: one of %s", strings.Join(mechanisms(), ", "))
	case o.SASL == "":
	case !slices.Contains(mechanisms(), o.SASL):
		wrong("KAFKA_SASL is %q: want one of %s", o.SASL, strings.Join(mechanisms(), ", "))
	case !password:
		wrong("KAFKA_SASL=%s needs KAFKA_PASSWORD or KAFKA_PASSWORD_FILE", o.SASL)
	case o.Username == "" && o.SASL != "oauthbearer":
		wrong("KAFKA_SASL=%s needs KAFKA_USERNAME", o.SASL)
	}
	if _, err := os.Stat(o.PasswordFile); o.PasswordFile != "" && err != nil {
		wrong("KAFKA_PASSWORD_FILE: %w", err)
	}
}

// client returns a client of the brokers. It connects on first use.
func (o Options) client(more ...kgo.Opt) (*kgo.Client, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	// A request and each wait between two attempts take a fraction of the timeout so that a lost
	// reply leaves time to try again.
	const parts, waits = 5, 10
	opts := []kgo.Opt{
		kgo.SeedBrokers(o.Brokers...),
		kgo.ClientID(o.ClientID),
		kgo.DialTimeout(o.Timeout / parts), // without TLS
		kgo.RequestTimeoutOverhead(o.Timeout / parts),
		kgo.ProduceRequestTimeout(o.Timeout / parts),
		kgo.MetadataMinAge(min(time.Second, o.Timeout/waits)),
		kgo.RetryBackoffFn(func(fails int) time.Duration {
			longest := o.Timeout / waits
			return min(longest, longest/16<<min(max(fails-1, 0), 4))
		}),
	}
	if o.Version != "" {
		opts = append(opts, kgo.MaxVersions(kversion.FromString(o.Version)))
	}
	if o.TLS {
		if _, err := o.tls(); err != nil {
			return nil, err
		}
		opts = append(opts, kgo.Dialer(func(ctx context.Context, network, address string) (net.Conn, error) {
			config, err := o.tls() // again, since files are replaced when certificates are renewed
			if err != nil {
				return nil, err
			}
			dialer := tls.Dialer{NetDialer: &net.Dialer{Timeout: o.Timeout / parts}, Config: config}
			return dialer.DialContext(ctx, network, address)
		}))
	}
	if o.SASL != "" {
		opts = append(opts, kgo.SASL(o.mechanism()))
	}
	cl, err := kgo.NewClient(append(opts, more...)...)
	if err != nil {
		return nil, fmt.Errorf("set up the Kafka client: %w", err)
	}
	return cl, nil
}

func (o Options) tls() (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if o.CA != "" {
		pem, err := os.ReadFile(o.CA)
		if err != nil {
			return nil, fmt.Errorf("KAFKA_TLS_CA: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("KAFKA_TLS_CA: %s has no certificate in PEM", o.CA)
		}
	}
	if o.Cert != "" {
		pair, err := tls.LoadX509KeyPair(o.Cert, o.Key)
		if err != nil {
			return nil, fmt.Errorf("KAFKA_TLS_CERT: %w", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

// mechanism reads the password for each authentication, since files are replaced when a password or
// token changes.
func (o Options) mechanism() sasl.Mechanism {
	password := func() (string, error) {
		if o.PasswordFile == "" {
			return o.Password, nil
		}
		text, err := os.ReadFile(o.PasswordFile)
		if err != nil {
			return "", fmt.Errorf("KAFKA_PASSWORD_FILE: %w", err)
		}
		return strings.TrimSpace(string(text)), nil
	}
	salted := func(context.Context) (scram.Auth, error) {
		secret, err := password()
		return scram.Auth{User: o.Username, Pass: secret}, err
	}
	switch o.SASL {
	case "plain":
		return plain.Plain(func(context.Context) (plain.Auth, error) {
			secret, err := password()
			return plain.Auth{User: o.Username, Pass: secret}, err
		})
	case "scram-sha-256":
		return scram.Sha256(salted)
	case "scram-sha-512":
		return scram.Sha512(salted)
	default:
		return oauth.Oauth(func(context.Context) (oauth.Auth, error) {
			token, err := password()
			return oauth.Auth{Token: token}, err
		})
	}
}
