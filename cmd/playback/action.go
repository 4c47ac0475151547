package playback

import (
	"context"
	"errors"
	"fmt"

	"flunq.io/flunq/tui"
)

// Can reports whether playback supports an action. The only one is writing a recording.
func (f *Playback) Can(v tui.Verb) bool { return v == tui.Record && f.opts.Record != nil }

// Plan describes what an action will do.
func (f *Playback) Plan(_ context.Context, a tui.Action) (tui.Plan, error) {
	file, err := f.recordable(a)
	if err != nil {
		return tui.Plan{}, err
	}
	return tui.Plan{Lines: []string{
		"write the whole recording to " + file,
		fmt.Sprintf("'flunq replay %s' runs it again, 'flunq replay --tui %s' shows it", file, file),
	}}, nil
}

// Do writes a recording and describes the result.
func (f *Playback) Do(_ context.Context, a tui.Action) (string, error) {
	file, err := f.recordable(a)
	if err != nil {
		return "", err
	}
	if err := f.opts.Record(file); err != nil {
		return "", err
	}
	return "wrote the recording to " + file, nil
}

// recordable returns the file to write. The error explains why none can be written.
func (f *Playback) recordable(a tui.Action) (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case a.Verb != tui.Record || f.opts.Record == nil:
		return "", errors.New(f.opts.Still)
	case !f.over:
		return "", errors.New("the run has not ended: its recording can only be written then")
	case len(f.tracks) == 0:
		return "", errors.New("there is nothing to record yet")
	case a.Text != "":
		return a.Text, nil
	default:
		return f.tracks[0].id + ".jsonl", nil
	}
}
