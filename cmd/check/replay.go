package check

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"flunq.io/flunq/cmd/cli"
	"flunq.io/flunq/cmd/run"
	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/history"
	"flunq.io/flunq/sim/recording"
)

// replaying is one run of flunq replay.
type replaying struct {
	sh     *cli.Shell
	format *cli.Choice

	workflow, at, secrets string
	full, strict, tui     bool

	opts   recording.ReplayOptions
	given  map[string]any // the secrets
	source cli.Document   // of --workflow
	rows   []replayRow    // for -o json

	report, commandLine string // the command line, for the report
	page                run.ReportFile
	shown               replayReport

	files, differing, broken int
	unfinished, migratable   int      // executions compared with the changed document
	others                   []string // recordings of workflows other than that of --workflow
}

// replayRow is the result for one recording in the JSON output.
type replayRow struct {
	*recording.Verdict

	File  string `json:"file"`
	Error string `json:"error,omitempty"` // why it cannot be replayed

	err error
	src []byte               // for the report
	rec *recording.Recording // for the terminal UI
}

// NewReplayCommand returns the command flunq replay.
func NewReplayCommand(sh *cli.Shell) *cobra.Command {
	r := &replaying{sh: sh}
	c := &cobra.Command{
		Use:   "replay FILE…",
		Short: "Replay recordings and show the first difference",
		Long: `Replays recordings made by 'flunq run --record FILE' or 'flunq history ID -o jsonl'.
Everything that came from outside is taken from the file: responses, events and times.
No calls are made. Every decision, result and request is compared with the
recording; the first difference is explained from both sides (exit code 4). A folder
stands for all recordings (*.jsonl) in it, as a regression suite.

--workflow FILE replays the recordings with a changed document: would new executions
behave differently, and where? Running executions keep the document they began with,
so any change may be deployed. For each recorded execution that has not ended, replay
also says whether it can be migrated to the changed document ('flunq migrate').

--at stops at a moment and shows the state: a time (2026-01-02T12:00:00Z), a duration since
the start (PT36H, 36h), or the number of an event.

Without --full, decisions and calls are replayed but no engine runs. This is fast, and
does not depend on the order in which an engine handles independent events. --full
also repeats the whole simulation. A recording never contains secrets; replay uses
placeholders unless --secrets provides them.

--tui replays one recording and then plays it in the terminal UI, or pauses at the
moment of --at. If the replay diverges, playback ends there.`,
		Example: `  flunq run order.yaml --mocks order.mocks.yaml --record order.jsonl
  flunq replay order.jsonl
  flunq replay order.jsonl --at PT36H
  flunq replay order.jsonl --tui       # watch it, back and forth
  flunq history order-7 -o jsonl > order-7.jsonl
  flunq replay order-7.jsonl --workflow order.yaml   # what would change?
  flunq replay recordings/ -o jsonl`,
		GroupID: cli.GroupDevelop,
		Args:    cli.SomeArguments("recording"),
	}
	r.format = cli.OutputFlag(c, "text", "json", "jsonl")
	f := c.Flags()
	f.StringVar(&r.workflow, "workflow", "", "use the changed document in `FILE` instead of the recorded one")
	f.StringVar(&r.at, "at", "", "stop at `MOMENT` and show the state: a time, a duration since the start, or the number of an event")
	f.BoolVar(&r.full, "full", false, "also repeat the whole simulation")
	f.BoolVar(&r.strict, "strict-order", false, "also report a different order of independent events")
	f.StringVar(&r.secrets, "secrets", "", "read the secrets, a map by name, from `FILE`")
	f.BoolVar(&r.tui, "tui", false, "play the recording in the terminal UI, back and forth")
	f.Var(cli.WrittenFile{Name: &r.report}, "report", "write an HTML report to `FILE`: timeline, graph, data, the difference")
	c.RunE = func(c *cobra.Command, args []string) error {
		sh.LimitMemory(c.Context())
		r.commandLine = run.CommandOf(c, args)
		return r.run(c.Context(), args)
	}
	return c
}

func (r *replaying) run(ctx context.Context, args []string) error {
	if err := r.read(ctx); err != nil {
		return err
	}
	files, err := recordingFiles(args)
	if err != nil {
		return err
	}
	if r.page, err = run.OpenReport(r.sh, r.report); err != nil {
		return err
	}
	began := time.Now()
	each := r.all
	if r.tui {
		each = r.play
	}
	if err := each(ctx, files); err != nil {
		return err
	}
	if r.files == 0 {
		return cli.Misusef("%s", r.others[0])
	}
	if err := errors.Join(r.writeReport(), r.end(time.Since(began))); err != nil {
		return err
	}
	switch {
	case r.differing > 0:
		return cli.Reported(cli.ExitUnexpected)
	case r.broken > 0:
		return cli.Reported(cli.ExitMisuse)
	default:
		return nil
	}
}

// read reads the files named by flags.
func (r *replaying) read(ctx context.Context) (err error) {
	if r.full && (r.workflow != "" || r.at != "") {
		return cli.Misusef("--full excludes --workflow and --at: it runs the recorded document to its end")
	}
	r.opts = recording.ReplayOptions{StrictOrder: r.strict, Full: r.full}
	if r.at != "" {
		if r.opts.At, err = momentOf(r.at); err != nil {
			return err
		}
	}
	if r.given, err = cli.ReadSecrets(ctx, r.sh, r.secrets); err != nil {
		return err
	}
	if r.workflow == "" {
		return nil
	}
	r.source, err = cli.LoadDocument(ctx, r.sh, r.workflow)
	r.opts.Workflow = r.source.Def
	return err
}

// momentOf parses the value of --at.
func momentOf(text string) (*recording.Moment, error) {
	if n, err := strconv.Atoi(text); err == nil {
		if n < 1 {
			return nil, cli.Misusef("--at %d: events are counted from 1", n)
		}
		return &recording.Moment{Event: n}, nil
	}
	if at, err := time.Parse(time.RFC3339Nano, text); err == nil {
		return &recording.Moment{Time: at}, nil
	}
	d, err := dsl.ParseSpan(text)
	if err != nil {
		return nil, cli.Misusef("--at %q: want a time such as 2026-01-02T12:00:00Z, a duration such as 36h, or the number of an event", text)
	}
	return &recording.Moment{After: d}, nil
}

// all replays the files on all cores and prints the results in the order of the files.
func (r *replaying) all(ctx context.Context, files []string) error {
	replayer := recording.NewReplayer(r.opts)
	ahead := make(chan chan replayRow, 4*runtime.GOMAXPROCS(0))
	running := make(chan struct{}, runtime.GOMAXPROCS(0))
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		defer close(ahead)
		for _, file := range files {
			row := make(chan replayRow, 1)
			select {
			case ahead <- row:
			case <-ctx.Done():
				return
			}
			running <- struct{}{}
			go func() {
				row <- r.one(ctx, replayer, file)
				<-running
			}()
		}
	}()
	for row := range ahead {
		if err := r.take(<-row); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// one replays one file.
func (r *replaying) one(ctx context.Context, replayer *recording.Replayer, file string) replayRow {
	row := replayRow{File: cli.DisplayName(file)}
	src, err := r.contents(ctx, file)
	if err != nil {
		row.err = err
		return row
	}
	if r.report != "" {
		row.src = src
	}
	rec, err := recording.Read(row.File, src, r.given, cli.Version().Version)
	if err != nil {
		row.err = err
		return row
	}
	row.rec = rec
	if at := r.opts.At; at != nil && at.Event > rec.Events() {
		row.err = fmt.Errorf("%s: --at %d: the recording has %s", row.File, at.Event, history.Count(rec.Events(), "event"))
		return row
	}
	row.Verdict, row.err = replayer.Replay(ctx, rec)
	if row.err == nil && r.opts.At != nil && row.Agrees && len(row.States) == 0 {
		row.err = fmt.Errorf("%s: --at %s is before the start", row.File, r.at)
	}
	return row
}

// contents reads a file, or stdin for "-".
func (r *replaying) contents(ctx context.Context, file string) ([]byte, error) {
	if file == "-" {
		return cli.ReadDocument(ctx, r.sh, file)
	}
	src, err := os.ReadFile(file)
	if err != nil {
		return nil, cli.WithoutVerb(file, err)
	}
	return src, nil
}

// take counts and prints the result for a file.
func (r *replaying) take(row replayRow) error {
	if errors.Is(row.err, recording.ErrOtherWorkflow) {
		r.others = append(r.others, row.err.Error())
		return nil
	}
	r.files++
	switch {
	case errors.Is(row.err, context.Canceled):
		return row.err
	case row.err != nil:
		r.broken++
		row.Verdict, row.Error = nil, row.err.Error()
	case !row.Agrees:
		r.differing++
	}
	if row.Verdict != nil && row.Migration != nil {
		r.unfinished++
		if row.Migration.MayBe {
			r.migratable++
		}
	}
	r.shown.add(r, row)
	switch r.format.String() {
	case "json":
		r.rows = append(r.rows, row)
		return nil
	case "jsonl":
		return cli.List[replayRow]{}.Print(r.sh, r.format, []replayRow{row})
	default:
		r.text(row)
		return nil
	}
}
