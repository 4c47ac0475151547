package kafka

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"flunq.io/flunq/engine/schedule"
)

// producer publishes records with acks from all in-sync replicas. For each failed record it reports
// whether it may have been published.
//
// It relies on the guarantees of the client's idempotent producer: a batch without a reply is sent
// again with the same sequence number so that the broker drops it if it has it; and a record fails
// only if it was not sent since the last reply, otherwise it stays in the client. Two cases remain.
// A batch whose reply was lost, and which is then sent again and rejected, may have been written the
// first time: session counts lost replies. A batch without any reply before the timeout blocks all
// later ones of its partition: its session is closed and replaced.
type producer struct {
	opts   Options
	topics *topics

	mu       sync.Mutex
	shared   *session // of all records
	isolated *session // of records whose shared batch was rejected; nil if unused
	closed   bool
	// isolating is held while a record is sent separately.
	isolating sync.Mutex
}

func newProducer(o Options) (*producer, error) {
	s, err := newSession(o)
	if err != nil {
		return nil, err
	}
	return &producer{opts: o, topics: newTopics(o.TopicWait), shared: s}, nil
}

// publish publishes records and returns one error for each. The errors wrap those of package
// schedule. It returns after at most opts.Timeout, and at most a part of that after ctx ended.
func (p *producer) publish(ctx context.Context, records []*kgo.Record) []error {
	const parts = 5 // the client gives up one part earlier, to report the state of each record
	soft, cancelSoft := context.WithTimeout(ctx, p.opts.Timeout/parts*(parts-1))
	defer cancelSoft()
	hard, cancelHard := context.WithCancel(context.WithoutCancel(ctx))
	defer cancelHard()
	defer context.AfterFunc(soft, func() { time.AfterFunc(p.opts.Timeout/parts, cancelHard) })() // stopped before soft ends here

	errs := make([]error, len(records))
	s, err := p.session(&p.shared)
	if err != nil {
		for i := range errs {
			errs[i] = fmt.Errorf("%w: %w", schedule.ErrUnreachable, err)
		}
		return errs
	}
	p.topics.check(soft, s, records, errs)
	var which []int
	for i, err := range errs {
		if err == nil {
			which = append(which, i)
		}
	}
	p.produce(soft, hard, s, records, which, errs)
	p.isolate(soft, hard, records, errs)
	return errs
}

// produce produces some of the records and waits for the replies. After soft ends, it waits only for
// records that the client cannot take back.
func (p *producer) produce(soft, hard context.Context, s *session, records []*kgo.Record, which []int, errs []error) {
	type end struct {
		i   int
		err error
	}
	before := s.state()
	ends := make(chan end, len(which))
	for _, i := range which {
		s.client.TryProduce(soft, records[i], func(_ *kgo.Record, err error) { ends <- end{i, err} })
	}
	over := hard.Done()
	rejected := false
	for range which {
		var e end
		select {
		case e = <-ends:
		case <-over:
			over = nil
			p.drop(s) // ends all its records
			e = <-ends
		}
		if over == nil && errors.Is(e.err, kgo.ErrClientClosed) {
			e.err = errUnconfirmed
		}
		if e.err != nil {
			errs[e.i] = p.classify(e.err, before, s, records[e.i].Topic)
			reply, replied := errors.AsType[*kerr.Error](e.err)
			rejected = rejected || replied && !reply.Retriable
		}
	}
	if rejected {
		p.renew(hard, s)
	}
}

// renew drops a session without a producer ID: once a broker has refused one, as without the right to
// write idempotently, the client never asks again.
func (p *producer) renew(ctx context.Context, s *session) {
	_, _, err := s.client.ProducerID(ctx)
	if reply, replied := errors.AsType[*kerr.Error](err); replied && !reply.Retriable {
		p.drop(s)
	}
}

// isolate finds the record that caused the rejection of its batch: it sends each record of the batch
// separately. Records for which no time is left are retried later.
func (p *producer) isolate(soft, hard context.Context, records []*kgo.Record, errs []error) {
	var which []int
	for i, err := range errs {
		if batch, ok := errors.AsType[*batchError](err); ok {
			errs[i] = fmt.Errorf("%w: a record in its batch: %w", schedule.ErrUnavailable, batch.reply)
			which = append(which, i)
		}
	}
	if len(which) == 0 || !p.isolating.TryLock() {
		return
	}
	defer p.isolating.Unlock()
	for _, i := range which {
		s, err := p.session(&p.isolated)
		if err != nil || soft.Err() != nil {
			return
		}
		one := []error{nil}
		p.produce(soft, hard, s, records[i:i+1], []int{0}, one)
		if batch, ok := errors.AsType[*batchError](one[0]); ok {
			one[0] = fmt.Errorf("%w: %w", schedule.ErrRefused, batch.reply)
		}
		errs[i] = one[0]
	}
}

// batchError is the error of all records in a batch that was rejected because of one of them.
type batchError struct{ reply *kerr.Error }

func (b *batchError) Error() string { return b.reply.Error() }

var errUnconfirmed = errors.New("no broker has confirmed it in time")

// classify wraps an error of the client according to whether the record may have been published.
// before is the session's state before the record was produced.
func (p *producer) classify(err error, before state, s *session, topic string) error {
	takenBack := errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
	if errors.Is(err, context.DeadlineExceeded) {
		err = errUnconfirmed
	}
	wrap := func(kind error) error { return fmt.Errorf("%w: %w", kind, err) }
	unknown := fmt.Errorf("it may have been published: %w", err)
	now := s.state()
	reply, replied := errors.AsType[*kerr.Error](err)
	dial, ok := errors.AsType[*net.OpError](err)
	switch {
	case before.open == 0 && now.connects == before.connects:
		return wrap(schedule.ErrUnreachable)
	case now.lost != before.lost:
		return unknown
	case replied && (reply == kerr.UnknownTopicOrPartition || reply == kerr.UnknownTopicID):
		p.topics.forget(s, topic) // it was deleted
		return wrap(schedule.ErrUnavailable)
	case replied:
		return classifyReply(reply, err)
	case takenBack, errors.Is(err, kgo.ErrMaxBuffered),
		ok && dial.Op == "dial":
		if now.open == 0 {
			return wrap(schedule.ErrUnreachable)
		}
		return wrap(schedule.ErrUnavailable)
	default:
		return unknown
	}
}

// classifyReply wraps the broker's reply to a record that was sent only once, or that was written by
// no attempt.
func classifyReply(reply *kerr.Error, err error) error {
	wrap := func(kind error) error { return fmt.Errorf("%w: %w", kind, err) }
	switch reply {
	case kerr.MessageTooLarge, kerr.RecordListTooLarge, kerr.InvalidRecord, kerr.InvalidTimestamp:
		return &batchError{reply}
	case kerr.InvalidTopicException, kerr.TopicAuthorizationFailed, kerr.PolicyViolation, kerr.UnsupportedForMessageFormat:
		return wrap(schedule.ErrRefused)
	case kerr.UnknownServerError, kerr.RequestTimedOut, kerr.NotEnoughReplicasAfterAppend:
		return fmt.Errorf("it may have been published: %w", err)
	case kerr.ClusterAuthorizationFailed, kerr.SaslAuthenticationFailed, kerr.UnsupportedSaslMechanism:
		return wrap(schedule.ErrUnreachable) // the fault of this process, not of the event
	}
	if reply.Retriable {
		return wrap(schedule.ErrUnavailable)
	}
	return wrap(schedule.ErrNotPublished)
}

// session returns *at, and creates the session if it is nil.
func (p *producer) session(at **session) (*session, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, kgo.ErrClientClosed
	}
	if *at != nil {
		return *at, nil
	}
	s, err := newSession(p.opts)
	if err == nil {
		*at = s
	}
	return s, err
}

// drop closes a session: its records fail, and later ones use a new session.
func (p *producer) drop(s *session) {
	p.mu.Lock()
	for _, at := range []**session{&p.shared, &p.isolated} {
		if *at == s {
			*at = nil
		}
	}
	p.mu.Unlock()
	s.client.Close()
}

// close closes the producer. Records without a reply may have been published.
func (p *producer) close() {
	p.mu.Lock()
	p.closed = true
	open := []*session{p.shared, p.isolated}
	p.mu.Unlock()
	for _, s := range open {
		if s != nil {
			p.drop(s)
		}
	}
}

// session is a client and the state of its connections.
type session struct {
	client               *kgo.Client
	open, connects, lost atomic.Int64
}

// state is a snapshot of a session.
type state struct {
	open     int64 // connections
	connects int64 // connections that were ever open
	lost     int64 // produce requests that were sent, at least in part, without a reply
}

func newSession(o Options) (*session, error) {
	s := &session{}
	cl, err := o.client(
		kgo.WithHooks(s),
		kgo.ProducerBatchCompression(codecs()[o.Compression], kgo.NoCompression()),
		kgo.ProducerLinger(o.Linger),
		kgo.UnknownTopicRetries(1),
		// The caller itself repeats what a broker does not accept now: other topics need not wait, and
		// the error is what the broker said.
		kgo.RecordRetries(1),
	)
	s.client = cl
	return s, err
}

func (s *session) state() state { return state{s.open.Load(), s.connects.Load(), s.lost.Load()} }

// OnBrokerConnect implements kgo.HookBrokerConnect.
func (s *session) OnBrokerConnect(_ kgo.BrokerMetadata, _ time.Duration, _ net.Conn, err error) {
	if err == nil {
		s.open.Add(1)
		s.connects.Add(1)
	}
}

// OnBrokerDisconnect implements kgo.HookBrokerDisconnect.
func (s *session) OnBrokerDisconnect(kgo.BrokerMetadata, net.Conn) { s.open.Add(-1) }

// OnBrokerE2E implements kgo.HookBrokerE2E.
func (s *session) OnBrokerE2E(_ kgo.BrokerMetadata, key int16, e kgo.BrokerE2E) {
	if key == int16(kmsg.Produce) && e.BytesWritten > 0 && (e.WriteErr != nil || e.ReadErr != nil) {
		s.lost.Add(1)
	}
}
