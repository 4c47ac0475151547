package playback

import (
	"context"
	"errors"
	"fmt"

	"flunq.io/flunq/tui"
)

// Can reports whether playback supports an action. The only one is writing a recording.
func (pb *Playback) Can(v tui.Verb) bool { return v == tui.Record && pb.opts.Record != nil }

// Plan describes what an action will do.
func (pb *Playback) Plan(_ context.Context, a tui.Action) (tui.Plan, error) {
	file, err := pb.recordable(a)
	if err != nil {
		return tui.Plan{}, err
	}
	return tui.Plan{Lines: []string{
		"write the whole recording to " + file,
		fmt.Sprintf("'flunq replay %s' runs it again, 'flunq replay --tui %s' shows it", file, file),
	}}, nil
}

// Do writes a recording and describes the result.
func (pb *Playback) Do(_ context.Context, a tui.Action) (string, error) {
	file, err := pb.recordable(a)
	if err != nil {
		return "", err
	}
	if err := pb.opts.Record(file); err != nil {
		return "", err
	}
	return "wrote the recording to " + file, nil
}

// recordable returns the file to write. The error explains why none can be written.
func (pb *Playback) recordable(a tui.Action) (string, error) {
	pb.mu.Lock()
	defer pb.mu.Unlock()
	switch {
	case a.Verb != tui.Record || pb.opts.Record == nil:
		return "", errors.New(pb.opts.Still)
	case !pb.over:
		return "", errors.New("the run has not ended: its recording can only be written then")
	case len(pb.tracks) == 0:
		return "", errors.New("there is nothing to record yet")
	case a.Text != "":
		return a.Text, nil
	default:
		return pb.tracks[0].id + ".jsonl", nil
	}
}
