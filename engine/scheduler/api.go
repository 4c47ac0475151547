package scheduler

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"flunq.io/flunq/engine/schedule"
)

// MaxBatch is the maximum number of events in a batch: those that one call schedules, or a worker
// publishes together.
const MaxBatch = 1000

// API answers the requests of clients, independently of the protocol. A returned error says that the
// ledger cannot answer: the client may try again.
type API struct {
	ledger Ledger
	opts   APIOptions
}

// APIOptions configures an API.
type APIOptions struct {
	Limits schedule.Limits
	Tenant string // default for requests
	Topic  string // default for requests; "": requests without a topic are rejected
	// Now returns the time of Redis, as exactly as the process knows it.
	Now func() time.Time
	// ReadTime, if set, makes Now exact. It is called for requests with a delay and for times that seem to be
	// too early or too late: after a jump of Redis' clock, Now is wrong for some seconds.
	ReadTime func(context.Context) error
	// Notify, if set, receives the id and the due time of each event that became SCHEDULED or was moved.
	Notify func(id string, due time.Time)
	// Answered, if set, receives the outcome of each request to schedule or cancel an event.
	Answered func(cancel bool, code schedule.Code)
}

// NewAPI returns an API on a ledger.
func NewAPI(ledger Ledger, opts APIOptions) *API { return &API{ledger, opts} }

// Now returns the time of Redis, as exactly as the process knows it.
func (a *API) Now() time.Time { return a.opts.Now() }

// Request is a request to schedule one event.
type Request struct {
	ID string
	schedule.Content
	After   time.Duration // until Due, from now; only without a Due
	Replace bool          // replace an event with this id and other content, if it was never tried
}

// now returns the time of Redis, truncated to milliseconds: the estimate of the process or, with exactly,
// what Redis replies if it is available.
func (a *API) now(ctx context.Context, exactly bool) time.Time {
	if exactly && a.opts.ReadTime != nil {
		_ = a.opts.ReadTime(ctx) // a table and a feed also take events while Redis is unavailable
	}
	return a.opts.Now().Truncate(time.Millisecond)
}

// differentContent says why an event is neither stored nor replaced.
const differentContent = "an event with this id and different content exists"

// Schedule stores events. The result has one outcome for each request. A repeated request, for
// example after a lost reply, succeeds again, even if the event has already been published.
func (a *API) Schedule(ctx context.Context, requests []Request) ([]schedule.Outcome, error) {
	now := a.now(ctx, false)
	// A request that seems invalid, or that has a delay and so no Due, needs the exact time.
	if slices.ContainsFunc(requests, func(r Request) bool { return a.opts.Limits.CheckDue(r.Due, now) != nil }) {
		now = a.now(ctx, true)
	}
	out := make([]schedule.Outcome, len(requests))
	events := make([]schedule.Event, 0, len(requests))
	at := make([]int, 0, len(requests)) // the request of each event
	var refused []int
	for i, r := range requests {
		e := a.event(r, now)
		if err := a.opts.Limits.Check(r.ID, e.Content, now); err != nil {
			out[i] = schedule.Outcome{Code: schedule.BadRequest, Message: strings.ReplaceAll(err.Error(), "\n", "; ")}
			refused = append(refused, i)
			continue
		}
		events, at = append(events, e), append(at, i)
	}
	if err := a.repeated(ctx, requests, refused, out); err != nil {
		return nil, err
	}
	if len(events) > 0 {
		placed, err := a.place(ctx, events)
		if err != nil {
			return nil, err
		}
		for n, p := range placed {
			i := at[n]
			out[i] = schedule.Outcome{Created: p.Created, Event: p.Event}
			switch {
			case p.Created || requests[i].repeats(events[n].Content, p.Event):
			case requests[i].Replace:
				change := schedule.Change{Kind: schedule.Replace, Content: events[n].Content}
				if out[i], err = a.ledger.Change(ctx, events[n].ID, change, now); err != nil {
					return nil, err
				}
				a.notify(out[i])
			default:
				out[i].Code, out[i].Message = schedule.Conflict, differentContent
			}
		}
	}
	if a.opts.Answered != nil {
		for _, o := range out {
			a.opts.Answered(false, o.Code)
		}
	}
	return out, nil
}

// place stores events, only the first of those with the same id, and returns an element for each event.
func (a *API) place(ctx context.Context, events []schedule.Event) ([]schedule.Placed, error) {
	unique := make([]schedule.Event, 0, len(events))
	at := make(map[string]int, len(events)) // the index in unique
	for _, e := range events {
		if _, repeated := at[e.ID]; !repeated {
			at[e.ID], unique = len(unique), append(unique, e)
		}
	}
	placed, err := a.ledger.Place(ctx, unique)
	if err != nil {
		return nil, err
	}
	out := make([]schedule.Placed, len(events))
	for i, e := range events {
		p := &placed[at[e.ID]]
		if out[i] = *p; p.Created {
			a.notify(schedule.Outcome{Event: p.Event})
		}
		p.Created = false // for the others with this id
	}
	return out, nil
}

// repeated corrects the outcomes of requests that are rejected now but succeeded before, for example
// because their event has fired in the meantime.
func (a *API) repeated(ctx context.Context, requests []Request, refused []int, out []schedule.Outcome) error {
	var ids []string
	var at []int
	for _, i := range refused {
		if schedule.CheckID(requests[i].ID) == nil {
			ids, at = append(ids, strings.ToLower(requests[i].ID)), append(at, i)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	found, err := a.ledger.Get(ctx, ids)
	if err != nil {
		return err
	}
	for n, e := range found {
		if i := at[n]; e != nil && requests[i].repeats(a.event(requests[i], time.Time{}).Content, e) {
			out[i] = schedule.Outcome{Event: e}
		}
	}
	return nil
}

// repeats reports whether a request with this content is a repeated request for an existing event. A
// request with a delay has a different due time each time; with Replace it moves the event.
func (r Request) repeats(c schedule.Content, e *schedule.Event) bool {
	if r.Due.IsZero() && r.After != 0 && !r.Replace {
		c.Due = e.Due
	}
	return c.Equal(e.Content)
}

// event returns the event that a request asks for, with all defaults.
func (a *API) event(r Request, now time.Time) schedule.Event {
	c := r.Content
	c.Due = due(c.Due, r.After, now)
	c.Topic, c.Tenant = cmp.Or(c.Topic, a.opts.Topic), cmp.Or(c.Tenant, a.opts.Tenant)
	id := strings.ToLower(r.ID)
	if c.Key == id {
		c.Key = ""
	}
	return schedule.Event{
		Content: c, ID: id, Status: schedule.Scheduled, Version: 1, Next: c.Due, Created: now, Updated: now,
	}
}

// due returns when an event is due that was requested for a time or after a delay. It rounds up to a
// millisecond, since an event is never early.
func due(at time.Time, after time.Duration, now time.Time) time.Time {
	if at.IsZero() && after != 0 {
		at = now.Add(after)
	}
	return at.UTC().Add(time.Millisecond - 1).Truncate(time.Millisecond)
}

// Change cancels, moves, replays or drops an event.
func (a *API) Change(ctx context.Context, id string, change schedule.Change) (schedule.Outcome, error) {
	now := a.now(ctx, change.Kind == schedule.Move)
	err := schedule.CheckID(id)
	if err == nil && change.Kind == schedule.Move {
		change.Due = due(change.Due, change.After, now)
		err = a.opts.Limits.CheckDue(change.Due, now)
	}
	out := schedule.Outcome{Code: schedule.BadRequest}
	if err != nil {
		out.Message = err.Error()
	} else if out, err = a.ledger.Change(ctx, strings.ToLower(id), change, now); err != nil {
		return out, err
	}
	a.notify(out)
	if change.Kind == schedule.Cancel && a.opts.Answered != nil {
		a.opts.Answered(true, out.Code)
	}
	return out, nil
}

func (a *API) notify(o schedule.Outcome) {
	if a.opts.Notify != nil && o.Code == schedule.Success && o.Event.Status == schedule.Scheduled {
		a.opts.Notify(o.Event.ID, o.Event.Next)
	}
}

// Get returns an event: schedule.RecordFound, or schedule.NotFound.
func (a *API) Get(ctx context.Context, id string) (schedule.Outcome, error) {
	if err := schedule.CheckID(id); err != nil {
		return schedule.Outcome{Code: schedule.BadRequest, Message: err.Error()}, nil //nolint:nilerr // the outcome has the message
	}
	found, err := a.ledger.Get(ctx, []string{strings.ToLower(id)})
	switch {
	case err != nil:
		return schedule.Outcome{}, err
	case found[0] == nil:
		return schedule.Outcome{Code: schedule.NotFound, Message: "there is no event " + id}, nil
	}
	return schedule.Outcome{Code: schedule.RecordFound, Event: found[0]}, nil
}

// List returns a page of events and the cursor of the next page.
func (a *API) List(ctx context.Context, filter schedule.Filter) ([]schedule.Event, string, error) {
	if filter.Limit < 0 || filter.Limit > MaxBatch {
		return nil, "", fmt.Errorf("limit is %d, want 1 to %d", filter.Limit, MaxBatch)
	}
	filter.Limit = cmp.Or(filter.Limit, 100)
	return a.ledger.List(ctx, filter)
}

// Partitions returns the partitions and the processes that share them. If count is not 0, it first
// changes the number of partitions from from to count.
func (a *API) Partitions(ctx context.Context, from, count int) (schedule.Members, schedule.Outcome, error) {
	var out schedule.Outcome
	if count < 0 || count > MaxPartitions {
		out.Code, out.Message = schedule.BadRequest, fmt.Sprintf("count is %d: want 1 to %d", count, MaxPartitions)
		return schedule.Members{}, out, nil
	}
	var conflict error
	if count > 0 {
		conflict = a.ledger.SetPartitions(ctx, from, count)
		if conflict != nil && !errors.Is(conflict, schedule.ErrPartitions) {
			return schedule.Members{}, out, conflict
		}
	}
	members, err := a.ledger.Members(ctx, "", 0)
	if conflict != nil {
		out.Code, out.Message = schedule.Conflict, fmt.Sprintf("from is %d: the number of partitions is %d", from, members.Count)
	}
	return members, out, err
}
