package nats_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	client "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"flunq.io/flunq/engine/bridge"
	"flunq.io/flunq/engine/bridge/bridgetest"
	"flunq.io/flunq/engine/cloudevents"
	"flunq.io/flunq/engine/nats"
)

// server is a nats-server with JetStream that keeps its data on disk.
type server struct {
	t      *testing.T
	folder string
	more   string // of its configuration
	port   string
	cmd    *exec.Cmd
}

// serve starts a server with additional lines of configuration. It skips the test without nats-server.
func serve(t *testing.T, more string) *server {
	t.Helper()
	s := &server{t: t, folder: t.TempDir(), more: more, port: "-1"}
	s.start()
	t.Cleanup(s.kill)
	return s
}

// start starts the server, on the port that it had before.
func (s *server) start() {
	s.t.Helper()
	binary, err := exec.LookPath("nats-server")
	if err != nil {
		s.t.Skip("NATS NOT TESTED: no nats-server in the PATH (apt-get install nats-server)")
	}
	config := s.configure()
	log, err := os.Create(filepath.Join(s.folder, "log"))
	if err != nil {
		s.t.Fatal(err)
	}
	s.cmd = exec.CommandContext(s.t.Context(), binary, "-c", config)
	s.cmd.Stderr = log
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	listens := regexp.MustCompile(`Listening for client connections on 127\.0\.0\.1:(\d+)`)
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		text, _ := os.ReadFile(log.Name())
		if found := listens.FindSubmatch(text); found != nil && strings.Contains(string(text), "Server is ready") {
			s.port = string(found[1])
			return
		}
	}
	text2, _ := os.ReadFile(log.Name())
	s.t.Fatalf("the server is not ready: %s", text2)
}

// configure writes the configuration, and returns the name of its file.
func (s *server) configure() string {
	s.t.Helper()
	config := filepath.Join(s.folder, "nats.conf")
	text := fmt.Sprintf("listen: '127.0.0.1:%s'\njetstream {store_dir: '%s'}\nports_file_dir: '%s'\n%s\n", s.port, s.folder, s.folder, s.more)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
	return config
}

// reload makes the server read a configuration with other additional lines.
func (s *server) reload(more string) {
	s.t.Helper()
	s.more = more
	s.configure()
	done := func() int {
		text, _ := os.ReadFile(filepath.Join(s.folder, "log"))
		return strings.Count(string(text), "Reloaded server configuration")
	}
	before := done()
	if err := s.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		s.t.Fatal(err)
	}
	for end := time.Now().Add(time.Minute); done() == before; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			s.t.Fatal("the server does not reload its configuration")
		}
	}
}

func (s *server) kill() {
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait()
}

func (s *server) url() string { return "nats://127.0.0.1:" + s.port }

func (s *server) options() nats.Options {
	o := nats.Defaults()
	o.URL, o.Create, o.Wait, o.Timeout = s.url(), true, 100*time.Millisecond, 5*time.Second
	return o
}

// jetStream returns a client of the server that is not the bridge's.
func (s *server) jetStream() jetstream.JetStream {
	s.t.Helper()
	conn, err := client.Connect(s.url(), client.MaxReconnects(-1))
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(conn.Close)
	js, err := jetstream.New(conn)
	if err != nil {
		s.t.Fatal(err)
	}
	return js
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
		s := serve(t, "max_payload: 20000")
		js, o := s.jetStream(), s.options()
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

// The server drops a duplicate message.
func TestDuplicates(t *testing.T) {
	t.Parallel()
	o := serve(t, "").options()
	o.MaxAge = 0
	created := ""
	o.Created = func(stream string) { created += stream }
	c := connect(t, o)
	m := cloudevents.Message{Topic: "flunq.acme.events", Type: "com.example.a b.*", ID: "acme/1-1", Value: []byte("1")}
	for range 3 {
		if err := c.Publish(t.Context(), []cloudevents.Message{m})[0]; err != nil {
			t.Fatal(err)
		}
	}
	if created != o.Stream {
		t.Errorf("created: %q", created)
	}
	none := func(string) (cloudevents.Position, bool) { return cloudevents.Position{}, false }
	state, err := nats.Inspect(t.Context(), o, []string{"flunq.acme.events", "shop.acme.events"}, []string{"flunq.acme.>", "flunq.other.>"}, none)
	want := nats.State{Messages: 1, Unlimited: true, Lag: 1, Uncovered: []string{"shop.acme.events"}}
	if err != nil || !reflect.DeepEqual(state, want) {
		t.Errorf("%+v, %v, want %+v", state, err, want)
	}
	state, err = nats.Inspect(t.Context(), o, nil, []string{"shop.in.>", "flunq.acme.>"}, none)
	if want := []string{"shop.in.>"}; err != nil || !reflect.DeepEqual(state.Unheard, want) || state.Lag != 1 {
		t.Errorf("%+v, %v, want %v unheard and a lag of 1", state, err, want)
	}
}

// Reading continues after a server was killed; a stream that was deleted and created again is read from
// its beginning.
func TestServerRestartsAndStreamIsCreatedAgain(t *testing.T) {
	t.Parallel()
	s := serve(t, "")
	js := s.jetStream()
	c := connect(t, s.options())
	positions := map[string]cloudevents.Position{}
	var got []string
	fetch := func() error {
		messages, err := c.Fetch(t.Context(), []string{"flunq.acme.in.>"}, func(p string) (cloudevents.Position, bool) {
			at, known := positions[p]
			return at, known
		})
		for i := range messages {
			positions[messages[i].PartitionName()] = cloudevents.Position{Log: messages[i].Log, Offset: messages[i].Offset}
			got = append(got, string(messages[i].Value))
		}
		return err
	}
	if err := fetch(); err != nil {
		t.Fatal(err)
	}
	until := func(want string) {
		t.Helper()
		for end := time.Now().Add(time.Minute); strings.Join(got, "") != want; {
			err := fetch()
			if time.Now().After(end) {
				t.Fatalf("got %v, want %s: %v", got, want, err)
			}
		}
	}
	put := func(value string) {
		t.Helper()
		var err error
		for end := time.Now().Add(time.Minute); time.Now().Before(end); {
			if _, err = js.Publish(t.Context(), "flunq.acme.in.a", []byte(value), jetstream.WithMsgID(value)); err == nil {
				return
			}
		}
		t.Fatal(err)
	}
	put("1")
	put("2")
	until("12")
	s.kill()
	s.start()
	put("3")
	until("123")
	if err := js.DeleteStream(t.Context(), "FLUNQ"); err != nil {
		t.Fatal(err)
	}
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "FLUNQ", Subjects: []string{nats.Subjects}}); err != nil {
		t.Fatal(err)
	}
	put("4")
	until("1234")
}

// A stream that is created again while messages arrive all the time is read from its beginning, and
// each of its messages once.
func TestStreamIsCreatedAgainInTraffic(t *testing.T) {
	t.Parallel()
	s := serve(t, "")
	js, o := s.jetStream(), s.options()
	c := connect(t, o)
	positions := map[string]cloudevents.Position{}
	got := map[string]int{}
	fetch := func() {
		messages, err := c.Fetch(t.Context(), []string{"flunq.a.>", "flunq.b.>"}, func(p string) (cloudevents.Position, bool) {
			at, known := positions[p]
			return at, known
		})
		if err != nil {
			t.Log(err)
		}
		for i := range messages {
			m := &messages[i]
			positions[m.PartitionName()] = cloudevents.Position{Log: m.Log, Offset: m.Offset}
			got[string(m.Value)]++
		}
	}
	put := func(subject, value string) {
		t.Helper()
		if _, err := js.Publish(t.Context(), subject, []byte(value)); err != nil {
			t.Fatal(err)
		}
	}
	fetch()
	for i := range 10 {
		put("flunq.a.x", fmt.Sprint("before-", i))
	}
	for end := time.Now().Add(time.Minute); len(got) < 10 && time.Now().Before(end); {
		fetch()
	}
	if err := js.DeleteStream(t.Context(), o.Stream); err != nil {
		t.Fatal(err)
	}
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: o.Stream, Subjects: []string{nats.Subjects}}); err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		put("flunq.a.x", fmt.Sprint("after-", i))
	}
	n := 30
	for end := time.Now().Add(time.Minute); len(got) < n && time.Now().Before(end); n++ {
		put("flunq.b.x", fmt.Sprint("traffic-", n))
		fetch()
	}
	for range 10 {
		fetch()
	}
	if len(got) != n {
		t.Errorf("%d messages of %d", len(got), n)
	}
	for value, times := range got {
		if times != 1 {
			t.Errorf("%s is read %d times", value, times)
		}
	}
}

// A stream that has lost its last messages, as in a power cut, has others with the same numbers
// afterwards, which are read.
func TestLoss(t *testing.T) {
	t.Parallel()
	s := serve(t, "")
	js, o := s.jetStream(), s.options()
	positions := map[string]cloudevents.Position{}
	fetch := func(c *nats.Client) (got string, errs error) {
		for range 10 {
			messages, err := c.Fetch(t.Context(), []string{"flunq.a.>"}, func(p string) (cloudevents.Position, bool) {
				at, known := positions[p]
				return at, known
			})
			errs = errors.Join(errs, err)
			for i := range messages {
				m := &messages[i]
				at, known := positions[m.PartitionName()]
				if !known || at.Log != m.Log || m.Offset > at.Offset { // as receive.lua
					got += string(m.Value)
					positions[m.PartitionName()] = cloudevents.Position{Log: m.Log, Offset: m.Offset}
				}
			}
		}
		return got, errs
	}
	c := connect(t, o)
	if _, err := fetch(c); err != nil { // creates the stream
		t.Fatal(err)
	}
	put := func(value string) {
		t.Helper()
		if _, err := js.Publish(t.Context(), "flunq.a.x", []byte(value)); err != nil {
			t.Fatal(err)
		}
	}
	put("1")
	if got, err := fetch(c); got != "1" || err != nil {
		t.Fatal(got, err)
	}
	c.Close()
	for partition, p := range positions {
		p.Offset = 4 // of a message that is lost
		positions[partition] = p
	}
	got, err := fetch(connect(t, o))
	if got != "" || err == nil || !strings.Contains(err.Error(), "ends at message 1, but 4 was read before") {
		t.Errorf("got %q, %v", got, err)
	}
	c = connect(t, o)
	_, _ = fetch(c)
	put("2")
	put("3")
	if got, err := fetch(c); got != "23" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
	c.Close()
	put("4")
	if got, err := fetch(connect(t, o)); got != "4" || err != nil {
		t.Errorf("after a restart: got %q, %v", got, err)
	}
}

// Messages that the limits of the stream have removed before they were read are reported, once; not those of
// a topic that has been read up to its end.
func TestRemovedUnread(t *testing.T) {
	t.Parallel()
	s := serve(t, "")
	js, o := s.jetStream(), s.options()
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: o.Stream, Subjects: []string{nats.Subjects}, MaxMsgs: 2000}); err != nil {
		t.Fatal(err)
	}
	var data []byte
	put := func(subject string, n int) {
		t.Helper()
		for range n {
			if _, err := js.PublishAsync(subject, data); err != nil {
				t.Fatal(err)
			}
		}
		<-js.PublishAsyncComplete()
	}
	positions := map[string]cloudevents.Position{}
	// fetch reads at least n messages, and for several checks.
	fetch := func(c *nats.Client, n int, loss bool) (read int, lost []error) {
		enough := func() bool { return read >= n && loss == (len(lost) > 0) }
		for began := time.Now(); time.Since(began) < 20*o.Wait || !enough() && time.Since(began) < time.Minute; {
			messages, err := c.Fetch(t.Context(), []string{"flunq.a.>"}, func(p string) (cloudevents.Position, bool) {
				at, known := positions[p]
				return at, known
			})
			if err != nil {
				lost = append(lost, err)
			}
			for i := range messages {
				positions[messages[i].PartitionName()] = cloudevents.Position{Log: messages[i].Log, Offset: messages[i].Offset}
			}
			read += len(messages)
		}
		return read, lost
	}
	want := func(c *nats.Client, n int, loss string) {
		t.Helper()
		read, lost := fetch(c, n, loss != "")
		if read != n || len(lost) > 1 || loss == "" != (len(lost) == 0) || len(lost) == 1 && (!errors.Is(lost[0], cloudevents.ErrLost) || !strings.Contains(lost[0].Error(), loss)) {
			t.Errorf("read %d messages of %d, %v, want %q", read, n, lost, loss)
		}
	}
	c := connect(t, o)
	put("flunq.a.x", 1)
	want(c, 1, "")
	for range 2 {
		put("flunq.b.x", 1500) // c sees that none of them are of a
		want(c, 0, "")
	}
	put("flunq.a.x", 1) // 3002
	want(c, 1, "")
	put("flunq.b.x", 2500)
	c.Close()
	put("flunq.b.x", 1) // 5503
	c = connect(t, o)
	want(c, 0, "messages 3003 to 3503 of stream FLUNQ had some for flunq.a.>")
	put("flunq.a.x", 1) // 5504
	want(c, 1, "")
	c.Close()
	put("flunq.a.x", 3000)
	c = connect(t, o)
	want(c, 2000, "messages 5505 to 6504")
	for partition, lag := range c.Lags() {
		if lag != 0 {
			t.Errorf("%s: a lag of %d", partition, lag)
		}
	}
	data = make([]byte, 4<<10)
	put("flunq.a.x", 5000)  // the client receives some of them ahead
	time.Sleep(10 * o.Wait) // the bridge was held up until the next check
	if _, lost := fetch(c, 0, true); len(lost) == 0 {
		t.Error("the removal of messages before a process read them is not reported")
	}
}

// What the server forbids is reported as such, soon, and only for the subjects that are forbidden.
func TestPermissions(t *testing.T) {
	t.Parallel()
	s := serve(t, `authorization {users: [
		{user: all, password: p},
		{user: some, password: p, permissions: {publish: {deny: ["flunq.a.events.>", "$JS.API.CONSUMER.CREATE.FLUNQ.*.flunq.a.>"]}}},
		{user: deaf, password: p, permissions: {subscribe: {deny: ["_INBOX.>"]}}}
	]}`)
	as := func(user string) *nats.Client {
		o := s.options()
		o.URL, o.Timeout = strings.Replace(o.URL, "//", "//"+user+":p@", 1), time.Minute
		return connect(t, o)
	}
	denied := func(err error) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), "Permissions Violation") {
			t.Errorf("%v, want the denied permission", err)
		}
	}
	none := func(string) (cloudevents.Position, bool) { return cloudevents.Position{}, false }
	message := func(tenant string) cloudevents.Message {
		return cloudevents.Message{Topic: "flunq." + tenant + ".events", Type: "com.x", ID: tenant}
	}
	began := time.Now()
	if errs := as("all").Publish(t.Context(), []cloudevents.Message{message("b")}); errs[0] != nil {
		t.Fatal(errs)
	}
	some := as("some")
	errs := some.Publish(t.Context(), []cloudevents.Message{message("a"), message("c")})
	if denied(errs[0]); errs[1] != nil {
		t.Error(errs[1])
	}
	topics := []string{"flunq.a.>", "flunq.b.>"}
	_, err := some.Fetch(t.Context(), topics, none)
	denied(err)
	if messages, err := some.Fetch(t.Context(), topics, none); err != nil || len(messages) != 1 {
		t.Errorf("%d messages, %v, want that of b", len(messages), err)
	}
	_, err = as("deaf").Fetch(t.Context(), topics, none)
	denied(err)
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("took %s", took)
	}
}

// A full stream that discards new messages says that it is full.
func TestFull(t *testing.T) {
	t.Parallel()
	s := serve(t, "")
	o := s.options()
	if _, err := s.jetStream().CreateStream(t.Context(), jetstream.StreamConfig{
		Name: o.Stream, Subjects: []string{nats.Subjects}, MaxMsgs: 1, Discard: jetstream.DiscardNew,
	}); err != nil {
		t.Fatal(err)
	}
	m := cloudevents.Message{Topic: "flunq.acme.events", Type: "com.x"}
	errs := connect(t, o).Publish(t.Context(), []cloudevents.Message{m, m})
	if errs[0] != nil || errs[1] == nil || errors.Is(errs[1], cloudevents.ErrRefused) {
		t.Errorf("%v, want that the second message is published later", errs)
	}
	if state, err := nats.Inspect(t.Context(), o, nil, nil, nil); err != nil || state.Full != 100 {
		t.Errorf("%+v, %v", state, err)
	}
}

// certificate writes a certificate for 127.0.0.1 and its key to two files.
func certificate(t *testing.T) (cert, key string) {
	t.Helper()
	secret, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &secret.PublicKey, secret)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalECPrivateKey(secret)
	if err != nil {
		t.Fatal(err)
	}
	write := func(kind string, der []byte) string {
		name := filepath.Join(t.TempDir(), "file.pem")
		if err := os.WriteFile(name, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	return write("CERTIFICATE", der), write("EC PRIVATE KEY", private)
}

// TLS with a private certificate authority, client certificates, and a password in the URL.
func TestTLSAndPassword(t *testing.T) {
	t.Parallel()
	cert, key := certificate(t)
	s := serve(t, fmt.Sprintf("tls {cert_file: '%s', key_file: '%s', ca_file: '%s', verify: true}\nauthorization {user: anna, password: s3cret}", cert, key, cert))
	for name, test := range map[string]struct {
		change func(*nats.Options)
		want   string
	}{
		"right":          {func(*nats.Options) {}, ""},
		"password":       {func(o *nats.Options) { o.URL = strings.Replace(o.URL, "s3cret", "wr0ng", 1) }, "uthorization"},
		"CA":             {func(o *nats.Options) { o.CA = "" }, "certificate"},
		"no certificate": {func(o *nats.Options) { o.Cert, o.Key = "", "" }, "tls"},
	} {
		o := s.options()
		o.URL, o.CA, o.Cert, o.Key = strings.Replace(o.URL, "nats://", "tls://anna:s3cret@", 1), cert, cert, key
		test.change(&o)
		err := connect(t, o).Publish(t.Context(), []cloudevents.Message{{Topic: "flunq.acme.events", Type: "t", ID: "1"}})[0]
		switch {
		case test.want == "" && err == nil:
		case test.want == "" || err == nil || !strings.Contains(err.Error(), test.want):
			t.Errorf("%s: %v, want an error with %q", name, err, test.want)
		case strings.Contains(err.Error(), "s3cret") || strings.Contains(err.Error(), "wr0ng"):
			t.Errorf("%s: %v has the password", name, err)
		}
	}
}

// The first publication after the server has changed a password says so.
func TestPasswordChanges(t *testing.T) {
	t.Parallel()
	s := serve(t, "authorization {user: anna, password: first}")
	o := s.options()
	o.URL, o.Timeout = strings.Replace(o.URL, "nats://", "nats://anna:first@", 1), time.Second
	c := connect(t, o)
	publish := func() error {
		return c.Publish(t.Context(), []cloudevents.Message{{Topic: "flunq.acme.events", Type: "t", ID: "1"}})[0]
	}
	if err := publish(); err != nil {
		t.Fatal(err)
	}
	s.kill()
	s.more = "authorization {user: anna, password: second}"
	s.start()
	if err := publish(); err == nil || !strings.Contains(err.Error(), "uthorization") {
		t.Errorf("%v, want an error about the authorization", err)
	}
}

// A subscription that the server denies for a while works again afterwards.
func TestPermittedAgain(t *testing.T) {
	t.Parallel()
	const permitted = "authorization {users: [{user: anna, password: p}]}"
	s := serve(t, permitted)
	o := s.options()
	o.URL, o.Timeout = strings.Replace(o.URL, "nats://", "nats://anna:p@", 1), time.Second
	c := connect(t, o)
	publish := func() error {
		return c.Publish(t.Context(), []cloudevents.Message{{Topic: "flunq.acme.events", Type: "t", ID: "1"}})[0]
	}
	if err := publish(); err != nil {
		t.Fatal(err)
	}
	s.reload(`authorization {users: [{user: anna, password: p, permissions: {subscribe: {deny: ["_INBOX.>"]}}}]}`)
	if err := publish(); err == nil {
		t.Error("no error without permission")
	}
	s.reload(permitted)
	for end := time.Now().Add(20 * time.Second); ; {
		err := publish()
		if err == nil {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%v, 20s after it was permitted again", err)
		}
	}
}

// Every bad option is reported.
func TestOptions(t *testing.T) {
	t.Parallel()
	if err := nats.Defaults().Check(); err != nil {
		t.Error(err)
	}
	err := nats.Options{URL: "localhost:4222", Stream: "a.b", Creds: "/no/such/file", Cert: "/none"}.Check()
	for _, want := range []string{"NATS_URL", "NATS_STREAM", "NATS_CREDS", "NATS_TLS_CERT", "each other", "time-out", "wait"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not name %s", err, want)
		}
	}
	for _, address := range []string{"nats://anna:ses%zzame@localhost", "nats://anna:sesame@localhost:x", "nats://anna:se#same@localhost"} {
		o := nats.Defaults()
		o.URL = address
		if err := o.Check(); err == nil || strings.Contains(err.Error(), "ame@") || !strings.Contains(err.Error(), "percent-encoded") {
			t.Errorf("%s: %v, want advice that shows no password", address, err)
		}
	}
}

// Errors name what is missing, with the command that adds it.
func TestMissing(t *testing.T) {
	t.Parallel()
	s := serve(t, "")
	o := s.options()
	o.Create = false
	want := func(err error, text string) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%v, want an error with %q", err, text)
		}
	}
	_, err := nats.Inspect(t.Context(), o, nil, nil, nil)
	want(err, "stream add FLUNQ")
	want(connect(t, o).Publish(t.Context(), make([]cloudevents.Message, 1))[0], "NATS_CREATE_STREAM")
	other := cloudevents.Message{Topic: "shop.acme.events", Type: "t", ID: "1"}
	want(connect(t, s.options()).Publish(t.Context(), []cloudevents.Message{other})[0], "adds shop.acme.events.>")
	s.kill()
	_, err = nats.Inspect(t.Context(), o, nil, nil, nil)
	address, _ := url.Parse(s.url())
	want(err, "no connection to NATS at nats://"+address.Host)
}

// Fetching without messages starts nothing that stays. It runs alone, since it counts goroutines.
func TestFetchLeavesNoGoroutines(t *testing.T) {
	s := serve(t, "")
	o := s.options()
	o.Wait = 10 * time.Millisecond
	c := connect(t, o)
	fetch := func(times int) int {
		for range times {
			none := func(string) (cloudevents.Position, bool) { return cloudevents.Position{}, false }
			if _, err := c.Fetch(t.Context(), []string{"flunq.acme.in.>"}, none); err != nil {
				t.Fatal(err)
			}
		}
		return runtime.NumGoroutine()
	}
	before := fetch(10)
	if after := fetch(200); after > before+50 {
		t.Errorf("%d goroutines after 10 fetches, %d after 210", before, after)
	}
}
