package operate

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"flunq.io/flunq/cmd/actions"
	"flunq.io/flunq/cmd/cli"
	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/history"
	"flunq.io/flunq/engine/store"
)

// attemptLog is one run of the command logs.
type attemptLog struct {
	command

	follow bool

	wanted   func(*history.TaskRun) bool
	runs     *history.Execution
	begun    bool
	reset    *event.Reset               // the execution that this one was created from
	version  string                     // of the document that the execution runs at this event; "" if unknown
	requests *actions.Requests          // nil if they cannot be computed
	asked    map[string]actions.Request // requests of open calls, by task run
	out      cli.Stream[attemptRow]
}

// NewLogsCommand returns the command flunq logs.
func NewLogsCommand(sh *cli.Shell) *cobra.Command {
	l := &attemptLog{}
	c := &cobra.Command{
		Use:   "logs ID [TASK]",
		Short: "Show the attempts of tasks, with requests and responses",
		Long: `Shows every attempt of the tasks of an execution in the order in which they ended, then
those that have not ended: for a call the request (">") and the response ("<"), for any
other task its output, and for a failure the error. Tasks that only contain others (do,
for, fork, try) are left out. TASK is a name or a reference (/do/1/charge), which
includes the tasks inside it.

The history holds the method, the URL and the status of a call, and its result. It does
not hold headers and bodies of requests: they are computed from the document and the
history, as the executor computed them (User-Agent is left out). Credentials are shown as
***. A request that reads a secret can only be computed with --secrets. Of 'call: openapi'
only the method, the URL and the status are known, as of calls before a reset or a
migration. Response headers are not kept.

Members of the JSON form: task, name, type, iteration, attempt, status, began, ended,
duration_ms (of a call: without the time for which it waited for an executor), request
{method, uri, headers, body; or problem: why it is unknown}, call {method, url,
redirected_from, status} as recorded, output, error.`,
		Example: `  flunq logs order-7
  flunq logs order-7 charge -o json | jq '.[-1].request'
  flunq logs order-7 /do/1 --follow`,
		GroupID: cli.GroupOperate,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) > 2 { // the execution and the task
				return cli.Misusef("logs: want an execution and a task, got %d arguments%s", len(args), cli.SeeHelp(c))
			}
			return cli.SomeArguments("execution")(c, args)
		},
	}
	l.command = newCommand(c, sh, "text", "json", "jsonl", "yaml")
	l.out = cli.Stream[attemptRow]{Sh: sh, Format: l.format, Text: l.text}
	c.Flags().BoolVarP(&l.follow, "follow", "f", false, "follow the attempts until the execution ends")
	c.Flags().StringVar(&l.target.Secrets, "secrets", "", "read the secrets from `FILE`, for requests that contain them (shown as ***)")
	c.ValidArgsFunction = cli.CompleteExecutions(l.target)
	c.RunE = l.target.Run(l.run)
	return c
}

// attemptRow is an attempt of a task, in the JSON output.
type attemptRow struct {
	Task       string           `json:"task"`
	Name       string           `json:"name"`
	Type       string           `json:"type"`
	Iteration  string           `json:"iteration,omitempty"`
	Attempt    string           `json:"attempt,omitempty"`
	Status     history.State    `json:"status"`
	Began      time.Time        `json:"began"`
	Ended      *time.Time       `json:"ended,omitempty"`
	DurationMS int64            `json:"duration_ms"` // so far, if it has not ended
	Request    *actions.Request `json:"request,omitempty"`
	Call       *event.Call      `json:"call,omitempty"`
	Output     json.RawMessage  `json:"output,omitempty"`
	Error      *event.Problem   `json:"error,omitempty"`
}

func (l *attemptLog) run(ctx context.Context, r *cli.Remote, args []string) error {
	x, err := cli.FindExecution(ctx, r, args[0])
	if err != nil {
		return err
	}
	task := ""
	if len(args) > 1 {
		task = args[1]
	}
	document, err := cli.DocumentOf(ctx, r, x)
	if err != nil {
		return err
	}
	if err := l.choose(document.Def, x, task); err != nil {
		return err
	}
	l.runs, l.asked = history.NewExecution(), map[string]actions.Request{}
	err = readHistory(ctx, l.sh, r, x, 0, l.follow, func(x store.Execution, _ int64, events []event.Event) error {
		if err := l.begin(ctx, r, x); err != nil {
			return err
		}
		for _, e := range events {
			l.take(e)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return l.end(ctx, r)
}

// choose sets which runs are shown.
func (l *attemptLog) choose(def *dsl.Definition, x store.Execution, task string) error {
	container := map[string]bool{"do": true, "for": true, "fork": true, "try": true, "workflow": true}
	if task == "" {
		l.wanted = func(run *history.TaskRun) bool { return !container[run.Kind] }
		return nil
	}
	ref := event.ParseRun(task).Ref
	inside := strings.TrimSuffix(ref, "/") + "/"
	l.wanted = func(run *history.TaskRun) bool {
		return !container[run.Kind] && (run.Name == task || run.String() == task || run.Ref == ref ||
			strings.HasPrefix(run.Ref, inside) || strings.Contains(run.Ref, "/"+task+"/"))
	}
	if def == nil {
		return nil
	}
	var names []string
	for known, t := range def.Tasks() {
		if t.Name == task || known == ref || strings.HasPrefix(known, inside) {
			return nil
		}
		names = append(names, t.Name)
		if strings.HasPrefix(task, "/") {
			names[len(names)-1] = known
		}
	}
	slices.Sort(names)
	return cli.Misusef("workflow %s has no task %s%s; tasks: %s", x.Workflow, cli.Printable(task), cli.DidYouMean(task, names, ""), cli.Printable(cli.ShortList(slices.Compact(names))))
}

// begin prepares the computation of requests, once. It needs the document, which is known as soon as
// the execution has started.
func (l *attemptLog) begin(ctx context.Context, r *cli.Remote, x store.Execution) error {
	if l.begun || x.Definition == "" {
		return nil
	}
	l.begun = true
	env, err := r.Definitions.Hash(ctx, x.Tenant, x.Workflow, x.Definition)
	switch {
	case err == nil:
		l.requests = &actions.Requests{Env: env}
	case store.Temporary(err):
		return err
	default:
		l.sh.Hint("requests are not shown: %v", err)
	}
	return nil
}

// take applies the next event of the history, and prints the attempt that it ends.
func (l *attemptLog) take(e event.Event) {
	entry := history.Read(l.runs.Version+1, e)
	run, _ := l.runs.Add(entry)
	if d := entry.Data; d != nil && d.Reset != nil {
		l.reset = d.Reset
	}
	if d := entry.Data; d != nil && (e.Type == event.ExecutionStarted || e.Type == event.ExecutionMigrated) {
		l.version = d.Version
	}
	if l.requests != nil {
		maps.Copy(l.asked, l.current(l.requests.Add(e)))
	}
	if entry.Type != history.Type(event.TaskCompleted) || !l.wanted(run) {
		return
	}
	row := l.row(run)
	row.Ended = &run.Ended.At
	row.DurationMS = run.Ended.At.Sub(run.Began.At).Milliseconds()
	if d := entry.Data; d != nil {
		row.DurationMS, row.Call, row.Output, row.Error = d.DurationMS, d.Call, d.Output, d.Error
	}
	if from := l.reset; from != nil && row.Request != nil && e.Time.Before(from.At) {
		row.Request = &actions.Request{Problem: from.Execution + " sent it, see 'flunq logs " + from.Execution + "'"}
	}
	delete(l.asked, e.Task)
	l.out.Print(row)
}

// current returns requests as far as they are known: before a migration, or after one that happened while
// the execution is followed, they were composed from another version than the one that is read here.
func (l *attemptLog) current(computed map[string]actions.Request) map[string]actions.Request {
	now := l.requests.Env.Definition().Document.Version
	if l.version == now || l.version == "" || l.version == "latest" {
		return computed
	}
	for task := range computed {
		computed[task] = actions.Request{Problem: "version " + l.version + " of the workflow sent it, but requests are computed from version " + now}
	}
	return computed
}

func (l *attemptLog) row(run *history.TaskRun) attemptRow {
	row := attemptRow{
		Task: run.String(), Name: run.Name, Type: run.Kind, Iteration: history.Index(run.Iteration), Attempt: history.Attempts(run.Attempt),
		Status: run.State, Began: run.Began.At,
	}
	if request, ok := l.asked[row.Task]; ok {
		row.Request = &request
	}
	return row
}

// end prints the attempts that have not ended.
func (l *attemptLog) end(ctx context.Context, r *cli.Remote) error {
	now, err := r.Store.NowOf(ctx, r.Tenant)
	if err != nil {
		return err
	}
	for _, run := range l.runs.Open() {
		if l.wanted(run) {
			row := l.row(run)
			row.DurationMS = now.Sub(run.Began.At).Milliseconds()
			l.out.Print(row)
		}
	}
	if l.requests != nil && l.requests.Err != nil {
		l.sh.Hint("later requests are not shown, because the history does not follow from the document here: %v; if the document uses secrets, give --secrets", l.requests.Err)
	}
	return l.out.End()
}

// text prints an attempt in the style of curl -v.
func (l *attemptLog) text(row attemptRow) {
	style, took := "", "after"
	switch {
	case row.Status == history.Faulted:
		style = cli.Red
	case row.Ended == nil:
		style, took = cli.Yellow, "for"
	}
	fmt.Fprintf(l.sh.Out, "%s  %s  %s %s %s %s\n", cli.MomentMillis(row.Began),
		cli.Paint(l.sh.OutColor(), cli.Bold, cli.Printable(history.Task(row.Task))), row.Type,
		cli.Paint(l.sh.OutColor(), style, string(row.Status)), took, history.Duration(time.Duration(row.DurationMS)*time.Millisecond))
	switch q := row.Request; {
	case q != nil && q.Composed != nil:
		writeLines(l.sh, "> ", q.Method+" "+q.URI)
		for _, name := range slices.Sorted(maps.Keys(q.Headers)) {
			writeLines(l.sh, "> ", name+": "+q.Headers[name])
		}
		if q.Body != "" {
			writeLines(l.sh, "> ", "\n"+pretty(q.Body))
		}
	case row.Call != nil:
		writeLines(l.sh, "> ", row.Call.Method+" "+cmp.Or(row.Call.First, row.Call.URL))
	}
	if q := row.Request; q != nil && q.Problem != "" {
		writeLines(l.sh, "> ", "(headers and body are unknown: "+q.Problem+")")
	}
	if c := row.Call; c != nil {
		status := "(no response)"
		if c.Status != 0 {
			status = strconv.Itoa(c.Status)
		}
		if c.First != "" {
			status += ", redirected to " + c.URL
		}
		writeLines(l.sh, "< ", status)
	}
	if len(row.Output) > 0 {
		writeLines(l.sh, "< ", pretty(string(row.Output)))
	}
	if row.Error != nil {
		writeLines(l.sh, "  ", "error: "+row.Error.Error()+" ("+event.ShortType(row.Error.Type)+", status "+strconv.Itoa(row.Error.Status)+")")
	}
}

// pretty indents JSON that is longer than a line.
func pretty(text string) string {
	const line = 100
	if len(text) <= line {
		return text
	}
	return indented(text)
}
