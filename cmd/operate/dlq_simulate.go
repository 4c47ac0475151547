package operate

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"flunq.io/flunq/cmd/actions"
	"flunq.io/flunq/cmd/cli"
	"flunq.io/flunq/cmd/run"
	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/history"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/stream"
	"flunq.io/flunq/sim"
	"flunq.io/flunq/sim/mock"
)

// deadLetterTrial simulates the executions of dead letters with another document. It reuses
// the flags and files of flunq run.
type deadLetterTrial struct {
	sh         *cli.Shell
	simulate   bool
	simulation run.Runner
	workflow   *dsl.Definition
	verdicts   map[string]deadLetterVerdict
}

// deadLetterVerdict is the result of simulating the execution of a dead letter.
type deadLetterVerdict struct {
	ID        string          `json:"id"`
	Execution string          `json:"execution,omitempty"`
	Would     string          `json:"would"` // complete, fault, wait, stop or unknown
	Detail    string          `json:"detail,omitempty"`
	Output    json.RawMessage `json:"output,omitempty"`
	Advice    string          `json:"advice"` // as of dlq show
}

func (t *deadLetterTrial) flags(c *cobra.Command) {
	t.simulation.Sh = t.sh
	f := c.Flags()
	f.Lookup("workflow").Usage += "; with --simulate: the FILE of the document to simulate"
	f.BoolVar(&t.simulate, "simulate", false, "replay nothing; simulate the document of --workflow instead")
	f.StringVar(&t.simulation.Mocks, "mocks", "", "with --simulate: answer calls and send events as `FILE` says")
	f.StringVar(&t.simulation.Input, "input", "", "with --simulate: use `INPUT` instead of the execution's own: JSON, @FILE or -")
	f.StringVar(&t.simulation.Secrets, "secrets", "", "with --simulate: read the secrets, a map by name, from `FILE`")
	f.StringArrayVar(&t.simulation.With, "with", nil, "with --simulate: add the workflow in `FILE` that this one runs (repeatable)")
}

// check refuses flags that contradict each other. With --simulate, the workflow is a file.
func (t *deadLetterTrial) check(w *deadLetterFilter) error {
	given := t.simulation.Mocks+t.simulation.Input+t.simulation.Secrets != "" || len(t.simulation.With) > 0
	switch {
	case !t.simulate && given:
		return cli.Misusef("replay: --mocks, --input, --secrets and --with require --simulate")
	case t.simulate && w.workflow == "":
		return cli.Misusef("replay: --simulate requires --workflow FILE, the document to simulate")
	default:
		return nil
	}
}

// begin reads the document and selects only the dead letters of its workflow.
func (t *deadLetterTrial) begin(ctx context.Context, w *deadLetterFilter) (err error) {
	if t.workflow, err = cli.ReadDefinition(ctx, t.sh, w.workflow); err == nil {
		w.workflow = t.workflow.ID()
	}
	return err
}

// run simulates each dead letter and prints the verdicts.
func (t *deadLetterTrial) run(ctx context.Context, r *cli.Remote, deadLetters []stream.DeadLetter, format *cli.Choice) error {
	cfg, err := t.config(ctx)
	if err != nil {
		return err
	}
	t.verdicts = map[string]deadLetterVerdict{}
	rows, failed := make([]deadLetterVerdict, 0, len(deadLetters)), 0
	for _, l := range deadLetters {
		v, err := t.verdict(ctx, r, l, cfg)
		if err != nil {
			return err
		}
		status, err := actions.Status(ctx, r.Store, l.Tenant, l.Event.Execution)
		if err != nil {
			return err
		}
		v.ID = deadLetterRef(r, l)
		v.Advice = actions.ReplayOutlook(l, status)
		rows = append(rows, v)
		if v.Would != wouldComplete {
			failed++
		}
	}
	if err := t.print(rows, format); err != nil {
		return err
	}
	t.sh.Hint("%s would complete, %s not", history.Count(len(rows)-failed, "dead letter"), history.Number(failed))
	if failed > 0 {
		return cli.Reported(cli.ExitUnexpected)
	}
	return nil
}

// config reads what all simulations share.
func (t *deadLetterTrial) config(ctx context.Context) (sim.Config, error) {
	cfg := sim.Config{Seed: 1, Version: cli.Version().Version, MaxTasks: trialTasks}
	cfg.Definition = t.workflow
	for _, read := range []func(context.Context, *sim.Config) error{
		t.simulation.ReadWith, t.simulation.ReadInput, t.simulation.ReadMocks, t.simulation.ReadSecrets, t.simulation.CheckSecrets,
	} {
		if err := read(ctx, &cfg); err != nil {
			return cfg, err
		}
	}
	if cfg.Mocks == nil {
		cfg.Mocks = &mock.Set{} // refuses all calls
	}
	return cfg, nil
}

// trialTasks is the maximum number of tasks of a simulation.
const trialTasks = 200_000

// The results of a simulation.
const (
	wouldComplete = "complete"
	wouldFault    = "fault"
	wouldWait     = "wait"
	wouldStop     = "stop"
	wouldUnknown  = "unknown"
)

// verdict simulates the execution of a dead letter, once for all dead letters of that execution.
func (t *deadLetterTrial) verdict(ctx context.Context, r *cli.Remote, l stream.DeadLetter, cfg sim.Config) (deadLetterVerdict, error) {
	id := l.Event.Execution
	if id == "" {
		return deadLetterVerdict{Would: wouldUnknown, Detail: "the event belongs to no execution"}, nil
	}
	if v, ok := t.verdicts[l.Tenant+" "+id]; ok {
		return v, nil
	}
	if len(cfg.Input) == 0 {
		started, err := actions.Started(ctx, r.Store, l.Tenant, id)
		if err != nil {
			return deadLetterVerdict{}, err
		}
		if started == nil {
			return deadLetterVerdict{Execution: id, Would: wouldUnknown, Detail: "the input of execution " + id + " is unknown; --input gives one"}, nil
		}
		cfg.Input = started.Input
	}
	cfg.ID, cfg.Tenant = id, l.Tenant
	if store.CheckExecution(id) != nil {
		cfg.ID = "" // the id of a child execution
	}
	result, err := sim.Run(ctx, cfg)
	if err != nil {
		return deadLetterVerdict{}, fmt.Errorf("simulate %s: %w", id, err)
	}
	v := verdictOf(result)
	v.Execution = id
	t.verdicts[l.Tenant+" "+id] = v
	return v, ctx.Err()
}

func verdictOf(result *sim.Result) deadLetterVerdict {
	switch {
	case result.Status == decide.Completed:
		return deadLetterVerdict{Would: wouldComplete, Output: result.Output}
	case result.Error != nil:
		detail := cli.Headline(result.Error)
		if result.Error.Instance != "" {
			detail = result.Error.Instance + ": " + detail
		}
		if result.Error.Detail != "" {
			detail += ": " + result.Error.Detail
		}
		return deadLetterVerdict{Would: wouldFault, Detail: detail}
	case result.Status == decide.Cancelled:
		return deadLetterVerdict{Would: wouldFault, Detail: "it cancels itself"}
	case result.Stop == sim.Never && len(result.Waiting) > 0:
		return deadLetterVerdict{Would: wouldWait, Detail: result.Waiting[0]}
	default:
		return deadLetterVerdict{Would: wouldStop, Detail: fmt.Sprintf("after %s, by %s", history.Count(result.Tasks, "task"), result.Stop)}
	}
}

func (t *deadLetterTrial) print(rows []deadLetterVerdict, format *cli.Choice) error {
	return cli.List[deadLetterVerdict]{
		Columns: []cli.Column[deadLetterVerdict]{
			{Title: "ID", Text: func(v deadLetterVerdict) string { return v.ID }},
			{Title: "EXECUTION", Text: func(v deadLetterVerdict) string { return v.Execution }},
			{Title: "WOULD", Text: func(v deadLetterVerdict) string { return v.Would }},
			{Title: "WHY", Text: func(v deadLetterVerdict) string { return v.Detail }},
			{Title: "ADVICE", Wide: true, Text: func(v deadLetterVerdict) string { return v.Advice }},
			{Title: "OUTPUT", Wide: true, Text: func(v deadLetterVerdict) string { return string(v.Output) }},
		},
		Line:  deadLetterVerdict.line,
		ID:    func(v deadLetterVerdict) string { return v.ID },
		Empty: "no dead letters",
	}.Print(t.sh, format, rows)
}

// line returns a verdict as one line of text.
func (v deadLetterVerdict) line() string {
	text := v.ID
	if v.Execution != "" {
		text += " (" + v.Execution + ")"
	}
	switch v.Would {
	case wouldComplete:
		text += " would complete"
	case wouldUnknown:
		text += " cannot be simulated: " + v.Detail
	default:
		text += " would " + v.Would + ": " + v.Detail
	}
	return cli.OneLine(text + "; " + v.Advice)
}
