package top

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"flunq.io/flunq/cmd/actions"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/examine"
	"flunq.io/flunq/engine/history"
	"flunq.io/flunq/engine/store/inspect"
	"flunq.io/flunq/engine/store/stream"
	"flunq.io/flunq/engine/store/timers"
	"flunq.io/flunq/tui"
)

// Detail returns all details of a row.
func (l *Live) Detail(ctx context.Context, table tui.Table, id string) (tui.Detail, error) {
	read := map[tui.Table]func(context.Context, string) (tui.Detail, error){
		tui.Timers: l.timer, tui.DeadLetters: l.deadLetter, tui.Events: l.event,
	}[table]
	if read == nil {
		x, err := l.Execution(ctx, id)
		return x.Detail, err
	}
	d, err := read(ctx, id)
	return d, lost(ctx, err)
}

// facts omits empty values.
func facts(all ...[2]string) (out [][2]string) {
	for _, f := range all {
		if f[1] != "" {
			out = append(out, f)
		}
	}
	return out
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
	problem, set := "", ""
	if p.Err != nil {
		problem = p.Err.Error()
	}
	if !p.MovedTo.IsZero() {
		set = instant(p.FireAt)
	}
	d.Facts = facts(
		[2]string{"timer", p.ID},
		[2]string{"due", instant(p.Moment())},
		[2]string{"set for", set},
		[2]string{"kind", string(p.Kind)},
		[2]string{"tenant", p.Tenant},
		[2]string{"workflow", p.Workflow},
		[2]string{"execution", withStatus(p.Execution, status)},
		[2]string{"task", p.TaskID},
		[2]string{"task name", p.TaskName},
		[2]string{"event", inputType(p)},
		[2]string{"key", p.Key},
		[2]string{"duration", milliseconds(p.DurationMS)},
		[2]string{"problem", problem},
		[2]string{"then", actions.Consequence(p, status)},
	)
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
	d.Facts = facts(
		[2]string{"dead letter", deadLetter.ID},
		[2]string{"tenant", deadLetter.Tenant},
		[2]string{"dead-lettered", instant(deadLetter.Died)},
		[2]string{"service", deadLetter.Service},
		[2]string{"reason", deadLetter.Reason},
		[2]string{"attempts", positive(deadLetter.Attempts)},
		[2]string{"replays", positive(deadLetter.Replayed)},
		[2]string{"first failure", instant(deadLetter.FirstFailure)},
		[2]string{"last failure", instant(deadLetter.LastFailure)},
		[2]string{"came from", deadLetter.SourceStream + " " + deadLetter.SourceID},
		[2]string{"type", string(deadLetter.Event.Type)},
		[2]string{"event", deadLetter.Event.ID},
		[2]string{"workflow", deadLetter.Event.Workflow},
		[2]string{"execution", withStatus(deadLetter.Event.Execution, status)},
		[2]string{"task", history.Task(deadLetter.Event.Task)},
		[2]string{"replay", outlook(deadLetter, status)},
	)
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

// outlook describes whether replaying a dead letter can succeed.
func outlook(l stream.DeadLetter, status string) string {
	switch {
	case l.Err != nil:
		return "it cannot be replayed: " + l.Err.Error()
	case status == string(tui.Faulted):
		return "the execution has faulted, so a replay has no effect: retry the execution"
	case examine.Ended(status):
		return "the execution has ended (" + status + "), so a replay has no effect"
	case l.Event.Execution != "" && status == "":
		return "it returns to its stream; its execution is unknown here"
	default:
		return "it returns to its stream and is handled again"
	}
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
	d.Facts = facts(
		[2]string{"entry", p.ID},
		[2]string{"written", instant(p.At)},
		[2]string{"type", string(p.Event.Type)},
		[2]string{"id", p.Event.ID},
		[2]string{"source", p.Event.Source},
		[2]string{"time", instant(p.Event.Time)},
		[2]string{"tenant", p.Event.Tenant},
		[2]string{"workflow", p.Event.Workflow},
		[2]string{"execution", p.Event.Execution},
		[2]string{"task", history.Task(p.Event.Task)},
		[2]string{"problem", problem},
	)
	for _, name := range slices.Sorted(maps.Keys(p.Event.Ext)) {
		d.Facts = append(d.Facts, [2]string{name, p.Event.Ext[name]})
	}
	if len(p.Event.Data) > 0 {
		d.Data = []tui.Data{{Name: "data", Text: string(p.Event.Data)}}
	}
	return d, nil
}

func withStatus(execution, status string) string {
	if status == "" {
		return execution
	}
	return execution + " (" + status + ")"
}

func instant(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}

func positive(n int) string {
	if n <= 0 {
		return ""
	}
	return strconv.Itoa(n)
}

func milliseconds(ms int64) string {
	const most = int64(1<<63-1) / int64(time.Millisecond)
	if ms <= 0 {
		return ""
	}
	return (time.Duration(min(ms, most)) * time.Millisecond).String()
}

// problemText formats a problem and the task that caused it.
func problemText(p *event.Problem, doc *tui.Document) string {
	text := p.Error()
	if doc == nil {
		return text
	}
	for _, t := range doc.Tasks {
		if t.Ref == p.Instance {
			return fmt.Sprintf("%s (%s, line %d)", text, t.Name, t.Line)
		}
	}
	return text
}

func raw(name string, text json.RawMessage) []tui.Data {
	if len(text) == 0 {
		return nil
	}
	return []tui.Data{{Name: name, Text: string(text)}}
}
