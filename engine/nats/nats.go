// Package nats publishes messages to a stream of NATS JetStream and reads them from it. It is the only
// package that uses the client library.
package nats

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"flunq.io/flunq/engine/cloudevents"
)

// Options configures how to reach the servers and which stream to use. Errors name settings by their
// environment variables.
type Options struct {
	URL   string // nats://host:port or tls://host:port, several separated by commas; it may have a user and a password or a token
	Creds string // file of credentials; "": none
	Name  string // of this program in the servers' reports

	CA, Cert, Key string // file names in PEM; an empty CA means the system's

	Stream string
	Create bool // create the stream if it is missing, for the subjects below flunq, with these limits:
	// Created, if set, is called after that.
	Created func(stream string)

	MaxAge   time.Duration // age after which messages are removed; 0: never
	MaxBytes int           // size above which the oldest messages are removed; 0: never

	Timeout time.Duration // of a publication and of each request
	Wait    time.Duration // longest time that Fetch waits for messages
}

// Defaults are the options of an ordinary deployment.
func Defaults() Options {
	return Options{URL: nats.DefaultURL, Name: "flunq", Stream: "FLUNQ", MaxAge: 7 * 24 * time.Hour, Timeout: 10 * time.Second, Wait: time.Second}
}

// Subjects are the subjects of the stream that Options.Create creates.
const Subjects = "flunq.>"

// Check returns an error that reports every bad option.
func (o Options) Check() error {
	var errs []error
	wrong := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	for text := range strings.SplitSeq(o.URL, ",") {
		// The message must not show a password, as that of url.Parse does.
		if u, err := url.Parse(strings.TrimSpace(text)); err != nil || u.Host == "" || !slices.Contains([]string{"nats", "tls", "ws", "wss"}, u.Scheme) {
			wrong("NATS_URL has a part that is no address: want nats://host:port or tls://host:port, several separated by commas, with special characters of a password percent-encoded")
		}
	}
	if o.Stream == "" || strings.ContainsAny(o.Stream, " .*>/\\") {
		wrong("NATS_STREAM is %q: want a name without spaces, dots, *, > and slashes", o.Stream)
	}
	for _, file := range []struct{ setting, name string }{{"NATS_CREDS", o.Creds}, {"NATS_TLS_CA", o.CA}} {
		if _, err := os.Stat(file.name); file.name != "" && err != nil {
			wrong("%s: %w", file.setting, err)
		}
	}
	if (o.Cert == "") != (o.Key == "") {
		wrong("NATS_TLS_CERT and NATS_TLS_KEY need each other")
	} else if _, err := tls.LoadX509KeyPair(o.Cert, o.Key); o.Cert != "" && err != nil {
		wrong("NATS_TLS_CERT and NATS_TLS_KEY: %w", err)
	}
	if o.Timeout < time.Second || o.Timeout > time.Minute {
		wrong("the time-out of publications is %s: want 1s to 1m", o.Timeout)
	}
	if o.Wait < 10*time.Millisecond || o.Wait > time.Minute {
		wrong("the wait for messages is %s: want 10ms to 1m", o.Wait)
	}
	return errors.Join(errs...)
}

// Address returns the URL without user, password and token.
func (o Options) Address() string {
	urls := strings.Split(o.URL, ",")
	for i, text := range urls {
		scheme, rest, ok := strings.Cut(text, "://")
		if at := strings.LastIndexByte(rest, '@'); ok && at >= 0 {
			urls[i] = scheme + "://***" + rest[at:]
		}
	}
	return strings.Join(urls, ",")
}

// connect returns a connection, which is established when a server responds. The outcome of each attempt
// to connect goes to attempts, which holds the last one. Permissions that the server denies go to denied.
func (o Options) connect(attempts chan error, denied func(error)) (*nats.Conn, jetstream.JetStream, error) {
	if err := o.Check(); err != nil {
		return nil, nil, err
	}
	attempted := func(err error) {
		select {
		case <-attempts: //nolint:errcheck // it is replaced
		default:
		}
		attempts <- err // the client library calls one handler at a time
	}
	opts := []nats.Option{
		nats.Name(o.Name), nats.RetryOnFailedConnect(true), nats.MaxReconnects(-1),
		nats.ReconnectWait(200 * time.Millisecond),
		// Without a connection, publishing fails instead of being delayed for an unknown time.
		nats.ReconnectBufSize(-1),
		// Wrong credentials may be corrected.
		nats.IgnoreAuthErrorAbort(),
		nats.ConnectHandler(func(*nats.Conn) { attempted(nil) }),
		nats.ReconnectHandler(func(*nats.Conn) { attempted(nil) }),
		nats.ReconnectErrHandler(func(_ *nats.Conn, err error) { attempted(err) }),
		nats.PingInterval(o.Timeout), // replaces a connection that only seems to be alive
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { // others are reported where they occur
			if errors.Is(err, nats.ErrPermissionViolation) {
				denied(err)
			}
		}),
	}
	if o.Creds != "" {
		opts = append(opts, nats.UserCredentials(o.Creds))
	}
	if o.CA != "" {
		opts = append(opts, nats.RootCAs(o.CA))
	}
	if o.Cert != "" {
		opts = append(opts, nats.ClientCert(o.Cert, o.Key))
	}
	conn, err := nats.Connect(o.URL, opts...)
	if err != nil {
		return nil, nil, fmt.Errorf("set up the NATS client: %w", err)
	}
	// Send a batch immediately, however large it is.
	js, err := jetstream.New(conn, jetstream.WithPublishAsyncMaxPending(math.MaxInt32), jetstream.WithPublishAsyncTimeout(o.Timeout))
	if err != nil {
		conn.Close()
		return nil, nil, fmt.Errorf("set up the JetStream client: %w", err)
	}
	return conn, js, nil
}

// Client is a connection to a stream. It implements bridge.Sink and bridge.Source; one goroutine may
// publish while another reads.
type Client struct {
	opts Options
	conn *nats.Conn
	js   jetstream.JetStream
	// attempts has the outcome of the last attempt to connect.
	attempts chan error
	denials  denials

	exists bool // the stream, when Publish last needed it

	readers map[string]*reader // by topic
	arrived chan arrival
	log     string          // identifies the stream
	last    uint64          // the last sequence number of the stream when it was identified
	removed uint64          // the first one that it still had then
	drained bool            // everything that had arrived was read since then
	checked time.Time       // when identifying it was last tried
	unknown bool            // what the stream has: it could not be identified at the last attempt
	failed  map[string]bool // topics that could not be read at the last attempt
}

// reader reads one topic in order.
type reader struct {
	topic    string
	info     func(context.Context) (*jetstream.ConsumerInfo, error)
	reading  jetstream.ConsumeContext
	closed   <-chan struct{} // of reading; the client library starts a goroutine each time it is asked for
	ended    chan struct{}
	consumer string // that sent the last message; the client library replaces those that no longer exist
	log      string // of its messages
	last     uint64 // sequence number of the last message that was read, or up to which there are no others
	pending  uint64 // messages after the last one
}

type arrival struct {
	reader *reader
	msg    jetstream.Msg
}

// Limits of what is read ahead. The client library drops what exceeds 64 MiB of a topic and then asks for it
// again, which takes half a minute.
const (
	most      = 500     // messages that Fetch returns
	mostBytes = 4 << 20 // bytes that it returns, approximately, and that the library receives of each topic
	ahead     = 128     // messages between the library and Fetch
)

// New returns a Client. It connects when a server responds.
func New(o Options) (*Client, error) {
	attempts := make(chan error, 1)
	c := &Client{opts: o, attempts: attempts, denials: denials{waiting: map[*func(error)]struct{}{}}, readers: map[string]*reader{}, arrived: make(chan arrival, ahead)}
	var err error
	c.conn, c.js, err = o.connect(attempts, c.denials.denied)
	return c, err
}

// denials passes on that the server denies a permission. It sends no reply to the request.
type denials struct {
	mu      sync.Mutex
	waiting map[*func(error)]struct{}
}

func (d *denials) denied(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for f := range d.waiting {
		(*f)(err)
	}
}

// watch calls f, which must not block, for each denial until stop is called.
func (d *denials) watch(f func(error)) (stop func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.waiting[&f] = struct{}{}
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.waiting, &f)
	}
}

// request calls do with a context that ends when the server denies a permission for such requests.
func (c *Client) request(ctx context.Context, do func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer c.denials.watch(func(err error) {
		if strings.Contains(err.Error(), `"$JS.`) || strings.Contains(err.Error(), `"_INBOX.`) {
			cancel(err)
		}
	})()
	err := do(ctx)
	if err != nil && ctx.Err() != nil {
		return c.unanswered(context.Cause(ctx))
	}
	return err
}

// unanswered describes the end of a wait for a reply, and why there may be none. A server that denied a
// subscription, such as that of the replies, has dropped it and will not restore it once it is permitted:
// therefore the client connects again.
func (c *Client) unanswered(err error) error {
	if !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	if last := c.conn.LastError(); errors.Is(last, nats.ErrPermissionViolation) {
		_ = c.conn.ForceReconnect()
		return fmt.Errorf("no reply in time; earlier: %w", last)
	}
	return errors.New("no reply in time")
}

// connected waits until there is a connection, or an attempt to make it fails.
func (c *Client) connected(ctx context.Context) error {
	for !c.conn.IsConnected() {
		select {
		case err := <-c.attempts:
			if err != nil {
				return err
			}
		case <-ctx.Done():
			return cmp.Or(c.conn.LastError(), ctx.Err())
		}
	}
	return nil
}

// stream returns the stream, and creates it if it is missing and Options.Create is set.
func (c *Client) stream(ctx context.Context) (jetstream.Stream, error) {
	if err := c.connected(ctx); err != nil {
		return nil, fmt.Errorf("no connection to NATS at %s: %w", c.opts.Address(), err)
	}
	var s jetstream.Stream
	err := c.request(ctx, func(ctx context.Context) (err error) {
		s, err = c.js.Stream(ctx, c.opts.Stream)
		if errors.Is(err, jetstream.ErrStreamNotFound) && c.opts.Create {
			s, err = c.js.CreateOrUpdateStream(ctx, jetstream.StreamConfig{
				Name: c.opts.Stream, Subjects: []string{Subjects}, MaxAge: c.opts.MaxAge, MaxBytes: cmp.Or(int64(c.opts.MaxBytes), -1),
			})
			if err == nil && c.opts.Created != nil {
				c.opts.Created(c.opts.Stream)
			}
		}
		return err
	})
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil, fmt.Errorf("stream %s does not exist: 'nats stream add %s --subjects \"%s\"' or NATS_CREATE_STREAM=true creates it", c.opts.Stream, c.opts.Stream, Subjects)
	}
	if errors.Is(err, jetstream.ErrJetStreamNotEnabled) || errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount) || errors.Is(err, nats.ErrNoResponders) {
		return nil, fmt.Errorf("the NATS at %s has no JetStream: start it with 'nats-server -js', or enable it for the account: %w", c.opts.Address(), err)
	}
	if err != nil {
		return nil, fmt.Errorf("ask NATS at %s for stream %s: %w", c.opts.Address(), c.opts.Stream, err)
	}
	return s, nil
}

// Publish implements bridge.Sink: a message goes to the subject of its topic and type, with its ID as
// Nats-Msg-Id, by which the server drops duplicates for a while. It returns after at most
// Options.Timeout.
func (c *Client) Publish(ctx context.Context, messages []cloudevents.Message) []error {
	ctx, cancel := context.WithTimeout(ctx, c.opts.Timeout)
	defer cancel()
	errs := make([]error, len(messages))
	if !c.exists || !c.conn.IsConnected() {
		if _, err := c.stream(ctx); err != nil {
			for i := range errs {
				errs[i] = err
			}
			return errs
		}
		c.exists = true
	}
	acks := make([]jetstream.PubAckFuture, len(messages))
	subjects := make([]string, len(messages))
	denied := make([]chan error, len(messages))
	for i := range messages {
		subjects[i], denied[i] = messages[i].Topic+"."+token(string(messages[i].Type)), make(chan error, 1)
	}
	defer c.denials.watch(func(err error) {
		for i, subject := range subjects {
			if strings.Contains(err.Error(), strconv.Quote(subject)) && len(denied[i]) == 0 {
				denied[i] <- err
			}
		}
	})()
	for i := range messages {
		m := &messages[i]
		msg := &nats.Msg{Subject: subjects[i], Data: m.Value, Header: nats.Header{}}
		for _, h := range m.Headers {
			msg.Header[h.Name] = append(msg.Header[h.Name], h.Value)
		}
		acks[i], errs[i] = c.js.PublishMsgAsync(msg, jetstream.WithMsgID(m.ID), jetstream.WithExpectStream(c.opts.Stream))
	}
	for i, ack := range acks {
		if errs[i] == nil {
			select {
			case <-ack.Ok():
			case errs[i] = <-ack.Err():
			case errs[i] = <-denied[i]:
			case <-ctx.Done():
				errs[i] = c.unanswered(ctx.Err())
			}
		}
		errs[i] = c.classify(errs[i], messages[i].Topic)
	}
	return errs
}

// Error codes that the client library does not name.
const (
	tooLarge      jetstream.ErrorCode = 10054 // a message is larger than the stream allows
	noSuchSubject jetstream.ErrorCode = 10093 // the stream has no subject of a consumer
)

// classify determines which messages will never be accepted.
func (c *Client) classify(err error, topic string) error {
	var api *jetstream.APIError
	switch {
	case err == nil:
		return nil
	case errors.Is(err, nats.ErrMaxPayload), errors.As(err, &api) && api.ErrorCode == tooLarge:
		return fmt.Errorf("%w: %w", cloudevents.ErrRefused, err)
	}
	c.exists = false                                  // it may have been deleted
	if errors.Is(err, nats.ErrReconnectBufExceeded) { // Options.connect allows no buffer
		return fmt.Errorf("no connection to NATS at %s", c.opts.Address())
	}
	if errors.Is(err, jetstream.ErrNoStreamResponse) {
		return fmt.Errorf("no stream takes the subject %s.TYPE: 'nats stream edit %s --subjects' adds %s.>: %w", topic, c.opts.Stream, topic, err)
	}
	return fmt.Errorf("publish to %s.TYPE of stream %s: %w", topic, c.opts.Stream, err)
}

// token converts a string to the last tokens of a subject; its dots separate them.
func token(text string) string {
	clean := strings.Map(func(r rune) rune {
		if r <= ' ' || r == '*' || r == '>' || r == '\u007f' {
			return '_'
		}
		return r
	}, text)
	parts := strings.Split(clean, ".")
	for i, part := range parts {
		if part == "" {
			parts[i] = "_"
		}
	}
	return strings.Join(parts, ".")
}

// Fetch implements bridge.Source. It reads each topic, a subject that may end in >, with an ordered
// consumer that begins after the position in Redis: the server keeps no position.
func (c *Client) Fetch(ctx context.Context, topics []string, after func(string) (cloudevents.Position, bool)) ([]cloudevents.Message, error) {
	if err := c.read(ctx, topics, after); err != nil {
		return nil, err
	}
	wait := time.NewTimer(c.opts.Wait)
	defer wait.Stop()
	var out []cloudevents.Message
	var lost error
	select {
	case a := <-c.arrived:
		out, lost = c.append(ctx, out, a)
	case <-wait.C:
		c.drained = true
		return nil, nil
	case <-ctx.Done():
		return nil, nil
	}
	for size := 0; len(out) < most && size < mostBytes && lost == nil; {
		select {
		case a := <-c.arrived:
			size += len(a.msg.Data())
			out, lost = c.append(ctx, out, a)
		default:
			c.drained = true
			return out, nil
		}
	}
	return out, lost
}

// checkEvery is how often Fetch checks the stream, as a multiple of Options.Wait, and tries again to read
// topics that could not be read. Meanwhile the others are read.
const checkEvery = 5

func (c *Client) due() bool { return time.Since(c.checked) >= checkEvery*c.opts.Wait }

// read starts the readers of new topics and ends the others.
func (c *Client) read(ctx context.Context, topics []string, after func(string) (cloudevents.Position, bool)) error {
	wanted := map[string]bool{}
	check := c.unknown || c.due()
	for _, topic := range topics {
		wanted[topic] = true
		check = check || c.readers[topic] == nil && !c.failed[topic]
	}
	for topic, r := range c.readers {
		select {
		case <-r.closed:
			check = true
			c.end(r)
		default:
			if !wanted[topic] {
				c.end(r)
			}
		}
	}
	if !check {
		return nil
	}
	lost := c.identify(ctx)
	if c.unknown {
		return lost
	}
	c.failed = map[string]bool{}
	errs := []error{lost}
	for _, topic := range topics {
		if c.readers[topic] == nil {
			err := c.begin(ctx, topic, after)
			errs, c.failed[topic] = append(errs, err), err != nil
		}
	}
	return errors.Join(errs...)
}

// identify ends readers if the stream was created again, or has lost its last messages, as in a power
// cut: it has other messages with the same numbers. The error says why that is unknown, or which messages
// were removed before they could be read.
func (c *Client) identify(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, c.opts.Timeout)
	defer cancel()
	c.checked = time.Now()
	s, err := c.stream(ctx)
	if c.unknown = err != nil; err != nil {
		return err
	}
	log, state := logOf(s), s.CachedInfo().State
	var errs []error
	for _, r := range c.readers {
		if log != c.log || r.last > state.LastSeq {
			c.end(r)
		} else if c.drained { // it has nothing more up to c.last
			errs = append(errs, c.lost(r))
			r.last = max(r.last, c.last)
			if r.pending > 0 { // some may have been removed
				if info, err := r.info(ctx); err == nil {
					r.pending = info.NumPending
				}
			}
		}
	}
	c.log, c.last, c.removed, c.drained = log, state.LastSeq, state.FirstSeq, false
	return errors.Join(errs...)
}

// lost returns an error if messages after the last one of a reader were removed before it could read them.
func (c *Client) lost(r *reader) error {
	if r.last == 0 || r.last+1 >= c.removed {
		return nil
	}
	return fmt.Errorf("%w, if the messages %d to %d of stream %s had some for %s: its limits have removed them since %[5]s was last read", cloudevents.ErrLost, r.last+1, c.removed-1, c.opts.Stream, r.topic)
}

// logOf identifies a stream: one that is deleted and created again gets another log.
func logOf(s jetstream.Stream) string {
	return strconv.FormatInt(s.CachedInfo().Created.UnixNano(), 36)
}

// start returns where to begin reading a topic in the stream that log identifies and whose last message
// has the number last, and the log of the topic's messages.
func start(topic, log string, last uint64, after func(string) (cloudevents.Position, bool)) (jetstream.DeliverPolicy, uint64, string) {
	p, known := after(cloudevents.PartitionName(topic, 0))
	switch {
	case !known || !p.Of(log):
		return jetstream.DeliverAllPolicy, 0, log
	case uint64(p.Offset) > last:
		return jetstream.DeliverByStartSequencePolicy, last + 1, cloudevents.AfterLoss(log, time.Now())
	}
	return jetstream.DeliverByStartSequencePolicy, uint64(p.Offset) + 1, p.Log
}

func (c *Client) begin(ctx context.Context, topic string, after func(string) (cloudevents.Position, bool)) error {
	config := jetstream.OrderedConsumerConfig{FilterSubjects: []string{topic}}
	r := &reader{topic: topic, ended: make(chan struct{})}
	config.DeliverPolicy, config.OptStartSeq, r.log = start(topic, c.log, c.last, after)
	r.last = max(config.OptStartSeq, 1) - 1
	ctx, cancel := context.WithTimeout(ctx, c.opts.Timeout)
	defer cancel()
	var consumer jetstream.Consumer
	err := c.request(ctx, func(ctx context.Context) (err error) {
		consumer, err = c.js.OrderedConsumer(ctx, c.opts.Stream, config)
		return err
	})
	if err != nil {
		return fmt.Errorf("read %s of stream %s: %w", topic, c.opts.Stream, err)
	}
	r.reading, err = consumer.Consume(func(msg jetstream.Msg) {
		select {
		case c.arrived <- arrival{r, msg}:
		case <-r.ended:
		}
	}, jetstream.PullMaxBytes(mostBytes+int(c.conn.MaxPayload()))) // a larger message would never arrive
	if err != nil {
		return fmt.Errorf("read %s of stream %s: %w", topic, c.opts.Stream, err)
	}
	r.closed, r.info = r.reading.Closed(), consumer.Info
	r.pending = consumer.CachedInfo().NumPending
	c.readers[topic] = r
	if p, known := after(cloudevents.PartitionName(topic, 0)); known && p.Of(c.log) && p.Log != r.log {
		return fmt.Errorf("%w: stream %s ends at message %d, but %d was read before", cloudevents.ErrLost, c.opts.Stream, c.last, p.Offset)
	}
	return nil
}

func (c *Client) end(r *reader) {
	delete(c.readers, r.topic)
	close(r.ended)
	r.reading.Stop()
}

// append adds a message that has arrived, unless its reader has ended: another reader then begins at
// that message. The client library replaces a consumer that no longer exists, even by one on a stream that was
// created again. The error says that messages before it are lost.
func (c *Client) append(ctx context.Context, out []cloudevents.Message, a arrival) ([]cloudevents.Message, error) {
	meta, err := a.msg.Metadata()
	if err != nil || c.readers[a.reader.topic] != a.reader {
		return out, nil //nolint:nilerr // no message of a stream
	}
	var lost error
	if replaced := meta.Consumer != a.reader.consumer; replaced || c.due() { // the process may have been suspended
		if lost = c.identify(ctx); c.unknown && replaced { // the next Fetch reports it
			c.end(a.reader)
		}
		if c.readers[a.reader.topic] != a.reader {
			return out, nil
		}
		a.reader.consumer = meta.Consumer
	}
	if meta.Sequence.Stream >= c.removed { // otherwise it was received before the removal
		lost = errors.Join(lost, c.lost(a.reader))
	}
	a.reader.pending, a.reader.last = meta.NumPending, meta.Sequence.Stream
	m := cloudevents.Message{
		Topic: a.reader.topic, Offset: int64(meta.Sequence.Stream), Log: a.reader.log, Value: a.msg.Data(),
	}
	for name, values := range a.msg.Headers() {
		for _, value := range values {
			m.Headers = append(m.Headers, cloudevents.Header{Name: name, Value: value})
		}
	}
	return append(out, m), lost
}

// Commit implements bridge.Source: the server keeps no position.
func (c *Client) Commit(context.Context, []cloudevents.Message) {}

// Lags implements bridge.Source. Do not call it concurrently with Fetch.
func (c *Client) Lags() map[string]int64 {
	out := map[string]int64{}
	if c.unknown || !c.conn.IsConnected() {
		return out
	}
	for topic, r := range c.readers {
		out[cloudevents.PartitionName(topic, 0)] = int64(r.pending)
	}
	return out
}

// Close ends the connection. Publications in progress may or may not have succeeded.
func (c *Client) Close() {
	for _, r := range c.readers {
		c.end(r)
	}
	c.conn.Close()
}

// State describes a stream, as the server reports it.
type State struct {
	Messages  uint64
	Uncovered []string // topics for publication whose subjects the stream does not have
	Unheard   []string // topics to listen to that the stream does not have
	Unlimited bool     // nothing is ever removed
	Full      int      // percentage of the limits above which the stream accepts nothing; 0 if it removes old messages instead
	Lag       uint64   // messages of the topics after their positions
}

// Inspect returns the state of the stream, and how many messages of the topics to listen to follow the
// position of each. The server itself keeps no position and does not redeliver.
func Inspect(ctx context.Context, o Options, publish, listen []string, after func(partition string) (cloudevents.Position, bool)) (State, error) {
	o.Create = false
	c, err := New(o)
	if err != nil {
		return State{}, err
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(ctx, o.Timeout)
	defer cancel()
	s, err := c.stream(ctx)
	if err != nil {
		return State{}, err
	}
	info := s.CachedInfo()
	state := State{Messages: info.State.Msgs}
	state.Unlimited = info.Config.Retention == jetstream.LimitsPolicy && info.Config.MaxAge == 0 &&
		info.Config.MaxBytes <= 0 && info.Config.MaxMsgs <= 0 && info.Config.MaxMsgsPerSubject <= 0
	if info.Config.Discard == jetstream.DiscardNew {
		state.Full = max(percentage(info.State.Msgs, info.Config.MaxMsgs), percentage(info.State.Bytes, info.Config.MaxBytes))
	}
	for _, topic := range publish {
		name := ""
		err := c.request(ctx, func(ctx context.Context) (err error) {
			name, err = c.js.StreamNameBySubject(ctx, topic+".>")
			return err
		})
		switch {
		case errors.Is(err, jetstream.ErrStreamNotFound), err == nil && name != o.Stream:
			state.Uncovered = append(state.Uncovered, topic)
		case err != nil:
			return state, fmt.Errorf("inspect the subjects of stream %s: %w", o.Stream, err)
		}
	}
	for _, topic := range listen {
		const soon = 5 * time.Second
		config := jetstream.ConsumerConfig{FilterSubject: topic, AckPolicy: jetstream.AckNonePolicy, InactiveThreshold: soon, MemoryStorage: true}
		config.DeliverPolicy, config.OptStartSeq, _ = start(topic, logOf(s), info.State.LastSeq, after)
		var consumer jetstream.Consumer
		err := c.request(ctx, func(ctx context.Context) (err error) {
			consumer, err = s.CreateConsumer(ctx, config)
			return err
		})
		if api, ok := errors.AsType[*jetstream.APIError](err); ok && api.ErrorCode == noSuchSubject {
			state.Unheard = append(state.Unheard, topic)
			continue
		}
		if err != nil {
			return state, fmt.Errorf("inspect %s of stream %s: %w", topic, o.Stream, err)
		}
		state.Lag += consumer.CachedInfo().NumPending
		_ = s.DeleteConsumer(ctx, consumer.CachedInfo().Name) // otherwise the server does, soon
	}
	return state, nil
}

// percentage returns the percentage of a limit; 0 if there is none.
func percentage(n uint64, limit int64) int {
	if limit <= 0 {
		return 0
	}
	return int(n * 100 / uint64(limit))
}
