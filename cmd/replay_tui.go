package cmd

import (
	"context"
	"fmt"

	"flunq.io/flunq/cmd/playback"
	"flunq.io/flunq/engine/history"
	"flunq.io/flunq/sim"
	"flunq.io/flunq/tui"
)

// filmed replays one recording and plays it in the terminal UI until the user quits.
func (r *replaying) filmed(ctx context.Context, files []string) error {
	if len(files) != 1 {
		return misusef("--tui shows one recording, got %d", len(files))
	}
	if err := needTerminal(r.sh); err != nil {
		return err
	}
	at := r.opts.At
	r.opts.At = nil // replay the whole recording, to verify it
	row := r.one(ctx, sim.NewReplayer(r.opts), files[0])
	if row.err == nil && at != nil && at.Event > row.Events {
		row.err = fmt.Errorf("%s: --at %d: the recording has %s", row.File, at.Event, history.Count(row.Events, "event"))
	}
	if row.err == nil {
		if err := r.screen(ctx, row, at); err != nil {
			return err
		}
	}
	return r.take(row)
}

// screen plays a recording that was replayed.
func (r *replaying) screen(ctx context.Context, row replayRow, at *sim.Moment) error {
	cfg, err := row.rec.Config(r.opts.Workflow)
	if err != nil {
		return err
	}
	opts := playbackOptions(cfg)
	opts.Place, opts.Still = "the recording "+row.File, "this is a recording: nothing can be changed in it"
	opts.Redact = hider(r.given)
	f := playback.New(opts)
	events, notes := row.rec.Histories(), row.Notes
	if d := row.Difference; d != nil {
		if d.Event > 0 {
			events = events[:d.Event]
		}
		notes = append([]string{"it differs: " + where(d), "recorded: " + d.Recorded, "replayed: " + d.Replayed}, notes...)
		f.Differs(d.Execution, fmt.Sprintf("it differs here: recorded: %s; replayed: %s", d.Recorded, d.Replayed))
	}
	f.Append(events)
	f.End(notes...)
	if at != nil {
		moment := at.Time
		if moment.IsZero() && at.Event == 0 {
			moment = at.After.From(cfg.Start)
		}
		f.At(at.Event, moment)
	}
	return tui.Run(ctx, f, playbackScreen(r.sh, "flunq replay "+row.File, row.Execution))
}
