package delivery

import (
	"time"

	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/store"
)

// Activity is one thing that a service did, as an Observer receives it.
type Activity struct {
	Service  string // "worker", "executor", "timer", "housekeeping" or "sweep"
	Consumer string
	What     What
	Message  store.Message      // the message it is about, if any
	Timer    *event.Timer       // the timer that was registered, cancelled or fired
	Task     string             // the kind of task that was performed
	At       time.Time          // Redis' time; zero if unknown
	Class    Class              // of Err
	Count    int                // of executions removed, of items restored, or of messages claimed together (0 for all but the first)
	Outcome  store.InputOutcome // of an input
	Err      error
}

// What is the kind of an Activity.
type What string

// The kinds of activities. A service handles one message between Began and Done, Failed,
// DeadLettered or Broken; a later step that resumes the message begins it again.
const (
	Began        What = "began"
	Done         What = "done"
	Failed       What = "failed" // will be delivered again
	DeadLettered What = "dead-lettered"
	Broken       What = "broken"  // with Err, mostly of Redis; the message is still held and begins again
	Claimed      What = "claimed" // from a consumer without a heartbeat
	Unread       What = "unread"  // a read failed
	Registered   What = "registered"
	Cancelled    What = "cancelled"
	Performed    What = "performed" // a task; with Err, it failed
	Firing       What = "firing"    // timers are about to be fired
	Fired        What = "fired"
	Unfired      What = "unfired"  // due timers could not be published
	Took         What = "took"     // an input was consumed or rejected: see Outcome
	Removed      What = "removed"  // ended executions, by the housekeeping
	Restored     What = "restored" // by the sweep: something that an execution waits for and Redis had lost
	Stuck        What = "stuck"    // an execution that nothing will wake and the sweep cannot repair
)

// Observer receives activities as they happen. The services call it concurrently, and it
// must not block. It may be nil.
type Observer func(Activity)

// Report calls the observer, unless it is nil.
func (o Observer) Report(a Activity) {
	if o != nil {
		o(a)
	}
}

// Report reports an activity to the consumer's observer.
func (c *Consumer) Report(a Activity) {
	a.Service, a.Consumer = c.opts.Service, c.opts.Consumer
	c.opts.Observe.Report(a)
}
