package recording

import (
	"context"
	"fmt"
	"slices"
	"time"

	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/expr/canonical"
	"flunq.io/flunq/engine/history"
	"flunq.io/flunq/sim"
	"flunq.io/flunq/sim/mock"
)

// simulate repeats the recorded run in the simulator, and compares the events of each task run
// and the result. A different order of independent events is only a note, unless StrictOrder
// is set.
func (rp *replay) simulate(ctx context.Context, v *Verdict) error {
	switch {
	case rp.fromHistory():
		v.Notes = append(v.Notes, "not simulated: a history from Redis has no recorded responses to calls")
		return nil
	case rp.faults > 0:
		v.Notes = append(v.Notes, "not simulated: the faults would come at other times; 'flunq sim' repeats them from the seed")
		return nil
	}
	cfg := rp.simulation()
	var came []event.Event
	cfg.Observe = func(events []event.Event) { came = append(came, events...) }
	result, err := sim.Run(ctx, cfg)
	if err != nil {
		return fmt.Errorf("simulate %s: %w", rp.Name, err)
	}
	rp.compareHistories(came)
	if rp.diff == nil && rp.finished() {
		rp.compareSimulated(result)
	}
	v.Agrees, v.Difference, v.Notes = rp.diff == nil, rp.diff, rp.notes
	return nil
}

// simulation returns the configuration that repeats the recorded simulation.
func (rp *replay) simulation() sim.Config {
	h := rp.header
	cfg := rp.config(func(d *document) *dsl.Definition { return d.was })
	cfg.Remote, cfg.Executors, cfg.Processes = h.Remote, h.Executors, h.Processes
	cfg.MaxTasks, cfg.MaxTime = h.MaxTasks, time.Duration(h.MaxTimeMS)*time.Millisecond
	cfg.Mocks, cfg.Answers = rp.mocks(), rp.answers
	if !rp.finished() && cfg.MaxTime == 0 {
		cfg.MaxTime = rp.end().Sub(h.Start) + time.Millisecond
	}
	return cfg
}

// mocks returns mocks that send the events from outside at their recorded times.
func (rp *replay) mocks() *mock.Set {
	m := &mock.Set{}
	for _, a := range rp.arrivals {
		e := mock.Event{
			After: a.at.Sub(rp.header.Start), ID: a.ID, Type: string(a.Type), Source: a.Source, Time: a.Time,
			Ext: a.Ext,
		}
		if len(a.Data) > 0 {
			e.Data, e.HasData = canonical.DecodeOrText(a.Data), true
		}
		m.Events = append(m.Events, e)
	}
	return m
}

// thread identifies the events of one task run of one execution.
type thread struct{ execution, task string }

func threadOf(e event.Event) thread { return thread{e.Execution, e.Task} }

// compareHistories compares the events of each task run.
func (rp *replay) compareHistories(came []event.Event) {
	now := map[thread][]event.Event{}
	for _, e := range came {
		now[threadOf(e)] = append(now[threadOf(e)], e)
	}
	order := -1
	for i, was := range rp.entries {
		rp.at = i
		if order < 0 && (i >= len(came) || threadOf(came[i]) != threadOf(was.Event)) {
			order = i
		}
		rest := now[threadOf(was.Event)]
		if len(rest) == 0 {
			rp.unexpected(was.Event, "the simulation has no such event")
			return
		}
		now[threadOf(was.Event)] = rest[1:]
		if rp.compareSimilar(was.Event, rest[0]); rp.diff != nil {
			return
		}
	}
	if !rp.finished() {
		return
	}
	for _, e := range came {
		if rest := now[threadOf(e)]; len(rest) > 0 {
			rp.differs(&Difference{What: "missing", Recorded: "nothing more", Replayed: history.Describe(rest[0]), task: rest[0].Task}, nil)
			return
		}
	}
	if order >= 0 {
		rp.loose, rp.differ = true, order
		rp.reordered(fmt.Sprintf("the simulation has a different order of independent events, first at event %d (line %d)", order+1, rp.entries[order].line))
	}
}

// compareSimilar compares two events at the same position of the same task run.
func (rp *replay) compareSimilar(was, now event.Event) {
	ignore := []string{}
	if was.Type == event.ExecutionStarted {
		ignore = append(ignore, "nonce")
	}
	// An executor measures durations from when it received the task, and the time of a
	// real call cannot be reproduced exactly.
	if was.Type == event.TaskCompleted {
		ignore = append(ignore, "duration_ms", "call") // earlier versions do not record these
	}
	if rp.header.Calls == realCalls && rp.exchange > 0 {
		ignore = append(ignore, "fire_at", "fired_at", "scheduled_for", "duration_ms")
	}
	where := (comparison{}).between(event.Encode(was.Type), event.Encode(now.Type))
	if where == nil && !was.Time.Equal(now.Time) && !slices.Contains(ignore, "fired_at") {
		where = &canonical.Difference{Path: "time", A: was.Time.UTC().Format(time.RFC3339Nano), B: now.Time.UTC().Format(time.RFC3339Nano), InA: true, InB: true}
	}
	if where == nil {
		where = (comparison{ignore: ignore}).between(was.Data, now.Data)
	}
	if where != nil {
		rp.differs(&Difference{What: "event", Recorded: history.Describe(was), Replayed: history.Describe(now) + " (in the simulation)"}, where)
	}
}

// compareSimulated compares the result.
func (rp *replay) compareSimulated(now *sim.Result) {
	was := rp.recordedResult()
	if was.Status == now.Status && (comparison{}).between(was.Output, now.Output) == nil {
		return
	}
	rp.resultDiffers(
		fmt.Sprintf("the result is %s with %s", was.Status, history.Excerpt(was.Output)),
		fmt.Sprintf("in the simulation it is %s with %s", now.Status, history.Excerpt(now.Output)), nil)
}
