package executor

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/stream"
)

// outbox sends the results of tasks. While one executor sends, others wait; then one of those
// sends the results of all in one round trip.
type outbox struct {
	store     *store.Store
	unbatched bool // each executor sends its own results, without waiting

	mu      sync.Mutex
	sending bool
	waiting []*submission
}

// submission holds the jobs whose results one executor wants to send.
type submission struct {
	jobs []*job
	turn chan bool // false: it was sent; true: its owner sends for all that wait
}

// send reports the results of jobs and records in each job why it could not be reported. It returns
// the first such error.
func (o *outbox) send(ctx context.Context, jobs []*job) error {
	ctx = context.WithoutCancel(ctx) // the tasks were performed and must be reported even during shutdown
	own := &submission{jobs: jobs, turn: make(chan bool, 1)}
	o.mu.Lock()
	o.waiting = append(o.waiting, own)
	wait := o.sending && !o.unbatched
	o.sending = true
	o.mu.Unlock()
	if !wait || <-own.turn {
		o.mu.Lock()
		submissions := o.waiting
		o.waiting = nil
		o.mu.Unlock()
		var all []*job
		for _, p := range submissions {
			all = append(all, p.jobs...)
		}
		o.reply(ctx, all)
		o.mu.Lock()
		for _, p := range submissions {
			if p != own {
				p.turn <- false
			}
		}
		if o.sending = len(o.waiting) > 0; o.sending {
			o.waiting[0].turn <- true // it sends next
		}
		o.mu.Unlock()
	}
	for _, j := range jobs {
		if j.err != nil {
			return j.err
		}
	}
	return nil
}

// reply sends replies and acknowledges their requests, tenant by tenant, so that an error in one
// tenant's stream does not affect the others. A request that another consumer has claimed is not an
// error.
//
// Tasks that have no reply yet have ended at Redis' current time, which is read once, or on a cluster once
// for each tenant. If Redis does not respond, it is the time of the read so that the lack of a time does
// not cause a task to be performed again.
func (o *outbox) reply(ctx context.Context, jobs []*job) {
	slices.SortStableFunc(jobs, func(a, b *job) int { return strings.Compare(a.message.Tenant, b.message.Tenant) })
	var now time.Time // zero if unknown
	asked := false
	for len(jobs) > 0 {
		tenant := jobs[0].message.Tenant
		asked = asked && !o.store.Keys().Clustered()
		var replies []stream.Reply
		for n := 0; n < len(jobs) && jobs[n].message.Tenant == tenant; n++ {
			j := jobs[n]
			if j.reply == nil {
				if !asked {
					now, _ = o.store.NowOf(ctx, tenant)
					asked = true
				}
				j.report(cmp.Or(now, j.message.Read))
			}
			replies = append(replies, stream.Reply{Message: &j.message, Event: j.reply})
		}
		sent, err := stream.New(o.store).Replies(ctx, replies)
		for i, j := range jobs[:len(replies)] {
			j.err = nil
			if !sent[i] {
				j.err = err
			}
		}
		jobs = jobs[len(replies):]
	}
}

// Source is the source attribute of an executor's events.
const Source = decide.Prefix + "executor"

// report makes the reply to a request whose task ended at now.
func (j *job) report(now time.Time) {
	m := &j.message
	j.result.DurationMS = now.Sub(m.Read).Milliseconds()
	j.reply = &event.Event{
		ID: m.Event.ID + "/done", Source: Source, Type: event.TaskCompleted, Time: now,
		Tenant: m.Tenant, Workflow: m.Event.Workflow, Execution: m.Event.Execution, Task: m.Event.Task,
		Data: completed(j.result),
	}
}

// completed encodes the data of a reply. It does not escape HTML so that an output that is HTML does
// not grow.
func completed(c *event.Completed) []byte {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(c); err != nil {
		panic(fmt.Sprintf("encode the result of %s: %v", c.TaskID, err)) // outputs are JSON
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n"))
}
