package run

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"flunq.io/flunq/cmd/cli"
	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/expr"
	"flunq.io/flunq/engine/expr/canonical"
	"flunq.io/flunq/engine/history"
	"flunq.io/flunq/sim"
)

// debugger stops a run before tasks, shows their data, and takes commands. The run continues
// when observe returns, so no virtual time passes.
type debugger struct {
	sh      *cli.Shell
	observe func([]event.Event) // the timeline's
	quit    func()              // ends the run

	breaks   []string // names or references of tasks
	step     bool     // stop before every task
	detached bool     // no more stops: the user quit, or there are no more commands

	defs    map[string]*dsl.Definition // by workflow
	opts    decide.Options
	redact  func(string) string
	watched map[string]*watchedExecution
	lines   chan string     // of the input
	ctx     context.Context //nolint:containedctx // observe has no context, and must stop waiting when the run does
}

// watchedExecution is the state of an execution after the events that were shown; env is nil if
// it is unknown.
type watchedExecution struct {
	env   *decide.Env
	state *decide.State
}

// debug adds a debugger to a run, if --break or --step asks for one. The caller calls the
// returned function at the end.
func (r *Runner) debug(ctx context.Context, cfg *sim.Config) (context.Context, func(), error) {
	if len(r.breaks) == 0 && !r.step {
		return ctx, func() {}, nil
	}
	d := &debugger{
		sh: r.Sh, observe: cfg.Observe, breaks: r.breaks, step: r.step, defs: map[string]*dsl.Definition{},
		opts:   decide.Options{Secrets: cfg.Secrets, Version: cfg.Version, Limits: cfg.Limits},
		redact: event.NewRedactor(cfg.Secrets).Redact, watched: map[string]*watchedExecution{},
	}
	for _, def := range append([]*dsl.Definition{cfg.Definition}, cfg.With...) {
		d.defs[def.ID()] = def
	}
	var wrong []error
	for _, name := range d.breaks {
		if err := d.known(name); err != nil {
			wrong = append(wrong, fmt.Errorf("--break %s: %w", cli.Printable(name), err))
		}
	}
	if wrong != nil || r.tui { // which has its own breakpoints
		return ctx, func() {}, cli.Fail(cli.ExitMisuse, errors.Join(wrong...))
	}
	ctx, stop := context.WithCancel(ctx)
	d.ctx, d.quit = ctx, stop
	cfg.Observe = d.take
	return ctx, stop, nil
}

// checkDebug checks the flags of the debugger.
func (r *Runner) checkDebug(context.Context, *sim.Config) error {
	if len(r.breaks) == 0 && !r.step {
		return nil
	}
	var wrong []string
	for _, flag := range []struct {
		name  string
		given bool
	}{
		{"--redis-url", r.redis != ""},
		{"--real-time", r.realTime && !r.tui},
		{"--speed", r.speed != "" && !r.tui},
		{"--input -", r.Input == "-" && !r.tui},
		{"--tui (whose key N steps)", r.tui && r.step},
	} {
		if flag.given {
			wrong = append(wrong, flag.name)
		}
	}
	if len(wrong) == 0 {
		return nil
	}
	return cli.Misusef("--break and --step need the virtual clock and stdin: they exclude %s", strings.Join(wrong, ", "))
}

// known returns an error if no workflow has a task.
func (d *debugger) known(name string) error {
	var names []string
	for _, def := range d.defs {
		for ref, task := range def.Tasks() {
			if ref == name || task.Name == name {
				return nil
			}
			names = append(names, task.Name)
		}
	}
	slices.Sort(names)
	names = slices.Compact(names)
	return fmt.Errorf("no such task%s; tasks: %s", cli.DidYouMean(name, names, ""), cli.ShortList(names))
}

// take shows the events of a commit one by one, and stops before tasks.
func (d *debugger) take(events []event.Event) {
	for _, e := range events {
		d.observe([]event.Event{e})
		w := d.follow(e)
		if e.Type == event.TaskRequested && !d.detached && d.stops(e) {
			d.prompt(e, w)
		}
	}
}

// follow applies an event to the state of its execution.
func (d *debugger) follow(e event.Event) *watchedExecution {
	w := d.watched[e.Execution]
	if w == nil {
		w = &watchedExecution{state: decide.New()}
		started, err := decide.StartOf(e)
		if def := d.defs[started.Workflow()]; err == nil && def != nil {
			w.env = decide.NewEnv(def, d.opts)
		}
		d.watched[e.Execution] = w
	}
	if w.env != nil && w.state.Replay(w.env, []event.Event{e}) != nil {
		w.env = nil
	}
	return w
}

func (d *debugger) stops(e event.Event) bool {
	run := event.ParseRun(e.Task)
	return d.step || slices.Contains(d.breaks, run.Ref) || slices.Contains(d.breaks, history.TaskName(run.Ref))
}

// prompt shows where the run stopped, and takes commands until one continues it.
func (d *debugger) prompt(e event.Event, w *watchedExecution) {
	var scope *expr.Scope
	if w.env != nil {
		scope = w.state.ScopeOf(w.env, e.Task)
	}
	fmt.Fprintf(d.sh.Err, "%s %s, before %s\n", cli.Paint(d.sh.ErrColor(), cli.Yellow, "stopped"), e.Time.UTC().Format(time.RFC3339Nano), cli.Printable(history.Task(e.Task)))
	d.print(scope, ".", "input")
	d.print(scope, "$context", "context")
	for {
		if d.sh.InTerminal {
			fmt.Fprint(d.sh.Err, "(flunq) ")
		}
		line, ok := d.read()
		if !ok {
			d.detached = true
			fmt.Fprintln(d.sh.Err)
			return
		}
		command, argument, _ := strings.Cut(strings.TrimSpace(line), " ")
		argument = strings.TrimSpace(argument)
		switch command {
		case "c", "continue":
			d.step = false
			return
		case "s", "step", "":
			d.step = true
			return
		case "p", "print":
			d.print(scope, argument, "")
		case "b", "break":
			d.addBreak(argument)
		case "q", "quit":
			d.detached = true
			d.quit()
			return
		default:
			fmt.Fprint(d.sh.Err, `s, step, Enter   continue to the next task
c, continue      continue to the next breakpoint
p, print [EXPR]  print the task's input, or a jq expression: .order, $context, $task
b, break [TASK]  add a breakpoint, or list them
q, quit          end the run
`)
		}
	}
}

// addBreak adds a breakpoint, or lists all.
func (d *debugger) addBreak(name string) {
	if name == "" {
		fmt.Fprintf(d.sh.Err, "  breakpoints: %s\n", cli.Printable(strings.Join(d.breaks, ", ")))
		return
	}
	if err := d.known(name); err != nil {
		fmt.Fprintf(d.sh.Err, "  %s\n", cli.OneLine(err.Error()))
		return
	}
	d.breaks = append(d.breaks, name)
}

// print prints the value of an expression in the scope of the task, under a title if there is one.
func (d *debugger) print(scope *expr.Scope, source, title string) {
	source = cmp.Or(source, ".")
	text, err := d.value(scope, source)
	if err != nil {
		text = err.Error()
	}
	text = strings.ReplaceAll(cli.Printable(d.redact(text)), "\n", "\n  ")
	if title != "" {
		text = fmt.Sprintf("%-8s %s", title, text)
	}
	fmt.Fprintf(d.sh.Err, "  %s\n", text)
}

func (d *debugger) value(scope *expr.Scope, source string) (string, error) {
	if scope == nil {
		return "", errors.New("the data of this task is unknown here")
	}
	program, err := expr.Compile(source, func(string) bool { return true })
	if err != nil {
		return "", err
	}
	v, err := program.Eval(scope)
	if err != nil {
		return "", err
	}
	const line = 80
	if text := string(canonical.Encode(v)); len(text) <= line {
		return text, nil
	}
	var out strings.Builder
	if err := cli.WriteJSON(&out, v); err != nil {
		return "", err
	}
	return strings.TrimSuffix(out.String(), "\n"), nil
}

// read reads a command; false if there are no more, or if the run was interrupted.
func (d *debugger) read() (string, bool) {
	if d.lines == nil {
		d.lines = make(chan string)
		go func() {
			defer close(d.lines)
			for scanner := bufio.NewScanner(d.sh.In); scanner.Scan(); {
				d.lines <- scanner.Text()
			}
		}()
	}
	select {
	case <-d.ctx.Done():
		return "", false
	case line, ok := <-d.lines:
		return line, ok
	}
}
