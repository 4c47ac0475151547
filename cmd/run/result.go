package run

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"flunq.io/flunq/cmd/cli"
	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/expr/canonical"
	"flunq.io/flunq/engine/history"
	"flunq.io/flunq/sim"
)

// finish prints the result. It returns an error unless the workflow completed.
func (r *Runner) finish(result *sim.Result) error {
	switch {
	case result.Status == decide.Completed:
		return r.print(result.Output)
	case result.Error != nil:
		return r.fault(result)
	case result.Status == decide.Cancelled:
		return cli.Fail(cli.ExitFaulted, errors.New("the workflow was cancelled"))
	case result.Stop == sim.Interrupt:
		return cli.Fail(cli.ExitInterrupted, r.unended("interrupted"))
	case result.Stop == sim.Never:
		return cli.Fail(cli.ExitLimit, fmt.Errorf("the workflow waits for something that never happens:\n  %s\n%s",
			strings.Join(result.Waiting, "\n  "), cli.Printable(sim.WaitingHint(result.Missed))))
	default:
		clock := " of the virtual clock"
		if r.redis != "" || r.realTime {
			clock = ""
		}
		why := fmt.Sprintf("stopped by --%s after %s and %s%s",
			result.Stop, history.Count(result.Tasks, "task"), history.Duration(result.Elapsed), clock)
		if result.Busiest != "" {
			why += "; " + result.Busiest
		}
		return cli.Fail(cli.ExitLimit, r.unended(why))
	}
}

// unended returns the error for an execution that has not ended.
func (r *Runner) unended(why string) error {
	if r.left != "" {
		why += "\n" + r.left
	}
	return errors.New(why)
}

// print writes JSON in the chosen format.
func (r *Runner) print(output json.RawMessage) error {
	v, err := canonical.Decode(output)
	if err != nil {
		return fmt.Errorf("read the output: %w", err)
	}
	if r.format.String() == "json" {
		fmt.Fprintf(r.Sh.Out, "%s\n", canonical.Encode(v))
		return nil
	}
	return cli.WriteValue(r.Sh.Out, r.format.String(), v)
}

// fault prints the error that ended a workflow: as JSON or YAML to stdout, or to stderr
// with the line of the document that caused it.
func (r *Runner) fault(result *sim.Result) error {
	p := result.Error
	if r.format.String() != "pretty" {
		if err := r.print(event.Encode(map[string]any{"error": p})); err != nil {
			return err
		}
		return cli.Reported(cli.ExitFaulted)
	}
	r.source.Explain(r.Sh.Err, r.Sh.ErrColor(), p)
	if strings.HasSuffix(p.Detail, " is not registered") && event.ShortType(p.Type) == event.ShortType(event.Configuration) {
		fmt.Fprintf(r.Sh.Err, "         help: add the workflow's document with --with FILE\n")
	}
	for _, m := range result.Missed {
		if m.For != nil && m.For.Ref == p.Instance {
			fmt.Fprintf(r.Sh.Err, "         help: %s; an event without a listener is lost\n", cli.Printable(m.String()))
		}
	}
	return cli.Reported(cli.ExitFaulted)
}
