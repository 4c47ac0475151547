package operate

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"flunq.io/flunq/cmd/cli"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/excerpt"
	"flunq.io/flunq/engine/expr/canonical"
	"flunq.io/flunq/engine/history"
	"flunq.io/flunq/sim/recording"
)

// NewDiffCommand returns the command flunq diff.
func NewDiffCommand(sh *cli.Shell) *cobra.Command {
	c := &cobra.Command{
		Use:   "diff ID1 ID2",
		Short: "Compare two executions, task by task",
		Long: `Compares two executions: their inputs, the runs of their tasks in the order in which they
began, and their results. For data it shows the paths that differ (".order: 7 -> 8").
Different times, ids and durations are ignored. Either argument may be a recording instead
(FILE.jsonl). The exit code is 4 if there is a difference.`,
		Example: `  flunq diff order-7 order-8
  flunq diff order-7.jsonl order-7 -o json | jq '.tasks[0]'`,
		GroupID: cli.GroupOperate,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) != 2 { // the two sides
				return cli.Misusef("diff: want two executions, got %d%s", len(args), cli.SeeHelp(c))
			}
			return nil
		},
	}
	t, format := cli.TargetFlags(c, sh), cli.OutputFlag(c, "text", "json", "yaml")
	all := c.Flags().Bool("all", false, "also show the tasks that do not differ")
	c.ValidArgsFunction = cli.CompleteExecutions(t)
	c.RunE = func(c *cobra.Command, args []string) error { return diffExecutions(c.Context(), t, format, args, *all) }
	return c
}

// diffSide is one of the executions to compare.
type diffSide struct {
	name     string
	workflow string
	version  string
	input    any
	order    []string // task runs
	tasks    map[string]*diffTask
	whole    diffTask // the execution itself
}

// diffTask is a task run on one side.
type diffTask struct {
	Status     history.State `json:"status"`
	DurationMS int64         `json:"duration_ms"`
	Call       string        `json:"call,omitempty"`

	ended           bool
	output, problem any
}

// diffRow is the comparison of a task run, in the JSON output.
type diffRow struct {
	Task        string    `json:"task"`
	Left        *diffTask `json:"left,omitempty"` // absent if it did not run there
	Right       *diffTask `json:"right,omitempty"`
	Differences []string  `json:"differences"`
}

// diffResult is the comparison in the JSON output.
type diffResult struct {
	Left      string    `json:"left"`
	Right     string    `json:"right"`
	Same      bool      `json:"same"`
	First     string    `json:"first,omitempty"` // the first task that differs; "input" or "result"
	Workflow  []string  `json:"workflow"`
	Input     []string  `json:"input"`
	Tasks     []diffRow `json:"tasks"` // those that differ, or all
	Result    []string  `json:"result"`
	Unchanged int       `json:"unchanged"` // number of tasks that do not differ
}

func diffExecutions(ctx context.Context, t *cli.Target, format *cli.Choice, args []string, all bool) error {
	var sides [2]*diffSide
	var r *cli.Remote
	for i, arg := range args {
		var err error
		if isRecording(arg) {
			sides[i], err = recordedSide(ctx, t.Sh, arg)
		} else {
			if r == nil {
				if r, err = t.Connect(ctx); err != nil {
					return err
				}
				defer r.Close()
			}
			sides[i], err = storedSide(ctx, r, arg)
		}
		if err != nil {
			return err
		}
	}
	out := compareSides(sides[0], sides[1], all)
	if err := cli.Show(t.Sh, format, out, func() { out.print(t.Sh) }); err != nil {
		return err
	}
	if !out.Same {
		return cli.Reported(cli.ExitUnexpected)
	}
	return nil
}

// isRecording reports whether an argument is a file rather than an execution.
func isRecording(arg string) bool {
	return filepath.Ext(arg) == ".jsonl" || strings.ContainsRune(arg, os.PathSeparator)
}

func recordedSide(ctx context.Context, sh *cli.Shell, file string) (*diffSide, error) {
	src, err := cli.ReadDocument(ctx, sh, file)
	if err != nil {
		return nil, err
	}
	rec, err := recording.Read(file, src, nil, cli.Version().Version)
	if err != nil {
		return nil, cli.Fail(cli.ExitInvalid, err)
	}
	s := newDiffSide(file)
	for i, e := range rec.History() {
		s.add(history.Read(int64(i)+1, e))
	}
	return s, nil
}

func storedSide(ctx context.Context, r *cli.Remote, id string) (*diffSide, error) {
	x, err := cli.FindExecution(ctx, r, id)
	if err != nil {
		return nil, err
	}
	s := newDiffSide(id)
	return s, eachEntry(ctx, r, x, s.add)
}

func newDiffSide(name string) *diffSide {
	return &diffSide{name: name, tasks: map[string]*diffTask{}, whole: diffTask{Status: notEnded}}
}

// notEnded is the state of an execution that has neither ended nor been suspended. Whether it is running or
// waiting is no result.
const notEnded history.State = "not ended"

// add adds the next entry of the history.
func (s *diffSide) add(e history.Entry) {
	d := e.Data
	switch {
	case d == nil:
	case e.Type == history.Type(event.ExecutionStarted):
		s.workflow, s.version, s.input = d.Namespace+"."+d.Name, d.Version, decoded(d.Input)
	case e.Type == history.Type(event.ExecutionMigrated):
		s.version = d.Version
	case e.Type == history.Type(event.TaskRequested), e.Type == history.Type(event.TaskCompleted):
		run := s.tasks[e.Task]
		if run == nil {
			run = &diffTask{}
			s.tasks[e.Task], s.order = run, append(s.order, e.Task)
		}
		run.Status = e.State
		if e.Type == history.Type(event.TaskCompleted) {
			run.ended, run.DurationMS, run.Call, run.output = true, d.DurationMS, e.Call, decoded(d.Output)
			if d.Error != nil {
				run.problem = decoded(event.Encode(d.Error))
			}
		}
	case e.Task != "" && e.State != "" && s.tasks[e.Task] != nil: // of its timer
		s.tasks[e.Task].Status = e.State
	case e.Task == "" && e.State == history.Running:
		s.whole = diffTask{Status: notEnded}
	case e.Task == "" && e.State != "":
		s.whole = diffTask{Status: e.State, output: decoded(d.Output)}
		if d.Error != nil {
			s.whole.problem = decoded(event.Encode(d.Error))
		}
	}
}

// compareSides compares two executions.
func compareSides(a, b *diffSide, all bool) diffResult {
	out := diffResult{Left: a.name, Right: b.name}
	if a.workflow != b.workflow {
		out.Workflow = append(out.Workflow, a.workflow+" -> "+b.workflow)
	}
	if a.version != b.version {
		out.Workflow = append(out.Workflow, "version "+a.version+" -> "+b.version)
	}
	out.Input = dataDifferences("", a.input, b.input)
	if len(out.Input) > 0 {
		out.First = "input"
	}
	for _, task := range merged(a.order, b.order) {
		row := diffRow{Task: task, Left: a.tasks[task], Right: b.tasks[task]}
		switch {
		case row.Left == nil:
			row.Differences = []string{"runs only in " + b.name}
		case row.Right == nil:
			row.Differences = []string{"runs only in " + a.name}
		default:
			row.Differences = row.Left.differences(row.Right)
		}
		if len(row.Differences) == 0 {
			out.Unchanged++
		} else {
			out.First = cmp.Or(out.First, task)
		}
		if all || len(row.Differences) > 0 {
			out.Tasks = append(out.Tasks, row)
		}
	}
	out.Result = a.whole.differences(&b.whole)
	if len(out.Result) > 0 {
		out.First = cmp.Or(out.First, "result")
	}
	out.Same = out.First == "" && len(out.Workflow) == 0
	return out
}

// merged returns the task runs of both sides, in the order of the first side. A run that only the
// second side has follows the run that precedes it there.
func merged(a, b []string) []string {
	known := make(map[string]bool, len(a))
	for _, task := range a {
		known[task] = true
	}
	after := map[string][]string{} // by the last run that both have
	last := ""
	for _, task := range b {
		if known[task] {
			last = task
		} else {
			after[last] = append(after[last], task)
		}
	}
	out := slices.Clone(after[""])
	for _, task := range a {
		out = append(append(out, task), after[task]...)
	}
	return out
}

func (t *diffTask) differences(other *diffTask) (out []string) {
	if t.Status != other.Status {
		out = append(out, fmt.Sprintf("%s -> %s", t.Status, other.Status))
	} else {
		out = append(out, dataDifferences("output", t.output, other.output)...)
	}
	if t.Call != other.Call {
		out = append(out, fmt.Sprintf("%s -> %s", cmp.Or(t.Call, "no call"), cmp.Or(other.Call, "no call")))
	}
	return append(out, dataDifferences("error", t.problem, other.problem)...)
}

// maxDifferences is the maximum number of paths listed for a value.
const maxDifferences = 20

// dataDifferences describes the places at which two values differ.
func dataDifferences(path string, a, b any) (out []string) {
	for d := range canonical.Differences(a, b) {
		out = append(out, cmp.Or(path+d.Path, ".")+": "+shown(d.A, d.InA)+" -> "+shown(d.B, d.InB))
	}
	if len(out) > maxDifferences {
		out = append(out[:maxDifferences], history.Number(len(out)-maxDifferences)+" more")
	}
	return out
}

// shown returns a value of a difference.
func shown(v any, there bool) string {
	const longest = 60
	if !there {
		return "(absent)"
	}
	return excerpt.Of(string(canonical.Encode(v)), longest)
}

func (d diffResult) print(sh *cli.Shell) {
	list := func(mark string, lines []string) {
		for _, line := range lines {
			fmt.Fprintf(sh.Out, "%s%s\n", mark, cli.OneLine(line))
		}
	}
	list("workflow  ", d.Workflow)
	list("input     ", d.Input)
	duration := func(t *diffTask) string {
		switch {
		case t == nil:
			return "-"
		case !t.ended:
			return string(t.Status)
		}
		return string(t.Status) + " " + history.Duration(time.Duration(t.DurationMS)*time.Millisecond)
	}
	for _, row := range d.Tasks {
		mark := "="
		if len(row.Differences) > 0 {
			mark = "!"
		}
		fmt.Fprintf(sh.Out, "%s %s  %s | %s\n", mark, cli.Printable(history.Task(row.Task)), duration(row.Left), duration(row.Right))
		list("    ", row.Differences)
	}
	list("result    ", d.Result)
	switch {
	case d.Same:
		sh.Hint("no difference in %s", history.Count(d.Unchanged, "task run"))
	case d.First != "":
		sh.Hint("first difference: %s; the same: %s", cli.Printable(history.Task(d.First)), history.Count(d.Unchanged, "task run"))
	}
}
