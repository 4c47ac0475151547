package playback

import (
	"context"
	"errors"
	"fmt"

	"flunq.io/flunq/tui"
)

// Can reports whether an action is one that a film can do: a recording of it.
func (f *Playback) Can(v tui.Verb) bool { return v == tui.Record && f.opts.Record != nil }

// Plan says what an action will do. Nothing that has happened can be changed.
func (f *Playback) Plan(_ context.Context, a tui.Action) (tui.Plan, error) {
	file, err := f.recordable(a)
	if err != nil {
		return tui.Plan{}, err
	}
	return tui.Plan{Lines: []string{
		"write the recording of all of it to " + file,
		fmt.Sprintf("'flunq replay %s' runs it again, 'flunq replay --tui %s' shows it", file, file),
	}}, nil
}

// Do writes a recording, the only action that there is.
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

// recordable is the file that an action is to write, if it is to and can.
func (f *Playback) recordable(a tui.Action) (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case a.Verb != tui.Record || f.opts.Record == nil:
		return "", errors.New(f.opts.Still)
	case !f.over:
		return "", errors.New("the run has not ended yet: its recording is written when it has")
	case len(f.reels) == 0:
		return "", errors.New("nothing has happened that could be recorded")
	case a.Text != "":
		return a.Text, nil
	default:
		return f.reels[0].id + ".jsonl", nil
	}
}
