package cmd

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"gopkg.in/yaml.v3"

	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/expr"
	"flunq.io/flunq/engine/history"
	"flunq.io/flunq/sim"
)

// finish prints the result; its error tells how the run ended.
func (r *runner) finish(result *sim.Result) error {
	switch {
	case result.Status == decide.Completed:
		return r.print(result.Output)
	case result.Error != nil:
		return r.fault(result)
	case result.Status == decide.Cancelled:
		return fail(exitFaulted, errors.New("the workflow was cancelled"))
	case result.Stop == sim.Interrupt:
		return fail(exitInterrupted, r.unended("interrupted"))
	case result.Stop == sim.Never:
		return fail(exitLimit, fmt.Errorf("the workflow waits for something that will never come:\n  %s\n%s",
			strings.Join(result.Waiting, "\n  "), hintForWaiting(result.Missed)))
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
		return fail(exitLimit, r.unended(why))
	}
}

// unended returns the error for an execution that was not run to its end.
func (r *runner) unended(why string) error {
	if r.left != "" {
		why += "\n" + r.left
	}
	return errors.New(why)
}

// hintForWaiting suggests how to help a workflow that waits for ever: the likely cause are events
// that came and were not taken.
func hintForWaiting(missed []sim.Missed) string {
	const most = 10
	var text strings.Builder
	for i, m := range missed {
		if i == most {
			fmt.Fprintf(&text, "and %s not taken\n", history.Count(len(missed)-i, "more event"))
			break
		}
		fmt.Fprintf(&text, "%s\n", printable(m.String()))
	}
	if len(missed) > 0 {
		return text.String() + "see that the task listens when its event comes, or give it a timeout"
	}
	return "send it with an events entry in --mocks, or give the task a timeout"
}

// print writes the output in the chosen format.
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

// fault prints the error that ended a workflow: as JSON to stdout, and for people to stderr with
// the line of the document that caused it.
func (r *runner) fault(result *sim.Result) error {
	p := result.Error
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
	r.source.explain(r.sh.Err, r.sh.errColor(), p)
	for _, m := range result.Missed {
		if m.For != nil && m.For.Ref == p.Instance {
			fmt.Fprintf(r.sh.Err, "         help: %s; an event without a listener is lost\n", printable(m.String()))
		}
	}
	return reported(exitFaulted)
}

// explain prints the error that ended a workflow, with the line of the document that caused it.
func (d document) explain(w io.Writer, on bool, p *event.Problem) {
	fmt.Fprintf(w, "%s %s\n", paint(on, red, "faulted:"), printable(headline(p)))
	if p.Detail != "" {
		fmt.Fprintf(w, "  %s\n", strings.ReplaceAll(printable(p.Detail), "\n", "\n  "))
	}
	fmt.Fprintf(w, "  type      %s\n", printable(p.Type))
	if p.Instance != "" {
		fmt.Fprintf(w, "  instance  %s\n", printable(p.Instance))
	}
	if at, ok := d.blamed(p); ok {
		d.frame(w, on, at)
	}
	if advice := expr.Advice(p.Detail); advice != "" && event.ShortType(p.Type) == event.ShortType(event.Expression) {
		fmt.Fprintf(w, "         help: %s\n", printable(advice))
	}
}

// blamed returns the position of the expression that failed, or of the task.
func (d document) blamed(p *event.Problem) (at dsl.Pos, ok bool) {
	if d.def == nil {
		return at, false
	}
	if at, ok := d.def.Locate(p.Instance, p.Detail); ok {
		return at, true
	}
	return d.place(p.Instance)
}

// place returns the position of a task in the document.
func (d document) place(ref string) (at dsl.Pos, ok bool) {
	if d.def == nil {
		return at, false
	}
	t := d.def.Task(ref)
	if t == nil {
		return at, false
	}
	return t.Pos, true
}

func headline(p *event.Problem) string {
	title := p.Title
	if title == "" {
		title = event.ShortType(p.Type)
	}
	return fmt.Sprintf("%s (status %d)", title, p.Status)
}

// frame prints a line of the document, with a mark below the column.
func (d document) frame(w io.Writer, on bool, at dsl.Pos) {
	line, ok := d.line(at.Line)
	if !ok {
		return
	}
	fmt.Fprintf(w, "  at %s:%d:%d\n", printable(d.name), at.Line, at.Column)
	fmt.Fprintf(w, "%6d | %s\n", at.Line, printable(line))
	pad := strings.Repeat(" ", max(at.Column-1, 0))
	fmt.Fprintf(w, "       | %s%s\n", pad, paint(on, red, "^"))
}

// line returns a line of the document; the first one is 1.
func (d document) line(n int) (string, bool) {
	lines := strings.Split(string(d.text), "\n")
	if n < 1 || n > len(lines) {
		return "", false
	}
	return strings.TrimRight(lines[n-1], "\r"), true
}
