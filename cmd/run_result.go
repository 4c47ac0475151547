package cmd

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"gopkg.in/yaml.v3"

	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/expr"
	"flunq.io/flunq/sim"
)

// finish prints the result, and says by its error how the run ended.
func (r *runner) finish(result *sim.Result) error {
	switch {
	case result.Status == decide.Completed:
		return r.print(result.Output)
	case result.Error != nil:
		return r.fault(result.Error)
	case result.Status == decide.Cancelled:
		return fail(exitFaulted, errors.New("the workflow was cancelled"))
	case result.Stop == sim.Interrupt:
		return fail(exitInterrupted, errors.New("interrupted"))
	case result.Stop == sim.Never:
		return fail(exitLimit, fmt.Errorf("the workflow waits for something that will never come:\n  %s\n"+
			"send it with an events entry in --mocks, or give the task a timeout", strings.Join(result.Waiting, "\n  ")))
	default:
		return fail(exitLimit, fmt.Errorf("stopped by --%s after %d tasks and %s of the virtual clock",
			result.Stop, result.Tasks, elapsed(result.Elapsed)))
	}
}

// print writes the output in the format asked for.
func (r *runner) print(output json.RawMessage) error {
	v, err := expr.Decode(output)
	if err != nil {
		return fmt.Errorf("read the output: %w", err)
	}
	return r.write(v)
}

func (r *runner) write(v any) error {
	switch r.format.String() {
	case "json":
		fmt.Fprintf(r.sh.Out, "%s\n", expr.Encode(v))
		return nil
	case "yaml":
		enc := yaml.NewEncoder(r.sh.Out)
		enc.SetIndent(2)
		return errors.Join(enc.Encode(v), enc.Close())
	default:
		return writeJSON(r.sh.Out, v)
	}
}

// fault shows the error that ended a workflow: to programs on stdout, to people
// on stderr, with the line of the document that it came from.
func (r *runner) fault(p *event.Problem) error {
	if r.format.String() != "pretty" {
		v, err := expr.Decode(event.Encode(map[string]any{"error": p}))
		if err != nil {
			return err
		}
		if err := r.write(v); err != nil {
			return err
		}
		return reported(exitFaulted)
	}
	on := r.sh.errColor()
	fmt.Fprintf(r.sh.Err, "%s %s\n", paint(on, red, "faulted:"), printable(headline(p)))
	if p.Detail != "" {
		fmt.Fprintf(r.sh.Err, "  %s\n", strings.ReplaceAll(printable(p.Detail), "\n", "\n  "))
	}
	fmt.Fprintf(r.sh.Err, "  type      %s\n", printable(p.Type))
	if p.Instance != "" {
		fmt.Fprintf(r.sh.Err, "  instance  %s\n", printable(p.Instance))
	}
	if t := r.source.def.Task(p.Instance); t != nil {
		r.source.frame(r.sh, t.Pos.Line, t.Pos.Column)
	}
	return reported(exitFaulted)
}

func headline(p *event.Problem) string {
	title := p.Title
	if title == "" {
		title = event.ShortType(p.Type)
	}
	return fmt.Sprintf("%s (status %d)", title, p.Status)
}

// frame shows a line of the document, with a mark below the column.
func (d document) frame(sh *shell, line, column int) {
	lines := strings.Split(string(d.text), "\n")
	if line < 1 || line > len(lines) {
		return
	}
	fmt.Fprintf(sh.Err, "  at %s:%d:%d\n", printable(d.name), line, column)
	text := strings.TrimRight(lines[line-1], "\r")
	fmt.Fprintf(sh.Err, "%6d | %s\n", line, printable(text))
	pad := strings.Repeat(" ", max(column-1, 0))
	fmt.Fprintf(sh.Err, "       | %s%s\n", pad, paint(sh.errColor(), red, "^"))
}
