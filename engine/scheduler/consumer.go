package scheduler

import (
	"context"
	"strings"
	"time"

	"flunq.io/flunq/engine/schedule"
)

// Feed is a log of requests that a group of consumers shares. It belongs to one Consumer.
//
// Two feeds exist: kafka.Feed, and the simulated one of sim/broker.
type Feed interface {
	// Fetch returns the next messages, those of each partition in the order of their offsets, or none
	// if none arrive for a while. Before a partition is assigned to another process, all messages that
	// were fetched from it are either committed or fetched again there.
	Fetch(ctx context.Context) ([]schedule.Message, error)

	// Commit records that messages, and all before them, need not be read again.
	Commit(ctx context.Context, messages []schedule.Message) error

	// Reject publishes a message that cannot be read, with the reason, where an operator finds it.
	// After an error it may have been published.
	Reject(ctx context.Context, message schedule.Message, reason string) error
}

// Producer sends requests, which a Consumer reads from a Feed.
type Producer interface {
	// Send sends a request for each event and returns one error for each, nil if it was certainly sent.
	// The errors wrap those of package schedule, like those of a Sink.
	Send(ctx context.Context, events []schedule.Event) []error
}

// Consumer stores the events that a feed requests. It commits messages only after their events are
// stored or, if they are invalid, rejected.
type Consumer struct {
	feed Feed
	api  *API
	opts ConsumerOptions

	// fetched are messages that are not committed. No others are fetched before they are.
	fetched  []schedule.Message
	failures int // consecutive
}

// ConsumerOptions configures a Consumer.
type ConsumerOptions struct {
	APIOptions

	Retry schedule.Retry // determines the pauses after failures of the ledger
	// Rejected, if set, receives each invalid message.
	Rejected func(m schedule.Message, reason string)
}

// NewConsumer returns a Consumer that stores events in a ledger.
func NewConsumer(feed Feed, ledger Ledger, opts ConsumerOptions) *Consumer {
	return &Consumer{feed: feed, api: NewAPI(ledger, opts.APIOptions), opts: opts}
}

// Step handles the next messages. It returns how long to wait until the next step. After an error,
// the next step handles the same messages again.
func (c *Consumer) Step(ctx context.Context) (time.Duration, error) {
	if err := c.step(ctx); err != nil {
		c.failures++
		return c.opts.Retry.Pause(c.failures), err
	}
	c.failures = 0
	if len(c.fetched) == 0 { // the feed has already waited for some
		return c.opts.Retry.First, nil
	}
	c.fetched = nil
	return 0, nil
}

func (c *Consumer) step(ctx context.Context) (err error) {
	if len(c.fetched) == 0 {
		if c.fetched, err = c.feed.Fetch(ctx); err != nil || len(c.fetched) == 0 {
			return err
		}
	}
	reasons := make([]string, len(c.fetched))
	if err := c.place(ctx, reasons); err != nil {
		return err
	}
	for i, reason := range reasons {
		if reason == "" {
			continue
		}
		if err := c.feed.Reject(ctx, c.fetched[i], reason); err != nil {
			return err
		}
		if c.opts.Rejected != nil {
			c.opts.Rejected(c.fetched[i], reason)
		}
	}
	return c.feed.Commit(ctx, c.fetched)
}

// place stores the events of the fetched messages, and sets the reasons why others cannot be stored.
func (c *Consumer) place(ctx context.Context, reasons []string) error {
	now := c.api.now(ctx, false)
	var events []schedule.Event
	var at []int // the message of each event
	for i := range c.fetched {
		id, content, err := c.fetched[i].Request()
		e := c.api.event(Request{ID: id, Content: content}, now)
		if err == nil {
			err = c.opts.Limits.CheckQueued(id, e.Content, now)
		}
		if err != nil {
			reasons[i] = strings.ReplaceAll(err.Error(), "\n", "; ")
			continue
		}
		events, at = append(events, e), append(at, i)
	}
	if len(events) == 0 {
		return nil
	}
	placed, err := c.api.place(ctx, events)
	if err != nil {
		return err
	}
	for n, p := range placed {
		if !p.Created && p.Event.Version == 1 && !p.Event.Equal(events[n].Content) {
			// A higher version may have been changed after the message was sent.
			reasons[at[n]] = differentContent
		}
	}
	return nil
}
