package recording

import (
	"context"
	"fmt"
	"slices"
	"time"

	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/sim"
	"flunq.io/flunq/sim/mock"
)

// simulate repeats the recorded run in the simulator, and compares the events of each task run
// and the result. A different order of independent events is only a note, unless StrictOrder
// is set.
func (p *replay) simulate(ctx context.Context, v *Verdict) error {
	switch {
	case p.fromHistory():
		v.Notes = append(v.Notes, "not simulated: a history from Redis has no recorded answers to calls")
		return nil
	case p.faults > 0:
		v.Notes = append(v.Notes, "not simulated: the faults would come at other times; 'flunq sim' repeats them from the seed")
		return nil
	}
	cfg := p.config()
	var came []event.Event
	cfg.Observe = func(events []event.Event) { came = append(came, events...) }
	result, err := sim.Run(ctx, cfg)
	if err != nil {
		return fmt.Errorf("simulate %s: %w", p.Name, err)
	}
	p.compareHistories(came)
	if p.diff == nil && p.Finished() {
		p.compareSimulated(result)
	}
	v.Agrees, v.Difference, v.Notes = p.diff == nil, p.diff, p.notes
	return nil
}

// config returns the configuration of the recorded simulation.
func (p *replay) config() sim.Config {
	h := p.header
	cfg := sim.Config{
		Definition: p.main.was, Input: h.Input, ID: h.ID, Tenant: h.Tenant, Seed: h.Seed, Start: h.Start,
		Version: h.Flunq, Remote: h.Remote, Secrets: p.secrets, Limits: p.limits(), Executors: h.Executors,
		Processes: h.Processes, Executions: h.Executions, MaxTasks: h.MaxTasks,
		MaxTime: time.Duration(h.MaxTimeMS) * time.Millisecond, Mocks: p.mocks(), Answers: p.answers,
	}
	for _, d := range p.docs[1:] {
		cfg.With = append(cfg.With, d.was)
	}
	if !p.Finished() && cfg.MaxTime == 0 {
		cfg.MaxTime = p.end().Sub(h.Start) + time.Millisecond
	}
	return cfg
}

// mocks returns mocks that send the events from outside at their recorded times.
func (p *replay) mocks() *mock.Set {
	m := &mock.Set{}
	for _, a := range p.arrivals {
		e := mock.Event{
			After: a.at.Sub(p.header.Start), ID: a.ID, Type: string(a.Type), Source: a.Source, Time: a.Time,
			Ext: a.Ext,
		}
		if len(a.Data) > 0 {
			e.Data, e.HasData = dataOf(a.Data), true
		}
		m.Events = append(m.Events, e)
	}
	return m
}

// thread identifies the events of one task run of one execution.
type thread struct{ execution, task string }

func threadOf(e event.Event) thread { return thread{e.Execution, e.Task} }

// compareHistories compares the events of each task run.
func (p *replay) compareHistories(came []event.Event) {
	now := map[thread][]event.Event{}
	for _, e := range came {
		now[threadOf(e)] = append(now[threadOf(e)], e)
	}
	order := -1
	for i, was := range p.entries {
		p.at = i
		if order < 0 && (i >= len(came) || threadOf(came[i]) != threadOf(was.Event)) {
			order = i
		}
		rest := now[threadOf(was.Event)]
		if len(rest) == 0 {
			p.differs(&Difference{What: "unexpected", Recorded: Describe(was.Event), Replayed: "the simulation has no such event"}, nil)
			return
		}
		now[threadOf(was.Event)] = rest[1:]
		if p.compareSimilar(was.Event, rest[0]); p.diff != nil {
			return
		}
	}
	if !p.Finished() {
		return
	}
	for _, e := range came {
		if rest := now[threadOf(e)]; len(rest) > 0 {
			p.differs(&Difference{What: "missing", Recorded: "nothing more", Replayed: Describe(rest[0]), task: rest[0].Task}, nil)
			return
		}
	}
	if order >= 0 {
		p.loose, p.differ = true, order
		p.reordered(fmt.Sprintf("the simulation has a different order of independent events, first at event %d (line %d)", order+1, p.entries[order].line))
	}
}

// compareSimilar compares two events at the same position of the same task run.
func (p *replay) compareSimilar(was, now event.Event) {
	ignore := []string{}
	if was.Type == event.ExecutionStarted {
		ignore = append(ignore, "nonce")
	}
	// An executor measures durations from when it received the task, and the time of a
	// real call cannot be reproduced exactly.
	if was.Type == event.TaskCompleted {
		ignore = append(ignore, "duration_ms", "call") // earlier versions do not record these
	}
	if p.header.Calls == realCalls && p.exchange > 0 {
		ignore = append(ignore, "fire_at", "fired_at", "scheduled_for", "duration_ms")
	}
	g := (comparison{}).between(event.Encode(was.Type), event.Encode(now.Type))
	if g == nil && !was.Time.Equal(now.Time) && !slices.Contains(ignore, "fired_at") {
		g = &difference{path: "time", recorded: stamp(was.Time), now: stamp(now.Time)}
	}
	if g == nil {
		g = (comparison{ignore: ignore}).between(was.Data, now.Data)
	}
	if g != nil {
		p.differs(&Difference{What: "event", Recorded: Describe(was), Replayed: Describe(now) + " (in the simulation)"}, g)
	}
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

// compareSimulated compares the result.
func (p *replay) compareSimulated(now *sim.Result) {
	was := p.recordedResult()
	if was.Status == now.Status && (comparison{}).between(was.Output, now.Output) == nil {
		return
	}
	p.resultDiffers(
		fmt.Sprintf("the result is %s with %s", was.Status, excerpt(was.Output)),
		fmt.Sprintf("in the simulation it is %s with %s", now.Status, excerpt(now.Output)), nil)
}
