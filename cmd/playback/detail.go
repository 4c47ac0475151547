package playback

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"flunq.io/flunq/engine/history"
	"flunq.io/flunq/tui"
)

// Detail returns all details of a row.
func (f *Playback) Detail(ctx context.Context, table tui.Table, id string) (tui.Detail, error) {
	if table == tui.Executions {
		x, err := f.Execution(ctx, id)
		return x.Detail, err
	}
	f.lock()
	defer f.mu.Unlock()
	if table == tui.Timers {
		return f.timer(id)
	}
	at, err := strconv.Atoi(id)
	if err != nil || at < 1 || at > f.playhead.n {
		return tui.Detail{}, fmt.Errorf("event %s has not happened at this moment", id)
	}
	return f.event(at - 1), nil
}

func (f *Playback) timer(id string) (d tui.Detail, err error) {
	s := f.spans[id]
	if s == nil || s.timer == nil || s.from >= f.playhead.n {
		return d, fmt.Errorf("timer %s is not set at this moment", id)
	}
	t := s.timer
	d.Facts = facts(
		[2]string{"timer", id},
		[2]string{"due", instant(t.Due())},
		[2]string{"set", instant(f.frames[s.from].at)},
		[2]string{"kind", string(t.Kind)},
		[2]string{"workflow", s.track.workflow()},
		[2]string{"execution", fmt.Sprintf("%s (%s)", s.track.id, f.executionRow(s.track).State)},
		[2]string{"task", t.TaskID},
		[2]string{"task name", t.TaskName},
		[2]string{"key", t.Key},
		[2]string{"then", f.fate(s)},
	)
	d.Data = []tui.Data{{Name: "timer", Text: string(f.redacted(f.frames[s.from].Data))}}
	return d, nil
}

// fate describes what happens to a timer, even if it happens after the shown moment.
func (f *Playback) fate(s *span) string {
	if s.until < 0 {
		return "nothing in this recording"
	}
	how, at := "it is cancelled", f.frames[s.until].at
	if s.fired {
		how = "it fires"
	}
	if s.until < f.playhead.n {
		return fmt.Sprintf("%s at %s, before this moment", how, instant(at))
	}
	return fmt.Sprintf("%s at %s (event %d)", how, instant(at), s.until+1)
}

func (f *Playback) event(at int) (d tui.Detail) {
	fr := &f.frames[at]
	time := ""
	if !fr.Time.Equal(fr.at) {
		time = instant(fr.Time)
	}
	d.Facts = facts(
		[2]string{"event", fmt.Sprintf("%d of %d", at+1, len(f.frames))},
		[2]string{"happened", instant(fr.at)},
		[2]string{"time", time},
		[2]string{"type", string(fr.Type)},
		[2]string{"id", fr.ID},
		[2]string{"source", fr.Source},
		[2]string{"workflow", fr.track.workflow()},
		[2]string{"execution", fmt.Sprintf("%s, its event %d", fr.Execution, fr.version)},
		[2]string{"task", history.Task(fr.Task)},
	)
	for _, name := range slices.Sorted(maps.Keys(fr.Ext)) {
		d.Facts = append(d.Facts, [2]string{name, fr.Ext[name]})
	}
	if len(fr.Data) > 0 {
		d.Data = []tui.Data{{Name: "data", Text: string(f.redacted(fr.Data))}}
	}
	return d
}
