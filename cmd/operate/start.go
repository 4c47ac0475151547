package operate

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"flunq.io/flunq/cmd/actions"
	"flunq.io/flunq/cmd/cli"
	"flunq.io/flunq/engine"
	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/examine"
	"flunq.io/flunq/engine/expr/canonical"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/processes"
	"flunq.io/flunq/engine/store/timers"
	"flunq.io/flunq/engine/worker"
	"flunq.io/flunq/engine/yaml"
)

// starter is one run of the command start.
type starter struct {
	command

	input, id string
	due       due
	replace   *bool
	labels    []string
	patience  *cli.WaitFlags
}

// NewStartCommand returns the command flunq start.
func NewStartCommand(sh *cli.Shell) *cobra.Command {
	s := &starter{}
	c := &cobra.Command{
		Use:   "start FILE|NAME[:VERSION]",
		Short: "Start a workflow on a running engine",
		Long: `Starts an execution of a workflow and prints its id. A FILE is registered first; NAME
names a registered workflow, with or without its namespace, by default in its latest
version.

'flunq serve' or 'flunq dev' run it. With --wait the command waits until the execution
ends, prints its output instead of the id, and returns the exit code of 'flunq run'.

With --after or --at a timer starts it. Starting the same --id again under the same --key
moves the start; 'flunq timers cancel --execution ID --key KEY' cancels it, as does starting
it without --after and --at if it has no --key of its own.`,
		Example: `  flunq start order.yaml --input '{"order": 7}' --id order-7
  flunq start shop.order:1.2.0 --input @order.json --wait --timeout 1m
  flunq start shop.order --label team=payments --label incident=1207
  flunq start shop.reminder --id reminder-7 --after P1D
  id=$(flunq start shop.order)`,
		GroupID: cli.GroupOperate,
		Args:    cli.OneArgument("file or workflow"),
	}
	s.command = newCommand(c, sh, "text", "json", "yaml", "ids")
	f := c.Flags()
	f.StringVarP(&s.input, "input", "i", "", "start it with `INPUT`: JSON, @FILE, - for stdin, or none")
	f.StringVar(&s.id, "id", "", "give the execution the id `ID` (default: random); it must be unused")
	f.StringArrayVarP(&s.labels, "label", "l", nil, "give it the label `NAME=VALUE`, for 'flunq ps --label'; repeatable")
	s.due.add(c, "start it", "the start's key `KEY` among the inputs of the execution (default "+timers.StartKey+")")
	s.replace = replaceFlag(c)
	s.patience = cli.NewWaitFlags(c, "until the execution has ended")
	cli.Exclude(c, "wait", "after")
	cli.Exclude(c, "wait", "at")
	c.ValidArgsFunction = completeWorkflows(s.target, cobra.ShellCompDirectiveDefault)
	c.RunE = func(c *cobra.Command, args []string) error { return s.run(c.Context(), args[0]) }
	return c
}

// startedRow is a started execution, in the JSON output.
type startedRow struct {
	ID     string          `json:"id"`
	Status string          `json:"status"`
	Due    *time.Time      `json:"due,omitempty"` // of a pending start
	Output json.RawMessage `json:"output,omitempty"`
	Error  *event.Problem  `json:"error,omitempty"`
}

func (s *starter) run(ctx context.Context, given string) error {
	b, err := s.prepare(ctx, given)
	if err != nil {
		return err
	}
	source := cli.Document{}
	if isFile(given) {
		documents, err := readDocuments(ctx, s.sh, []string{given})
		if err != nil {
			return err
		}
		if len(documents) != 1 {
			return cli.Misusef("%s: want one document to start, got %d", given, len(documents))
		}
		source = documents[0]
	}
	r, err := s.target.Connect(ctx)
	if err != nil {
		return err
	}
	defer r.Close()
	if err := checkLimits(ctx, s.sh, r); err != nil {
		return err
	}
	if source, err = s.resolve(ctx, r, given, source); err != nil {
		return err
	}
	if err := checkInput(source.Def, b.Input); err != nil {
		return err
	}
	doc := source.Def.Document
	b.Tenant, b.Namespace, b.Name, b.Version = r.Tenant, doc.Namespace, doc.Name, doc.Version
	row, err := s.start(ctx, r, b)
	if err != nil {
		if errors.Is(err, store.ErrExists) {
			return fmt.Errorf("%w: 'flunq show %s' shows it; ids cannot be reused", err, b.ID)
		}
		return err
	}
	cli.HintUnserved(ctx, s.sh, r, "worker", "executor", "timer")
	if !s.patience.Wait {
		return s.print(row)
	}
	return s.await(ctx, r, b.ID, source)
}

// start starts the execution, or sets the timer that will.
func (s *starter) start(ctx context.Context, r *cli.Remote, b engine.StartRequest) (startedRow, error) {
	row := startedRow{ID: b.ID, Status: string(decide.Pending)}
	if s.due.after+s.due.at == "" {
		if err := engine.StartExecution(ctx, r.Store, b); err != nil || s.id == "" {
			return row, cli.Repeatable(b.ID, err)
		}
		return row, s.cancelStart(ctx, r, b.ID)
	}
	now, err := r.Store.NowOf(ctx, r.Tenant)
	if err != nil {
		return row, err
	}
	at, err := s.due.moment(now)
	if err != nil {
		return row, err
	}
	t, moved, err := engine.ScheduleStart(ctx, r.Store, b, at, cmp.Or(s.due.key, timers.StartKey))
	if err != nil {
		return row, cli.Repeatable(b.ID, err)
	}
	verb := "starts"
	if moved {
		verb = "now starts"
	}
	s.sh.Hint("it %s at %s, as timer %s", verb, cli.Moment(at), timerName(t))
	row.Status, row.Due = "scheduled", &t.FireAt
	return row, nil
}

// cancelStart cancels the pending start of an execution that has been started.
func (s *starter) cancelStart(ctx context.Context, r *cli.Remote, id string) error {
	cancelled, had, err := timers.New(r.Store).CancelStart(ctx, r.Tenant, id)
	if err != nil {
		return fmt.Errorf("execution %s is started, but a pending start may remain ('flunq timers ls --kind start'): %w", id, err)
	}
	if had {
		s.sh.Hint("it does not start again at %s: timer %s is cancelled", cli.Moment(cancelled.Moment()), cancelled.ID)
	}
	return nil
}

// timerName returns the id of a timer that was just set.
func timerName(t event.Timer) string {
	id, _ := timers.ID(t)
	return id
}

// checkLimits returns an error if Redis is nearly full or the tenant has reached its limit
// of open executions.
func checkLimits(ctx context.Context, sh *cli.Shell, r *cli.Remote) error {
	limits, err := startLimits(ctx, sh, r)
	if err != nil {
		return err
	}
	used, most, err := r.Store.MemoryUse(ctx)
	if err == nil && most > 0 && limits.RedisPercent > 0 && used > most/100*int64(limits.RedisPercent) {
		return cli.Fail(cli.ExitLimit, errors.New(worker.FullText(used, most, limits.RedisPercent)))
	}
	if limits.Executions == 0 {
		return nil
	}
	open, err := r.Store.Open(ctx, r.Tenant, limits.Executions)
	if err != nil || open < limits.Executions {
		return err
	}
	return cli.Fail(cli.ExitLimit, errors.New(worker.OpenLimitText(r.Tenant, open, limits.Executions)))
}

// startLimits returns the lowest limits of the processes whose workers serve the tenant. If
// there are none, or the master of a cluster that knows them is down, it returns those of this
// command's settings.
func startLimits(ctx context.Context, sh *cli.Shell, r *cli.Remote) (processes.Limits, error) {
	var limits processes.Limits
	all, now, err := processes.In(r.Store).All(ctx)
	if store.Down(r.Store, err) {
		return limits, err
	}
	known := false
	for i := range all {
		p := &all[i]
		if p.Limits == nil || !p.Alive(now) || !p.Runs("worker", r.Tenant) {
			continue
		}
		known = true
		limits.Executions = lower(limits.Executions, p.Limits.Executions)
		limits.RedisPercent = lower(limits.RedisPercent, p.Limits.RedisPercent)
	}
	if known {
		return limits, nil
	}
	set, err := cli.ReadSettings(sh)
	return processes.Limits{Executions: set.Open, RedisPercent: set.RedisPercent}, err
}

// lower returns the lower of two limits; 0 means no limit.
func lower(a, b int) int {
	if a == 0 || b == 0 {
		return max(a, b)
	}
	return min(a, b)
}

// checkInput returns an error if the input does not match the schema, since the execution
// would fault immediately.
func checkInput(def *dsl.Definition, input json.RawMessage) error {
	if def.Input.Schema == nil {
		return nil
	}
	if len(input) == 0 {
		input = json.RawMessage("{}")
	}
	v, err := canonical.DecodeForeign(input)
	if err != nil {
		return fmt.Errorf("read the input: %w", err)
	}
	if err := def.Input.Schema.Validate(v); err != nil {
		return cli.Fail(cli.ExitInvalid, fmt.Errorf("the input does not match the schema of %s: %w", def.ID(), err))
	}
	return nil
}

// prepare checks the flags and reads the input.
func (s *starter) prepare(ctx context.Context, given string) (b engine.StartRequest, err error) {
	if err := cmp.Or(s.patience.Check(), s.due.check()); err != nil {
		return b, err
	}
	switch {
	case s.due.after+s.due.at == "" && s.due.key != "":
		return b, cli.Misusef("start: --key needs --after or --at")
	case *s.replace && !isFile(given):
		return b, cli.Misusef("start: --replace needs the file of a document, and %q names a registered workflow", given)
	case given == "-" && s.input == "-":
		return b, cli.Misusef("the document and the input cannot both come from stdin")
	}
	b.ID = cmp.Or(s.id, strings.ToLower(rand.Text()))
	if err := store.CheckExecution(b.ID); err != nil {
		return b, cli.Misusef("--id: %w", err)
	}
	if b.Labels, err = event.ParseLabels(s.labels); err != nil {
		return b, cli.Misusef("--label: %w", err)
	}
	if s.input != cli.None { // as in 'flunq run'
		b.Input, err = cli.ReadData(ctx, s.sh, "--input", s.input)
	}
	return b, err
}

// isFile reports whether an argument is a file rather than the name of a workflow.
func isFile(given string) bool {
	if cli.MayBeDocument(given) || given == "-" || strings.ContainsRune(given, filepath.Separator) {
		return true
	}
	info, err := os.Stat(given)
	return err == nil && info.Mode().IsRegular()
}

// resolve registers the document of a file, or finds a registered workflow.
func (s *starter) resolve(ctx context.Context, r *cli.Remote, given string, source cli.Document) (cli.Document, error) {
	if source.Def != nil {
		if !*s.replace {
			if err := refuseReplacing(ctx, r, []cli.Document{source}); err != nil {
				return source, err
			}
		}
		_, err := register(ctx, r, source, &operator{shell: s.sh})
		return source, err
	}
	found, err := findWorkflow(ctx, r, given)
	if err != nil {
		return source, err
	}
	source = cli.StoredDocument(found.Workflow, found.Text)
	if source.Def == nil {
		return source, cli.Fail(cli.ExitInvalid, fmt.Errorf("workflow %s:%s is registered with a document that this version of flunq cannot parse", found.Workflow, found.Version))
	}
	if !s.sh.Quiet {
		yaml.RenderWarnings(s.sh.Err, source.Text, source.Def.CannotRun, s.sh.ErrColor())
	}
	return source, nil
}

// await waits until the execution ends and prints the result. It returns an error unless
// the execution completed.
func (s *starter) await(ctx context.Context, r *cli.Remote, id string, source cli.Document) error {
	if s.format.String() == "text" {
		s.sh.Hint("execution %s", id)
	}
	x, err := s.patience.Until(ctx, s.sh, r, id, func(x store.Execution) bool { return examine.Ended(x.Status) })
	if err != nil && x.Status != "" && s.format.String() != "text" {
		return errors.Join(s.print(startedRow{ID: id, Status: x.Status}), err)
	}
	if err == nil {
		x, err = r.Store.Execution(ctx, r.Tenant, id)
	}
	if err != nil {
		return err
	}
	row := startedRow{ID: id, Status: x.Status, Output: x.Output}
	if row.Error, err = actions.Problem(x); err != nil {
		return err
	}
	if s.format.String() != "text" || x.Status == string(decide.Completed) {
		if err := s.print(row); err != nil {
			return err
		}
	}
	switch {
	case x.Status == string(decide.Completed):
		return nil
	case s.format.String() != "text":
		return cli.Reported(cli.ExitFaulted)
	case row.Error != nil:
		source.Explain(s.sh.Err, s.sh.ErrColor(), row.Error)
		return cli.Reported(cli.ExitFaulted)
	default:
		return cli.Fail(cli.ExitFaulted, errors.New("the workflow was cancelled"))
	}
}

func (s *starter) print(row startedRow) error {
	switch {
	case s.format.String() == "ids", s.format.String() == "text" && !s.patience.Wait:
		fmt.Fprintln(s.sh.Out, row.ID)
		return nil
	case s.format.String() == "text":
		v, err := canonical.Decode(row.Output)
		if err != nil {
			return fmt.Errorf("read the output: %w", err)
		}
		return cli.WriteJSON(s.sh.Out, v)
	default:
		return cli.WriteValue(s.sh.Out, s.format.String(), row)
	}
}
