package top

import (
	"context"
	"maps"
	"slices"

	"flunq.io/flunq/cmd/actions"
	"flunq.io/flunq/cmd/describe"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/history"
	"flunq.io/flunq/engine/store/inspect"
	"flunq.io/flunq/engine/store/stream"
	"flunq.io/flunq/engine/store/timers"
	"flunq.io/flunq/tui"
)

// Detail returns all details of a row that is not an execution.
func (l *Live) Detail(ctx context.Context, table tui.Table, id string) (d tui.Detail, err error) {
	switch table {
	case tui.Timers:
		d, err = l.timer(ctx, id)
	case tui.DeadLetters:
		d, err = l.deadLetter(ctx, id)
	default:
		d, err = l.event(ctx, id)
	}
	return d, lost(ctx, err)
}

func (l *Live) timer(ctx context.Context, id string) (d tui.Detail, err error) {
	p, err := timers.New(l.store).Find(ctx, l.opts.Tenant, id)
	if err != nil {
		return d, err
	}
	status, err := actions.Status(ctx, l.store, p.Tenant, p.Execution)
	if err != nil {
		return d, err
	}
	d.Facts = describe.Facts(append([][2]string{{"timer", p.ID}}, actions.TimerFacts(p, status, describe.Instant)...)...)
	d.Data = []tui.Data{{Name: "timer", Text: p.Member}}
	return d, nil
}

func (l *Live) deadLetter(ctx context.Context, id string) (d tui.Detail, err error) {
	deadLetter, err := stream.New(l.store).FindDeadLetter(ctx, l.opts.Tenant, "", id)
	if err != nil {
		return d, err
	}
	status, err := actions.Status(ctx, l.store, deadLetter.Tenant, deadLetter.Event.Execution)
	if err != nil {
		return d, err
	}
	d.Facts = describe.Facts(slices.Concat(
		[][2]string{{"dead letter", deadLetter.ID}, {"tenant", deadLetter.Tenant}, {"dead-lettered", describe.Instant(deadLetter.Died)}},
		actions.DeadLetterFacts(deadLetter, status, describe.Instant),
		[][2]string{{"replay", actions.ReplayOutlook(deadLetter, status)}},
	)...)
	if deadLetter.Timer != "" {
		d.Data = []tui.Data{{Name: "timer", Text: deadLetter.Timer}}
		return d, nil
	}
	attributes := map[string]string{}
	for i := 0; i+1 < len(deadLetter.Fields); i += 2 {
		if name, value := deadLetter.Fields[i], deadLetter.Fields[i+1]; name == "data" {
			d.Data = append(d.Data, tui.Data{Name: "data", Text: value})
		} else {
			attributes[name] = value
		}
	}
	d.Data = append(d.Data, tui.Data{Name: "attributes", Text: string(event.Encode(attributes))})
	return d, nil
}

func (l *Live) event(ctx context.Context, id string) (d tui.Detail, err error) {
	p, err := inspect.New(l.store).Event(ctx, l.opts.Tenant, id)
	if err != nil {
		return d, err
	}
	problem := ""
	if p.Err != nil {
		problem = p.Err.Error()
	}
	d.Facts = describe.Facts(
		[2]string{"entry", p.ID},
		[2]string{"written", describe.Instant(p.At)},
		[2]string{"type", string(p.Event.Type)},
		[2]string{"id", p.Event.ID},
		[2]string{"source", p.Event.Source},
		[2]string{"time", describe.Instant(p.Event.Time)},
		[2]string{"tenant", p.Event.Tenant},
		[2]string{"workflow", p.Event.Workflow},
		[2]string{"execution", p.Event.Execution},
		[2]string{"task", history.Task(p.Event.Task)},
		[2]string{"problem", problem},
	)
	for _, name := range slices.Sorted(maps.Keys(p.Event.Ext)) {
		d.Facts = append(d.Facts, [2]string{name, p.Event.Ext[name]})
	}
	d.Data = describe.Data("data", p.Event.Data)
	return d, nil
}
