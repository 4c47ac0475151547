package operate

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"flunq.io/flunq/cmd/actions"
	"flunq.io/flunq/cmd/cli"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/store"
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
		if store.Unanswered(err) {
			return fmt.Errorf("%w; it may have been sent nevertheless: repeat this with --id %s, since an execution receives each id of a source once", err, out.ID)
		}
		return err
	}
	cli.HintUnserved(ctx, e.sh, r, "worker")
	text := fmt.Sprintf("sent %s: %s for %s", out.ID, actions.Listening(len(listeners)), e.typ)
	return cli.PrintValue(e.sh, e.format, text, out.ID, emitted{ID: out.ID, Type: e.typ, Source: e.source, Tenant: r.Tenant, Listeners: listeners})
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
