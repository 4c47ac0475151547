package scheduler

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"flunq.io/flunq/engine/schedule"
)

// MostAtOnce is how many events one call schedules at most.
const MostAtOnce = 1000

// API answers the requests of clients, whatever protocol they speak. A returned error says
// that the ledger cannot answer: the client may try again.
type API struct {
	ledger Ledger
	opts   APIOptions
}

// APIOptions configure an API.
type APIOptions struct {
	Limits schedule.Limits
	Tenant string // of requests that name none
	Topic  string // of requests that name none; "": they are refused
	// Now returns the time of Redis, as exactly as the process knows it.
	Now func() time.Time
}

// NewAPI returns an API on a ledger.
func NewAPI(ledger Ledger, opts APIOptions) *API { return &API{ledger, opts} }

// Request asks for one event.
type Request struct {
	ID string
	schedule.Content
	After   time.Duration // until Due, from now; only without a Due
	Replace bool          // an event with this id but another content, if it was never tried
}

// Schedule stores events. The result has one outcome for each request. A request that is
// repeated, as after a lost reply, succeeds again, even when the event has been published.
func (a *API) Schedule(ctx context.Context, requests []Request) ([]schedule.Outcome, error) {
	now := a.opts.Now().Truncate(time.Millisecond)
	out := make([]schedule.Outcome, len(requests))
	var events []schedule.Event
	var at []int // the request of each event
	for i, r := range requests {
		content := a.content(r, now)
		if err := a.opts.Limits.Check(r.ID, content, now); err != nil {
			repeated, wrong := a.repeated(ctx, r, content)
			if wrong != nil {
				return nil, wrong
			}
			if out[i] = repeated; repeated.Event == nil {
				out[i] = schedule.Outcome{Code: schedule.BadRequest, Message: strings.ReplaceAll(err.Error(), "\n", "; ")}
			}
			continue
		}
		events, at = append(events, newEvent(r.ID, content, now)), append(at, i)
	}
	if len(events) == 0 {
		return out, nil
	}
	placed, err := a.ledger.Place(ctx, events)
	if err != nil {
		return nil, err
	}
	for n, p := range placed {
		i := at[n]
		out[i] = schedule.Outcome{Created: p.Created, Event: &p.Event}
		switch {
		case p.Created || requests[i].asksFor(p.Event.Content, events[n].Content):
		case requests[i].Replace:
			change := schedule.Change{Kind: schedule.Replace, Content: events[n].Content}
			if out[i], err = a.ledger.Change(ctx, events[n].ID, change, now); err != nil {
				return nil, err
			}
		default:
			out[i].Code, out[i].Message = schedule.Conflict, "an event with this id and another content exists"
		}
	}
	return out, nil
}

// asksFor reports whether a request that stands for a content asks for the stored one: a delay
// counts from the first time that it was asked for.
func (r Request) asksFor(stored, content schedule.Content) bool {
	if r.Due.IsZero() {
		content.Due = stored.Due
	}
	return content.Equal(stored)
}

// repeated returns the outcome of a request that is not valid, if it was valid before: the
// event exists. Without one, the outcome has no Event.
func (a *API) repeated(ctx context.Context, r Request, content schedule.Content) (schedule.Outcome, error) {
	if schedule.CheckID(r.ID) != nil {
		return schedule.Outcome{}, nil
	}
	found, err := a.ledger.Get(ctx, []string{strings.ToLower(r.ID)})
	if err != nil || found[0] == nil || !r.asksFor(found[0].Content, content) {
		return schedule.Outcome{}, err
	}
	return schedule.Outcome{Event: found[0]}, nil
}

// content returns the content that a request stands for, with all defaults.
func (a *API) content(r Request, now time.Time) schedule.Content {
	c := r.Content
	c.Due = due(c.Due, r.After, now)
	if c.Topic == "" {
		c.Topic = a.opts.Topic
	}
	if c.Tenant == "" {
		c.Tenant = a.opts.Tenant
	}
	if c.Key == r.ID {
		c.Key = ""
	}
	return c
}

// due returns when an event is due that was asked for at a time, or after a delay.
func due(at time.Time, after time.Duration, now time.Time) time.Time {
	if at.IsZero() && after != 0 {
		at = now.Add(after)
	}
	return at.UTC().Truncate(time.Millisecond)
}

func newEvent(id string, c schedule.Content, now time.Time) schedule.Event {
	return schedule.Event{
		Content: c, ID: strings.ToLower(id), Status: schedule.Scheduled, Version: 1, Next: c.Due, Created: now, Updated: now,
	}
}

// Change cancels, moves, replays or drops an event.
func (a *API) Change(ctx context.Context, id string, change schedule.Change) (schedule.Outcome, error) {
	now := a.opts.Now().Truncate(time.Millisecond)
	err := schedule.CheckID(id)
	if err == nil && change.Kind == schedule.Move {
		change.Due = due(change.Due, change.After, now)
		err = a.opts.Limits.CheckDue(change.Due, now)
	}
	if err != nil {
		return schedule.Outcome{Code: schedule.BadRequest, Message: err.Error()}, nil
	}
	return a.ledger.Change(ctx, strings.ToLower(id), change, now)
}

// Get returns an event: schedule.RecordFound, or schedule.NotFound.
func (a *API) Get(ctx context.Context, id string) (schedule.Outcome, error) {
	if err := schedule.CheckID(id); err != nil {
		return schedule.Outcome{Code: schedule.BadRequest, Message: err.Error()}, nil
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
	if filter.Limit < 0 || filter.Limit > MostAtOnce {
		return nil, "", fmt.Errorf("limit is %d, want 1 to %d", filter.Limit, MostAtOnce)
	}
	if filter.Limit == 0 {
		filter.Limit = 100
	}
	return a.ledger.List(ctx, filter)
}

// Partitions returns the partitions and the processes that share them. Before, it makes count
// the number of partitions in place of from, unless count is 0.
func (a *API) Partitions(ctx context.Context, from, count int) (schedule.Members, schedule.Outcome, error) {
	var out schedule.Outcome
	if count < 0 || count > schedule.MostPartitions {
		out.Code, out.Message = schedule.BadRequest, fmt.Sprintf("count is %d: want 1 to %d, or 0 to change nothing", count, schedule.MostPartitions)
		return schedule.Members{}, out, nil
	}
	if count > 0 {
		err := a.ledger.SetPartitions(ctx, from, count)
		if err != nil && !errors.Is(err, schedule.ErrPartitions) {
			return schedule.Members{}, out, err
		}
		if err != nil {
			out.Code, out.Message = schedule.Conflict, fmt.Sprintf("there are not %d partitions: %v", from, err)
		}
	}
	members, err := a.ledger.Members(ctx, "", 0)
	return members, out, err
}
