package run

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"flunq.io/flunq/cmd/cli"
	"flunq.io/flunq/cmd/playback"
	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/wire"
	"flunq.io/flunq/sim"
	"flunq.io/flunq/tui"
)

// checkScreen returns an error if --tui cannot work.
func (r *Runner) checkScreen(context.Context, *sim.Config) error {
	switch {
	case !r.tui:
		return nil
	case r.redis != "":
		return cli.Misusef("--tui requires the virtual clock, not --redis-url ('flunq top' shows a real engine)")
	default:
		return cli.CheckScreen(r.Sh, "--tui")
	}
}

// played runs the simulation and plays it in the terminal UI as it proceeds. If the user
// quits, it stops a run that has not ended.
func (r *Runner) played(ctx context.Context, cfg sim.Config) (result *sim.Result, err error) {
	var recorded bytes.Buffer
	out := []io.Writer{&recorded}
	if r.reported != nil {
		out = append(out, r.reported)
	}
	opts := PlaybackOptions(cfg)
	opts.Place, opts.Still = "a run of "+r.source.Name, "this is a run inside this process: nothing can be changed"
	opts.Record = func(file string) error { return saveRecording(file, recorded.Bytes()) }
	wire.Silence() // logs would overwrite the screen
	s := &playedRun{playback: playback.New(opts), begun: make(chan struct{}), over: make(chan struct{})}
	stop, cancel := context.WithCancel(ctx)
	defer cancel()
	if r.paused {
		s.playback.At(0, cfg.Start)
	}
	for _, name := range r.breaks {
		s.playback.Break(name)
	}
	go s.run(stop, cfg, r.record, out)
	<-s.begun
	if s.id != "" {
		err = tui.Run(ctx, s.playback, PlaybackScreen(r.Sh, "flunq run "+r.source.Name, s.id))
	}
	cancel()
	<-s.over
	return s.result, errors.Join(err, s.err)
}

// playedRun is a run that is shown in the terminal UI.
type playedRun struct {
	playback *playback.Playback
	id       string        // of the execution; "" until the first event
	begun    chan struct{} // closed at the first event, or at the end of a run without one
	over     chan struct{}

	result *sim.Result
	err    error
}

// run runs the simulation, and records it as recordTo does.
func (p *playedRun) run(ctx context.Context, cfg sim.Config, file string, others []io.Writer) {
	cfg.Observe = func(events []event.Event) {
		p.playback.Append(events)
		if p.id == "" && len(events) > 0 {
			p.id = events[0].Execution
			close(p.begun)
		}
	}
	p.result, p.err = recordTo(ctx, file, cfg, others...)
	p.playback.End(endNotes(p.result, p.err)...)
	if p.id == "" {
		close(p.begun)
	}
	close(p.over)
}

// endNotes explains why a run stopped before its end.
func endNotes(result *sim.Result, err error) []string {
	switch {
	case err != nil:
		return []string{err.Error()}
	case result.Stop == sim.Never:
		return []string{"it waits for something that never happens: " + strings.Join(result.Waiting, "; ")}
	case result.Stop == sim.TimeUp, result.Stop == sim.TasksUp:
		return []string{fmt.Sprintf("it was stopped by --%s", result.Stop)}
	default:
		return nil
	}
}

// saveRecording writes a recording to a file that must not exist.
func saveRecording(file string, text []byte) error {
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("write the recording: %w", err)
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("write the recording: %w", err)
	}
	return nil
}

// PlaybackOptions returns the options for playing a run of cfg.
func PlaybackOptions(cfg sim.Config) playback.Options {
	opts := playback.Options{
		Definition: cfg.Definition, With: cfg.With, Tenant: cfg.Tenant, Start: cfg.Start, Pace: cfg.Pace, Now: time.Now,
		Decide: decide.Options{Secrets: cfg.Secrets, Version: cfg.Version, Remote: true, Limits: cfg.Limits},
	}
	opts.Redact = DataRedactor(cfg.Secrets)
	return opts
}

// DataRedactor returns a function that replaces secrets with ***; nil if there are no secrets.
func DataRedactor(secrets map[string]any) func([]byte) []byte {
	if len(secrets) == 0 {
		return nil
	}
	redact := store.NewSealer(secrets).Redact
	return func(text []byte) []byte { return []byte(redact(string(text))) }
}

// PlaybackScreen returns the options of a screen that plays a recording and first shows an
// execution.
func PlaybackScreen(sh *cli.Shell, title, execution string) tui.Options {
	o := tui.Defaults()
	o.Title, o.Open, o.UTC, o.ASCII = title, execution, true, sh.ASCII() // UTC: the times are of the clock of a run
	o = o.For(sh.Env)
	if !sh.OutColor() {
		o.Background = tui.None
	}
	return o
}
