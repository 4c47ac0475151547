package operate

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"flunq.io/flunq/cmd/cli"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/history"
)

// NewShowCommand returns the command flunq show.
func NewShowCommand(sh *cli.Shell) *cobra.Command {
	c := &cobra.Command{
		Use:     "show ID",
		Aliases: []string{"describe"},
		Short:   "Show the state of an execution",
		Long: `Shows an execution: its status, input and result; its running tasks, its pending timers
and what it waits for; its parent and its children; and the error that ended it, with the
line of the document that caused it.

Members of the JSON form: id, tenant, workflow, workflow_version, definition, status,
created, ended, age_ms, duration_ms, events, parent, parent_task, input, output, error,
error_at {line, column, text}, tasks [{task, name, type, since, for_ms, iteration,
attempt; the last is absent for the first attempt}], timers (as in 'flunq timers ls',
and those that are needed but not set, with the state "cancelled" and cancelled_by,
"missing" or "not set yet"), waits_for, stuck (tasks that nothing will ever end),
children (as in 'flunq ps'), labels, reset {execution, task, at, by, reason: its
origin}, and problem, if its state could not be fully determined.`,
		Example: `  flunq show order-7
  flunq show order-7 -o json | jq '.timers[0].due'`,
		GroupID: cli.GroupOperate,
		Args:    cli.OneArgument("execution"),
	}
	t := newCommand(c, sh, "text", "json", "yaml")
	c.ValidArgsFunction = cli.CompleteExecutions(t.target)
	c.RunE = t.target.Run(t.showExecution)
	return c
}

// executionPage is an execution as show prints it.
type executionPage struct {
	executionRow

	Input    json.RawMessage `json:"input,omitempty"`
	Output   json.RawMessage `json:"output,omitempty"`
	Error    *event.Problem  `json:"error,omitempty"`
	ErrorAt  *linePlace      `json:"error_at,omitempty"`
	Tasks    []openTask      `json:"tasks"`
	Timers   []timerRow      `json:"timers"`
	WaitsFor []string        `json:"waits_for"`
	Children []executionRow  `json:"children"`
	Reset    *event.Reset    `json:"reset,omitempty"`
	Problem  string          `json:"problem,omitempty"`

	source     cli.Document
	restorable bool // 'flunq timers restore' can repair it
	unserved   bool // a request waits for an executor
	settings   cli.Settings
}

// linePlace is a position in a document and the text of its line.
type linePlace struct {
	Line   int    `json:"line"`
	Column int    `json:"column"`
	Text   string `json:"text"`
}

// openTask is a task that has begun but not ended.
type openTask struct {
	Task      string    `json:"task"`
	Name      string    `json:"name"`
	Type      string    `json:"type"`
	Since     time.Time `json:"since"`
	ForMS     int64     `json:"for_ms"`
	Iteration string    `json:"iteration,omitempty"`
	Attempt   string    `json:"attempt,omitempty"`
}

func (c command) showExecution(ctx context.Context, r *cli.Remote, args []string) error {
	x, err := cli.FindExecution(ctx, r, args[0])
	if err != nil {
		return err
	}
	page, err := pageOf(ctx, c.sh, r, x)
	if err != nil {
		return err
	}
	if page.unserved {
		cli.HintUnserved(ctx, c.sh, r, "executor")
	}
	return cli.Show(c.sh, c.format, page, func() { page.write(c.sh) })
}

func (p executionPage) write(sh *cli.Shell) {
	ended := ""
	if p.Ended != nil {
		ended = cli.Moment(*p.Ended) + ", after " + p.duration()
	}
	workflow := p.Workflow
	if p.WorkflowVersion != "" {
		workflow += ":" + p.WorkflowVersion
	}
	parent := p.Parent
	if p.ParentTask != "" {
		parent += ", task " + history.Task(p.ParentTask)
	}
	reset := ""
	if from := p.Reset; from != nil {
		reset = from.Execution + ", task " + history.Task(from.Task) + ", by " + from.By
	}
	writeRows(sh, [][2]string{
		{"execution", p.ID},
		{"status", p.status()},
		{"workflow", workflow},
		{"document", shortHash(p.Definition)},
		{"tenant", p.Tenant},
		{"created", cli.Moment(p.Created) + ", " + p.age() + " ago"},
		{"ended", ended},
		{"events", strconv.FormatInt(p.Events, 10)},
		{"parent", parent},
		{"labels", p.labels()},
		{"reset from", reset},
		{"problem", p.Problem},
	})
	writeData(sh, "input", p.Input)
	writeData(sh, "output", p.Output)
	if p.Error != nil {
		fmt.Fprintln(sh.Out)
		p.source.Explain(sh.Out, sh.OutColor(), p.Error)
	}
	p.writeOpen(sh)
}

// writeRows prints names and values. It omits empty values.
func writeRows(sh *cli.Shell, rows [][2]string) {
	width := 0
	for _, row := range rows {
		if row[1] != "" {
			width = max(width, len(row[0]))
		}
	}
	for _, row := range rows {
		if row[1] != "" {
			fmt.Fprintf(sh.Out, "%-*s  %s\n", width, row[0], cli.OneLine(row[1]))
		}
	}
}

// maxLines is the maximum number of lines printed of a value.
const maxLines = 30

// writeData prints a name and, below it, a value.
func writeData(sh *cli.Shell, name string, value json.RawMessage) {
	if len(value) == 0 {
		return
	}
	fmt.Fprintf(sh.Out, "\n%s\n", cli.Paint(sh.OutColor(), cli.Bold, name))
	writeLines(sh, "", indented(string(value)))
}

// writeLines prints the lines of text, each after a mark, up to a maximum.
func writeLines(sh *cli.Shell, mark, text string) {
	all := strings.Split(cli.Printable(text), "\n")
	for _, line := range all[:min(len(all), maxLines)] {
		fmt.Fprintln(sh.Out, strings.TrimRight("  "+mark+line, " "))
	}
	if left := len(all) - maxLines; left > 0 {
		fmt.Fprintf(sh.Out, "  %s… %s more (-o json has all)\n", mark, history.Count(left, "line"))
	}
}

// indented formats JSON for people, and returns any other text unchanged.
func indented(text string) string {
	var out bytes.Buffer
	if json.Indent(&out, []byte(text), "", "  ") != nil {
		return text
	}
	return out.String()
}

// writeOpen prints the open tasks, the timers, what the execution waits for, and the
// children.
func (p executionPage) writeOpen(sh *cli.Shell) {
	below(sh, p.Tasks, []cli.Column[openTask]{
		{Title: "TASK", Text: func(t openTask) string { return history.Task(t.Task) }},
		{Title: "TYPE", Text: func(t openTask) string { return t.Type }},
		{Title: "FOR", Text: func(t openTask) string { return history.Duration(time.Duration(t.ForMS) * time.Millisecond) }},
		{Title: "SINCE", Text: func(t openTask) string { return cli.Moment(t.Since) }},
	})
	below(sh, p.Timers, []cli.Column[timerRow]{
		{Title: "TIMER", Text: timerRow.name},
		{Title: "DUE IN", Text: timerRow.dueIn},
		{Title: "DUE AT", Text: func(t timerRow) string { return cli.Moment(t.Due) }},
		{Title: "KIND", Text: timerRow.kind},
		{Title: "TASK", Text: func(t timerRow) string { return cmp.Or(t.subject(), "(the workflow)") }},
	})
	listed := func(title string, lines []string) {
		if len(lines) > 0 {
			fmt.Fprintf(sh.Out, "\n%s\n", cli.Paint(sh.OutColor(), cli.Bold, title))
		}
		for _, line := range lines {
			fmt.Fprintf(sh.Out, "  %s\n", cli.OneLine(line))
		}
	}
	listed("waits for", p.WaitsFor)
	listed("nothing will end", p.Stuck)
	if p.restorable {
		sh.Hint("'flunq timers restore %s' restores what is missing", p.ID)
	}
	below(sh, p.Children, []cli.Column[executionRow]{
		{Title: "CHILD", Text: func(x executionRow) string { return x.ID }},
		{Title: "WORKFLOW", Text: func(x executionRow) string { return x.Workflow }},
		{Title: "STATUS", Text: executionRow.status},
		{Title: "AGE", Text: executionRow.age},
		{Title: "DURATION", Text: executionRow.duration},
	})
}

// below prints an empty line and a table, unless there are no rows.
func below[T any](sh *cli.Shell, rows []T, columns []cli.Column[T]) {
	if len(rows) > 0 {
		fmt.Fprintln(sh.Out)
		cli.List[T]{Columns: columns}.Table(sh, rows, false)
	}
}
