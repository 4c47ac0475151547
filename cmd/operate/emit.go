package operate

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"flunq.io/flunq/cmd/actions"
	"flunq.io/flunq/cmd/cli"
	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/history"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/timers"
)

// emission is one run of the command emit.
type emission struct {
	command

	typ, source, data, id string
	attributes            []string
	input                 inputFlags
	event                 event.Event // without what the engine sets
}

// NewEmitCommand returns the command flunq emit.
func NewEmitCommand(sh *cli.Shell) *cobra.Command {
	e := &emission{}
	c := &cobra.Command{
		Use:     "emit",
		Aliases: []string{"signal"},
		Short:   "Send an event to the executions that listen, or to one",
		Long: `Publishes a CloudEvent in the stream of the tenant. Executions that listen for its type,
or for any type, receive it if it matches their filters and correlations. The command
prints how many listen now. Executions that begin to listen later do not receive it.

With --execution the event is an input: only that execution receives it, now, --after a
duration or --at a time. A later one with the same --key replaces it, and 'flunq timers
cancel --execution ID --key KEY' cancels it. See 'flunq help inputs'.`,
		Example: `  flunq emit --type com.shop.paid --data '{"order": 7}'
  flunq emit --type com.shop.paid --data @paid.json --attr subject=order-7
  flunq emit --type unpaid --execution order-7 --after PT30M --key payment`,
		GroupID: cli.GroupOperate,
		Args:    cli.NoArguments,
	}
	e.command = newCommand(c, sh, "text", "json", "yaml", "ids")
	f := c.Flags()
	f.StringVar(&e.typ, "type", "", "give the event the type `TYPE`, such as com.shop.paid")
	f.StringVar(&e.source, "source", "/flunq/cli", "give the event the source `URI`")
	f.StringVar(&e.data, "data", "", "the event's `DATA`: JSON, @FILE, or - for stdin")
	f.StringVar(&e.id, "id", "", "give the event the id `ID` (default: random); an execution receives each id of a source once")
	f.StringArrayVar(&e.attributes, "attr", nil, "add the attribute `NAME=VALUE` (repeatable)")
	e.input.add(c, e.target)
	c.PreRunE = func(c *cobra.Command, _ []string) (err error) {
		e.event, err = e.read(c.Context())
		return err
	}
	c.RunE = e.target.Run(e.run)
	return c
}

// read builds the event from the flags.
func (e *emission) read(ctx context.Context) (out event.Event, err error) {
	if err := e.input.check(); err != nil {
		return out, err
	}
	switch {
	case e.typ == "":
		return out, cli.Misusef("emit: no --type given (see 'flunq emit --help')")
	case strings.HasPrefix(e.typ, event.Prefix):
		return out, cli.Misusef("--type %s: types that begin with %s are reserved for the engine", e.typ, event.Prefix)
	case e.source == "":
		return out, cli.Misusef("--source: want the URI of the event's source, such as /shop")
	case !event.Plain(strings.Join(append(e.attributes, e.id, e.typ, e.source), " ")):
		return out, cli.Misusef("emit: want --id, --type, --source and --attr in UTF-8, without control characters")
	}
	out = event.Event{ID: cmp.Or(e.id, strings.ToLower(rand.Text())), Type: event.Type(e.typ), Source: e.source}
	for _, given := range e.attributes {
		name, value, ok := strings.Cut(given, "=")
		if !ok || value == "" || !event.AttributeName(name) {
			return out, cli.Misusef("--attr %q: want NAME=VALUE with a name of lower-case letters and digits", given)
		}
		if slices.Contains(event.OwnAttributes(), name) {
			return out, cli.Misusef("--attr %s: the engine sets that attribute itself%s", name, cli.DidYouMean(name, []string{"id", "source", "type", "data"}, "--"))
		}
		if out.Ext == nil {
			out.Ext = map[string]string{}
		}
		out.Ext[name] = value
	}
	out.Data, err = cli.ReadData(ctx, e.sh, "--data", e.data)
	return out, err
}

// inputFlags are the flags with which emit sends an event to one execution.
type inputFlags struct {
	due

	execution, onReject string
}

func (f *inputFlags) add(c *cobra.Command, t *cli.Target) {
	c.Flags().StringVar(&f.execution, "execution", "", "send it to the execution `ID` only, as an input")
	f.due.add(c, "deliver the input", "replace the execution's input that has the key `KEY` (default: the event's id)")
	c.Flags().StringVar(&f.onReject, "on-reject", "", "if no task listens for the input: `WHAT` is drop, park=DURATION or dead-letter (default drop)")
	cli.CompleteFlag(c, "execution", cli.CompleteExecutions(t))
	cli.Offer(c, "on-reject", cli.NewChoice("drop", "park=24h", "dead-letter"))
}

// check returns an error if the flags are invalid.
func (f *inputFlags) check() error {
	if f.execution == "" {
		if f.after+f.at+f.key+f.onReject != "" {
			return cli.Misusef("emit: --after, --at, --key and --on-reject require --execution: only an input, for one execution, can wait")
		}
		return nil
	}
	if err := store.CheckIDs("default", f.execution); err != nil {
		return cli.Misusef("--execution: %w", err)
	}
	if _, _, err := dsl.ParseRejection(f.onReject); err != nil {
		return cli.Misusef("--on-reject: %w", err)
	}
	return f.due.check()
}

// emitted is a published event in the JSON output.
type emitted struct {
	ID        string   `json:"id"`
	Type      string   `json:"type"`
	Source    string   `json:"source"`
	Tenant    string   `json:"tenant"`
	Listeners []string `json:"listeners"` // executions that listen for its type
}

func (e *emission) run(ctx context.Context, r *cli.Remote, _ []string) (err error) {
	out := e.event
	out.Tenant = r.Tenant
	if out.Time, err = r.Store.NowOf(ctx, r.Tenant); err != nil {
		return err
	}
	if e.input.execution != "" {
		return e.setInput(ctx, r, out)
	}
	listeners, err := r.Store.Listeners(ctx, r.Tenant, e.typ)
	if err != nil {
		return err
	}
	if err := r.Store.Publish(ctx, out); err != nil {
		return cli.Repeatable(out.ID, err) // an execution receives each id of a source once
	}
	cli.HintUnserved(ctx, e.sh, r, "worker")
	text := fmt.Sprintf("sent %s: %s for %s", out.ID, actions.Listening(len(listeners)), e.typ)
	return cli.PrintValue(e.sh, e.format, text, out.ID, emitted{ID: out.ID, Type: e.typ, Source: e.source, Tenant: r.Tenant, Listeners: listeners})
}

// setRow is an input that was set, in the JSON output.
type setRow struct {
	ID        string    `json:"id"`
	Type      string    `json:"type"`
	Source    string    `json:"source"`
	Tenant    string    `json:"tenant"`
	Execution string    `json:"execution"`
	Key       string    `json:"key"`
	Due       time.Time `json:"due"`
	Timer     string    `json:"timer"`
	Moved     bool      `json:"moved"` // an earlier input with this key was pending
}

// setInput sets the timer that delivers the event to one execution.
func (e *emission) setInput(ctx context.Context, r *cli.Remote, in event.Event) error {
	at, err := e.input.moment(in.Time)
	if err != nil {
		return err
	}
	x, err := cli.FindExecution(ctx, r, e.input.execution)
	if err != nil {
		return err
	}
	t := event.Timer{
		Tenant: r.Tenant, Workflow: x.Workflow, Execution: e.input.execution, FireAt: at, DurationMS: max(at.Sub(in.Time).Milliseconds(), 0),
		Kind: event.InputTimer, Key: cmp.Or(e.input.key, in.ID), Input: event.EncodeInput(in), OnReject: e.input.onReject,
	}
	heard, err := e.heard(ctx, r, t)
	if err != nil {
		return err
	}
	moved, err := timers.New(r.Store).SetInput(ctx, t, in.Time)
	if err != nil {
		return cli.Repeatable(in.ID, err)
	}
	cli.HintUnserved(ctx, e.sh, r, "worker", "timer")
	if !heard {
		e.sh.Hint("no task of %s listens for %s now: the input is dropped unless one does when it arrives (--on-reject park=1h keeps it)", t.Execution, in.Type)
	}
	row := setRow{
		ID: in.ID, Type: string(in.Type), Source: in.Source, Tenant: r.Tenant, Execution: t.Execution, Key: t.Key, Due: at.UTC(), Timer: timerName(t), Moved: moved,
	}
	what := "sent"
	if moved {
		what = "moved"
	}
	text := fmt.Sprintf("%s %s: %s for %s", what, t.Key, in.Type, t.Execution)
	if at.After(in.Time) {
		text += " in " + history.Between(in.Time, at)
	}
	return cli.PrintValue(e.sh, e.format, text, in.ID, row)
}

// heard reports whether the execution listens for the input. It is also true if the input is due later,
// or if --on-reject says what happens to an input that nobody takes.
func (e *emission) heard(ctx context.Context, r *cli.Remote, t event.Timer) (bool, error) {
	if t.DurationMS > 0 || e.input.onReject != "" {
		return true, nil
	}
	listed, err := r.Store.Listed(ctx, r.Tenant, []store.Listener{{Execution: t.Execution, Type: e.typ}, {Execution: t.Execution, Type: "*"}})
	return slices.Contains(listed, true), err
}

// due holds the flags that set when a timer of an execution fires, and its key.
type due struct{ after, at, key string }

func (d *due) add(c *cobra.Command, verb, key string) {
	c.Flags().StringVar(&d.after, "after", "", verb+" after `DURATION`: 10m, 3d, PT10M")
	c.Flags().StringVar(&d.at, "at", "", verb+" at `TIME` (RFC 3339)")
	c.Flags().StringVar(&d.key, "key", "", key)
	cli.Exclude(c, "after", "at")
}

func (d *due) check() error {
	if d.key != "" {
		if err := event.CheckInputKey(d.key); err != nil {
			return cli.Misusef("--key %q: %w", d.key, err)
		}
	}
	_, err := d.moment(time.Time{})
	return err
}

// moment returns the time that the flags give, by default now.
func (d *due) moment(now time.Time) (time.Time, error) {
	switch {
	case d.after != "":
		return delayFlag("after", d.after, now)
	case d.at != "":
		return timeFlag("at", d.at)
	default:
		return now, nil
	}
}

// timeFlag parses a flag that is a time.
func timeFlag(flag, given string) (time.Time, error) {
	at, err := time.Parse(time.RFC3339Nano, given)
	if err != nil {
		return at, cli.Misusef("--%s %q: want a time such as 2026-01-01T00:00:00Z", flag, given)
	}
	return at.UTC(), nil
}

// delayFlag parses a flag that is a duration from now.
func delayFlag(flag, given string, now time.Time) (time.Time, error) {
	d, err := dsl.ParseSpan(given)
	if err != nil {
		return now, cli.Misusef("--%s %q: %v", flag, given, err)
	}
	return d.From(now), nil
}
