package operate

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/mattn/go-runewidth"
	"github.com/spf13/cobra"

	"flunq.io/flunq/cmd/actions"
	"flunq.io/flunq/cmd/cli"
	"flunq.io/flunq/cmd/report"
	"flunq.io/flunq/cmd/run"
	"flunq.io/flunq/engine/cloudevents"
	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/examine"
	"flunq.io/flunq/engine/history"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/sim/recording"
)

// historyPrinter is one run of the command history.
type historyPrinter struct {
	command

	after  int64
	follow bool
	report string

	page     run.ReportFile
	reported *report.Recording // for --report

	rows      []historyRow       // for -o json and yaml
	rec       *recording.Export  // for -o jsonl
	lifecycle *history.Lifecycle // for -o cloudevents
}

// NewHistoryCommand returns the command flunq history.
func NewHistoryCommand(sh *cli.Shell) *cobra.Command {
	h := &historyPrinter{}
	c := &cobra.Command{
		Use:   "history ID",
		Short: "Show the events of an execution",
		Long: `Shows the history of an execution, oldest event first. For each call it shows the URL as
it was sent, with *** for secrets, and the status of the response (-o json: data.call);
histories written by an earlier flunq do not contain these.

-o jsonl is a recording, as 'flunq run --record' writes it: a header with the document and
the input, the events, and the result. It does not contain HTTP exchanges, which Redis
does not keep; the results of calls are in the task.completed events, and the header says
"results": "history". Secrets are sealed in Redis and stay sealed. The data of each event
is JSON, ready for jq (other data is a string, or base64).

-o cloudevents prints the lifecycle events of the specification, one JSON object per line,
as a bridge publishes them (flunq help bridge).`,
		Example: `  flunq history order-7
  flunq history order-7 --follow
  flunq history order-7 -o jsonl > order-7.jsonl
  flunq history order-7 --report order-7.html
  flunq history order-7 -o jsonl | jq -c 'select(.data.output) | .event.taskid'`,
		GroupID: cli.GroupOperate,
		Args:    cli.OneArgument("execution"),
	}
	h.command = newCommand(c, sh, "table", "json", "jsonl", "cloudevents", "yaml")
	c.Flags().Int64Var(&h.after, "after", 0, "only events after `VERSION`")
	c.Flags().BoolVarP(&h.follow, "follow", "f", false, "follow the history until the execution ends")
	c.Flags().Var(cli.WrittenFile{Name: &h.report}, "report", "also write an HTML report to `FILE`: timeline, graph, data")
	c.ValidArgsFunction = cli.CompleteExecutions(h.target)
	c.PreRunE = func(*cobra.Command, []string) error { return h.check() }
	c.RunE = h.target.Run(h.run)
	return c
}

// historyRow is an event of a history in the JSON output.
type historyRow struct {
	Version int64             `json:"version"`
	Time    time.Time         `json:"time"`
	Type    event.Type        `json:"type"`
	Task    string            `json:"task,omitempty"`
	ID      string            `json:"id"`
	Source  string            `json:"source"`
	Data    json.RawMessage   `json:"data,omitempty"`
	Further map[string]string `json:"attributes,omitempty"`
}

// check checks the flags, and that the report can be written.
func (h *historyPrinter) check() (err error) {
	switch format := h.format.String(); {
	case h.after < 0:
		return cli.Misusef("--after %d: want 0 or more", h.after)
	case h.after > 0 && format == "jsonl":
		return cli.Misusef("--after and -o jsonl exclude each other: a recording is complete")
	case h.after > 0 && format == "cloudevents":
		return cli.Misusef("--after and -o cloudevents exclude each other: later events follow from earlier ones")
	case h.after > 0 && h.report != "":
		return cli.Misusef("--after and --report exclude each other: a report is complete")
	}
	h.page, err = run.OpenReport(h.sh, h.report)
	return err
}

func (h *historyPrinter) run(ctx context.Context, r *cli.Remote, args []string) error {
	x, err := cli.FindExecution(ctx, r, args[0])
	if err != nil {
		return err
	}
	if h.report != "" {
		h.reported = report.NewRecording("")
	}
	if h.format.String() == "table" {
		h.line("", "VERSION", "TIME", "EVENT", "TASK", "DETAIL")
	}
	err = readHistory(ctx, h.sh, r, x, h.after, h.follow, func(x store.Execution, at int64, events []event.Event) error {
		return h.take(ctx, r, x, at, events)
	})
	if err != nil {
		return err
	}
	return h.end(ctx, r, x.ID)
}

// readHistory calls take with the history of an execution after a version, in batches; the last may be
// empty. With follow it outlasts outages and continues until the execution ends.
func readHistory(ctx context.Context, sh *cli.Shell, r *cli.Remote, x store.Execution, after int64, follow bool,
	take func(x store.Execution, after int64, events []event.Event) error,
) error {
	for {
		var events []event.Event
		read := func() (err error) {
			events, err = r.Store.History(ctx, x.Tenant, x.ID, after, store.HistoryPage)
			return err
		}
		var err error
		if follow {
			err = sh.Outlast(ctx, read)
		} else {
			err = read()
		}
		if err == nil {
			err = take(x, after, events)
		}
		if err != nil {
			return err
		}
		after += int64(len(events))
		switch {
		case len(events) == store.HistoryPage:
		case !follow, len(events) == 0 && examine.Ended(x.Status):
			return nil
		default:
			if x, err = new(cli.WaitFlags).Until(ctx, sh, r, x.ID, func(now store.Execution) bool {
				return now.Version > after || examine.Ended(now.Status)
			}); err != nil {
				return err
			}
		}
	}
}

// eachEntry calls take with each entry of a history up to the version of the execution.
func eachEntry(ctx context.Context, r *cli.Remote, x store.Execution, take func(history.Entry)) error {
	version := int64(0)
	return r.Store.EachPage(ctx, x, 0, func(events []event.Event) error {
		for _, e := range events {
			version++
			take(history.Read(version, e))
		}
		return nil
	})
}

// take prints a batch of events that follows a version.
func (h *historyPrinter) take(ctx context.Context, r *cli.Remote, x store.Execution, at int64, events []event.Event) error {
	var outs []io.Writer // of the recording
	if h.format.String() == "jsonl" {
		outs = append(outs, h.sh.Out)
	}
	if h.reported != nil {
		outs = append(outs, h.reported)
	}
	if len(outs) > 0 && (len(events) > 0 || !h.follow) { // otherwise the execution may not have begun
		if h.rec == nil {
			var err error
			recorder := actions.Recorder{Store: r.Store, Version: cli.Version().Version, Out: io.MultiWriter(outs...)}
			if h.rec, err = recorder.Begin(ctx, x, events); err != nil {
				return err
			}
		}
		if err := h.rec.Add(events); err != nil {
			return err
		}
	}
	switch h.format.String() {
	case "jsonl":
	case "cloudevents":
		return h.lifecycles(ctx, r, x, at, events)
	case "table":
		for i, e := range events {
			h.tabled(at+int64(i)+1, e)
		}
	default:
		for i, e := range events {
			h.rows = append(h.rows, historyRow{
				Version: at + int64(i) + 1, Time: e.Time, Type: e.Type, Task: e.Task, ID: e.ID, Source: e.Source, Data: e.Data, Further: e.Ext,
			})
		}
	}
	return nil
}

// lifecycles prints the lifecycle events of a batch.
func (h *historyPrinter) lifecycles(ctx context.Context, r *cli.Remote, x store.Execution, at int64, events []event.Event) error {
	if h.lifecycle == nil {
		doc, err := cli.DocumentOf(ctx, r, x)
		if err != nil {
			return err
		}
		h.lifecycle = &history.Lifecycle{}
		if doc.Def != nil {
			h.lifecycle.Version = doc.Def.Document.Version
		}
	}
	for i, e := range events {
		for _, out := range h.lifecycle.Add(at+int64(i)+1, e) {
			fmt.Fprintf(h.sh.Out, "%s\n", cloudevents.JSON(out))
		}
	}
	return nil
}

// end prints what follows the events.
func (h *historyPrinter) end(ctx context.Context, r *cli.Remote, id string) error {
	if h.rec != nil {
		x, err := r.Store.Execution(ctx, r.Tenant, id)
		if err != nil {
			return err
		}
		problem, err := actions.Problem(x)
		if err == nil {
			err = h.rec.End(decide.Status(x.Status), x.Output, problem)
		}
		if err != nil {
			return err
		}
	}
	if h.reported != nil && !h.reported.Empty() {
		page := &report.Report{Verb: "history", Command: "flunq history " + cli.Quote(id) + " -o jsonl | flunq replay -", Verdict: h.reported.Ended(), Runs: []*report.Recording{h.reported}}
		if err := h.page.Write(page); err != nil {
			return err
		}
	}
	return cli.Show(h.sh, h.format, h.rows, func() {}) // other formats were printed row by row
}

// tabled prints an event as a row of the table.
func (h *historyPrinter) tabled(version int64, e event.Event) {
	e.Time = e.Time.Local() // its description has times in the same zone
	entry, style := history.Read(version, e), ""
	if entry.State == history.Faulted {
		style = cli.Red
	}
	h.line(style, strconv.FormatInt(version, 10), cli.MomentMillis(e.Time), entry.Type, history.Task(e.Task), entry.Text)
}

// line prints one row immediately, so the columns have fixed widths. The last one is styled
// and takes the rest of the line.
func (h *historyPrinter) line(style string, cells ...string) {
	var b strings.Builder
	for i, width := range []int{9, 31, 22, 24} {
		text := cells[i]
		if i != 0 {
			text = h.sh.Cell(text)
		}
		b.WriteString(text)
		b.WriteString(strings.Repeat(" ", max(width-runewidth.StringWidth(text), 2)))
	}
	last := cli.OneLine(cells[4])
	if h.sh.Terminal && h.sh.Width > 0 {
		last = runewidth.Truncate(last, max(h.sh.Width-runewidth.StringWidth(b.String()), 20), "…")
	}
	if last != "" && style != "" {
		last = cli.Paint(h.sh.OutColor(), style, last)
	}
	fmt.Fprintln(h.sh.Out, strings.TrimRight(b.String()+last, " "))
}
