package operate

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"flunq.io/flunq/cmd/actions"
	"flunq.io/flunq/cmd/cli"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/timers"
)

func newTimersShowCommand(sh *cli.Shell) *cobra.Command {
	c := &cobra.Command{
		Use:   "show ID",
		Short: "Show one timer and what waits for it",
		Long:  `Shows a timer. ID is an id from 'flunq timers ls', or an unambiguous prefix of one.`,
		Example: `  flunq timers show hk2x9c1f2g0-5b1c
  flunq timers show hk2x9c1f2g0-5b1c -o json | jq .due`,
		Args: cli.OneArgument("timer"),
	}
	t := newCommand(c, sh, "text", "json", "yaml")
	c.ValidArgsFunction = completeTimers(t.target)
	c.RunE = t.target.RunAt(t.showTimer)
	return c
}

// timerPage is a timer as timers show prints it.
type timerPage struct {
	timerRow

	ExecutionStatus string `json:"execution_status,omitempty"`
	Consequence     string `json:"consequence"`
	Member          string `json:"member"`
}

func (c command) showTimer(ctx context.Context, r *cli.Remote, now time.Time, args []string) error {
	p, err := findTimer(ctx, r, args[0])
	if err != nil {
		return err
	}
	status, err := actions.Status(ctx, r.Store, p.Tenant, p.Execution)
	if err != nil {
		return err
	}
	page := timerPage{
		timerRow: timerRowOf(p, now), ExecutionStatus: status, Consequence: actions.Consequence(p, status), Member: p.Member,
	}
	return cli.Show(c.sh, c.format, page, func() {
		writeRows(c.sh, append([][2]string{{"timer", page.ID}, {"state", page.State}, {"due in", page.dueIn()}}, actions.TimerFacts(p, status, cli.Moment)...))
	})
}

// findTimer finds a timer by its id or an unambiguous prefix.
func findTimer(ctx context.Context, r *cli.Remote, id string) (timers.Pending, error) {
	p, err := timers.New(r.Store).Find(ctx, r.Tenant, id)
	if errors.Is(err, store.ErrNotFound) {
		return p, fmt.Errorf("%w; 'flunq timers ls' lists timers", err)
	}
	return p, cli.BadID(err)
}
