package delivery

import (
	"time"

	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/store"
)

// Activity is something that a service did.
type Activity struct {
	Service  string // "worker", "executor" or "timer"
	Consumer string
	What     What
	Message  store.Message // that it did it with, if any
	Timer    *event.Timer  // that was registered, cancelled or fired
	Task     string        // the kind of task that was performed
	At       time.Time     // Redis' time; zero where it was not asked for
	Class    Class         // of Err
	Count    int           // of executions that were removed, of things that were restored
	Err      error
}

// What is the kind of an Activity.
type What string

// The kinds of activities. Between Began and Done, Failed, Buried or Broken a
// service handles one message; a step that comes back to it begins again.
const (
	Began        What = "began"
	Done         What = "done"
	Failed       What = "failed"  // will be delivered again
	DeadLettered What = "buried"  // is a dead letter now
	Broken       What = "broken"  // Redis did not let it finish; it is still held
	Claimed      What = "claimed" // taken over from a silent consumer
	Unread       What = "unread"  // nothing could be read
	Registered   What = "registered"
	Cancelled    What = "cancelled"
	Performed    What = "performed" // a task, well or, with Err, not
	Firing       What = "firing"    // timers are about to be fired
	Fired        What = "fired"
	Unfired      What = "unfired"  // what was due could not be published
	Removed      What = "removed"  // executions that had ended, by the housekeeping
	Restored     What = "restored" // what an execution waits for and Redis had lost, by the sweep
	Stuck        What = "stuck"    // an execution that nothing will wake, and that the sweep cannot help
)

// Observer is shown activities as they happen. It is called from all services at
// once, and must not keep them waiting; nil is shown nothing.
type Observer func(Activity)

// Tell shows the desk's observer an activity.
func (d *Consumer) Tell(a Activity) {
	if d.opts.Observe == nil {
		return
	}
	a.Service, a.Consumer = d.opts.Service, d.opts.Consumer
	d.opts.Observe(a)
}
