package operate

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"flunq.io/flunq/cmd/cli"
	"flunq.io/flunq/cmd/top"
	"flunq.io/flunq/tui"
)

// topScreen is one run of the command top.
type topScreen struct {
	sh         *cli.Shell
	target     *cli.Target
	background *cli.Choice
	as         *operator

	execution string
	every     time.Duration
	ascii     bool
	mouse     bool
}

// NewTopCommand returns the command flunq top.
func NewTopCommand(sh *cli.Shell) *cobra.Command {
	t := &topScreen{sh: sh, background: cli.NewChoice("auto", "dark", "light")}
	c := &cobra.Command{
		Use:   "top",
		Short: "Watch an engine live in the terminal, and act on it",
		Long: `Shows an engine live in the terminal: its services, the next timers, running and faulted
executions; executions, timers, dead letters and events as tables; and one execution with
its tasks, data and history. Actions on the listed items show what they will do and ask
for confirmation.

? shows the keys of the current view, / filters, : takes commands. It polls Redis at an
interval (--every), with a few commands whose cost does not grow with the data.`,
		Example: `  flunq top
  flunq top --tenant acme --every 5s
  flunq top --execution order-7 --background light`,
		GroupID: cli.GroupOperate,
		Args:    cli.NoArguments,
	}
	t.target = cli.TargetFlags(c, sh)
	t.as = operatorFlag(c, sh)
	f := c.Flags()
	f.StringVar(&t.execution, "execution", "", "begin with the execution `ID`")
	f.DurationVar(&t.every, "every", time.Second, "refresh every `DURATION`")
	f.BoolVar(&t.ascii, "ascii", false, "draw with ASCII characters only")
	f.Var(t.background, "background", "background of the terminal, if there are colours: auto, dark or light")
	f.BoolVar(&t.mouse, "mouse", true, "react to the mouse (false: the terminal selects text)")
	cli.Offer(c, "background", t.background)
	cli.CompleteFlag(c, "execution", cli.CompleteExecutions(t.target))
	c.RunE = func(c *cobra.Command, _ []string) error { return t.run(c.Context()) }
	return c
}

// shortestEvery is the minimum of --every.
const shortestEvery = 100 * time.Millisecond

func (t *topScreen) run(ctx context.Context) error {
	if t.every < shortestEvery {
		return cli.Misusef("--every %v: want %v or more", t.every, shortestEvery)
	}
	if err := cli.CheckScreen(t.sh, "top"); err != nil {
		return fmt.Errorf("%w (flunq ps, timers ls, dlq ls and doctor show the same as text)", err)
	}
	r, err := t.target.Connect(ctx)
	if err != nil {
		return err
	}
	defer r.Close()
	source, err := t.source(ctx, r)
	if errors.Is(err, tui.ErrLost) {
		return cli.Fail(cli.ExitUnreachable, err)
	}
	if err != nil {
		return err
	}
	if t.execution != "" {
		if _, err := cli.FindExecution(ctx, r, t.execution); err != nil {
			return err
		}
	}
	return tui.Run(ctx, source, t.options())
}

// source returns the source of the data on the screen.
func (t *topScreen) source(ctx context.Context, r *cli.Remote) (tui.Source, error) {
	p, err := t.target.Resolve(ctx)
	if err != nil {
		return nil, err
	}
	s, err := cli.ReadSettings(t.sh)
	if err != nil {
		return nil, err
	}
	opts := top.Defaults()
	opts.Tenant, opts.Place, opts.Version = r.Tenant, cli.RedactedURL(p.URL.Value), cli.Version().Version
	opts.Operator = t.as.by()
	opts.Worker, opts.Executor, opts.Timer, opts.Lease = s.Worker.Group, s.Executor.Group, s.Timer.Group, s.Lease
	return top.New(ctx, r.Redis, opts)
}

// options returns the options of the screen.
func (t *topScreen) options() tui.Options {
	o := tui.Defaults()
	o.Title, o.Every, o.Open, o.Mouse = "flunq top", t.every, t.execution, t.mouse
	o.ASCII = t.ascii || t.sh.ASCII()
	o = o.For(t.sh.Env)
	switch t.background.String() {
	case "dark":
		o.Background = tui.Dark
	case "light":
		o.Background = tui.Light
	}
	if !t.sh.OutColor() {
		o.Background = tui.None
	}
	return o
}
