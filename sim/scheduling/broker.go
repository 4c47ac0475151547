package scheduling

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"flunq.io/flunq/engine/schedule"
	"flunq.io/flunq/engine/scheduler"
	"flunq.io/flunq/sim/broker"
)

// The topics of requests.
const (
	scheduleTopic = "schedule_events"
	scheduleDLQ   = "schedule_events.dlq"
)

// openBroker starts the broker.
func (s *simulation) openBroker() {
	topics := map[string]int{scheduleTopic: 3, scheduleDLQ: 1}
	for _, topic := range []string{"orders", "payments", mendedTopic, failingTopic, awayTopic} {
		topics[topic] = 2
	}
	s.broker = broker.New(broker.Options{
		Topics: topics, ScheduleTopic: scheduleTopic, ScheduleDLQ: scheduleDLQ, Fetch: s.setting.Fetch, Hook: s.brokerRequest,
	})
}

// brokerRequest makes each request to the broker a call.
func (s *simulation) brokerRequest(_ context.Context, request, topic string, carryOut func()) error {
	done := s.enter("")
	if request == "Fetch" {
		s.idle()
	}
	defer done()
	return s.call(toBroker, strings.ToLower(request)+" "+topic, func() error {
		before := s.broker.Records(topic)
		carryOut()
		if request == "Produce" && topic != scheduleTopic && topic != scheduleDLQ {
			for _, m := range s.broker.Records(topic) {
				known := func(b schedule.Message) bool { return b.Partition == m.Partition && b.Offset == m.Offset }
				if !slices.ContainsFunc(before, known) {
					s.produced(m)
				}
			}
		}
		return nil
	})
}

// produced reports a record to the checker.
func (s *simulation) produced(m schedule.Message) {
	got := schedule.Content{Topic: m.Topic, Tenant: "default", Key: string(m.Key), Payload: m.Value}
	var id string
	for _, h := range m.Headers {
		switch {
		case h.Name == "ce_id":
			id = h.Value
		case h.Name == "flunq-scheduled-for":
			ms, _ := strconv.ParseInt(h.Value, 10, 64)
			got.Due = time.UnixMilli(ms)
		case !strings.HasPrefix(h.Name, "ce_") && !strings.HasPrefix(h.Name, "flunq-"):
			if got.Headers == nil {
				got.Headers = map[string]string{}
			}
			got.Headers[h.Name] = h.Value
		}
	}
	s.checker.received(s, id, got)
}

// session is the session timeout of a consumer.
const session = 10 * time.Second

// expel removes a process from the consumer group once its session timeout has passed, if it is
// dead or frozen then.
func (s *simulation) expel(p *process) {
	if s.broker == nil {
		return
	}
	s.at(s.now.Add(session), func() {
		if p.dead || s.now.Before(p.frozen) {
			s.broker.Expel(p.name())
		}
	})
}

// consumer returns the actor that reads the schedule topic.
func (s *simulation) consumer(feed *broker.Feed, ledger scheduler.Ledger, opts scheduler.APIOptions) scheduler.Actor {
	if s.mistake.Consumer != nil {
		ledger = s.mistake.Consumer(ledger)
	}
	retry := schedule.DefaultRetry()
	retry.First = retry.Longest / 2 // the simulated broker does not wait for messages
	c := scheduler.NewConsumer(feed, ledger, scheduler.ConsumerOptions{APIOptions: opts, Retry: retry})
	return scheduler.Actor{Name: "consumer", Step: c.Step}
}

// unread returns how many messages of the schedule topic no consumer has committed.
func (s *simulation) unread() int {
	n := len(s.broker.Records(scheduleTopic))
	for _, offset := range s.broker.Committed() {
		n -= int(offset)
	}
	return n
}
