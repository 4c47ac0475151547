package playback

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"flunq.io/flunq/cmd/describe"
	"flunq.io/flunq/engine/history"
	"flunq.io/flunq/tui"
)

// Detail returns all details of a row that is not an execution.
func (pb *Playback) Detail(_ context.Context, table tui.Table, id string) (tui.Detail, error) {
	pb.lock()
	defer pb.mu.Unlock()
	if table == tui.Timers {
		return pb.timer(id)
	}
	at, err := strconv.Atoi(id)
	if err != nil || at < 1 || at > pb.playhead.n {
		return tui.Detail{}, fmt.Errorf("event %s has not happened at this moment", id)
	}
	return pb.event(at - 1), nil
}

func (pb *Playback) timer(id string) (d tui.Detail, err error) {
	i := slices.IndexFunc(pb.intervals, func(s *interval) bool { return s.id == id && s.timer != nil })
	if i < 0 || pb.intervals[i].from >= pb.playhead.n {
		return d, fmt.Errorf("timer %s is not set at this moment", id)
	}
	s := pb.intervals[i]
	t := s.timer
	d.Facts = describe.Facts(
		[2]string{"timer", id},
		[2]string{"due", describe.Instant(t.Due)},
		[2]string{"set", describe.Instant(pb.frames[s.from].at)},
		[2]string{"kind", string(t.Kind)},
		[2]string{"workflow", s.track.workflow()},
		[2]string{"execution", fmt.Sprintf("%s (%s)", s.track.id, pb.executionRow(s.track).State)},
		[2]string{"task", s.run.String()},
		[2]string{"task name", s.run.Name},
		[2]string{"key", t.Key},
		[2]string{"then", pb.fate(s)},
	)
	d.Data = []tui.Data{{Name: "timer", Text: string(pb.redacted(pb.frames[s.from].Data))}}
	return d, nil
}

// fate describes what happens to a timer, even if it happens after the shown moment.
func (pb *Playback) fate(s *interval) string {
	if s.until < 0 {
		return "nothing in this recording"
	}
	how, at := "it is cancelled", pb.frames[s.until].at
	if s.timer.Fired {
		how = "it fires"
	}
	if s.until < pb.playhead.n {
		return fmt.Sprintf("%s at %s, before this moment", how, describe.Instant(at))
	}
	return fmt.Sprintf("%s at %s (event %d)", how, describe.Instant(at), s.until+1)
}

func (pb *Playback) event(at int) (d tui.Detail) {
	fr := &pb.frames[at]
	time := ""
	if !fr.Time.Equal(fr.at) {
		time = describe.Instant(fr.Time)
	}
	d.Facts = describe.Facts(
		[2]string{"event", fmt.Sprintf("%d of %d", at+1, len(pb.frames))},
		[2]string{"happened", describe.Instant(fr.at)},
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
	d.Data = describe.Data("data", pb.redacted(fr.Data))
	return d
}
