package schedule

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"flunq.io/flunq/cmd/cli"
	"flunq.io/flunq/engine/history"
	"flunq.io/flunq/engine/schedule"
	"flunq.io/flunq/engine/scheduler/schedulerpb"
)

// change is one run of a command that changes events.
type change struct {
	*command

	consent    *cli.Consent
	verb, done string          // cancel, cancelled
	from       schedule.Status // of the events that it changes
	all        bool            // dead ones
	topic      string          // of all
	do         func(ctx context.Context, c *client, id string) (outcome, error)
}

// outcome is the response about one event.
type outcome interface {
	GetStatus() *schedulerpb.Status
	GetEvent() *schedulerpb.Event
}

// changed is the result for one event in the output.
type changed struct {
	ID     string          `json:"id"`
	Action string          `json:"action"`
	Done   bool            `json:"done"`
	Status schedule.Status `json:"status,omitempty"`
	Due    *time.Time      `json:"due,omitempty"`
	Error  string          `json:"error,omitempty"`
}

// flags adds the flags that these commands share, and those of the consent unless it is given. The
// shell completes events with the status from.
func (h *change) flags(c *cobra.Command, sh *cli.Shell, from schedulerpb.EventStatus) *cobra.Command {
	h.command, h.from = newCommand(c, sh, "text", "json", "yaml"), statusOf(from)
	c.ValidArgsFunction = completeEvents(h.command, from)
	if h.consent == nil {
		h.consent = cli.ConsentFlags(c)
	}
	c.RunE = h.command.run(h.run)
	return c
}

func newCancelCommand(sh *cli.Shell) *cobra.Command {
	h := &change{verb: "cancel", done: "cancelled"}
	h.do = func(ctx context.Context, c *client, id string) (outcome, error) {
		return c.Cancel(ctx, &schedulerpb.CancelRequest{EventId: id})
	}
	return h.flags(&cobra.Command{
		Use:   "cancel ID…",
		Short: "Cancel events",
		Long: `Cancels events, which are then never published. Cancelling one that was published, or may
have been, is an error.`,
		Example: `  flunq schedule cancel 4be0643f-1d98-573b-97cd-ca98a65347dd
  flunq schedule cancel --yes $(flunq schedule ls --topic orders -o ids)`,
		Args: cli.SomeArguments("event"),
	}, sh, schedulerpb.EventStatus_EVENT_STATUS_SCHEDULED)
}

func newMoveCommand(sh *cli.Shell) *cobra.Command {
	h := &change{verb: "move", done: "moved", consent: &cli.Consent{Yes: true}} // nothing is destroyed
	var when *moment
	h.do = func(ctx context.Context, c *client, id string) (outcome, error) {
		at, after, err := when.read()
		if err != nil {
			return nil, err
		}
		return c.Reschedule(ctx, &schedulerpb.RescheduleRequest{EventId: id, ExecuteTime: at, After: after})
	}
	c := &cobra.Command{
		Use:     "move ID…",
		Aliases: []string{"reschedule"},
		Short:   "Move events to another time",
		Example: "  flunq schedule move 4be0643f-1d98-573b-97cd-ca98a65347dd --after 1h",
		Args: func(c *cobra.Command, args []string) error {
			if _, _, err := when.read(); err != nil {
				return err
			}
			return cli.SomeArguments("event")(c, args)
		},
	}
	when = momentFlags(c)
	return h.flags(c, sh, schedulerpb.EventStatus_EVENT_STATUS_SCHEDULED)
}

// newDeadCommand returns the command flunq schedule dlq.
func newDeadCommand(sh *cli.Shell) *cobra.Command {
	list := new(listing).flags(&cobra.Command{
		Use: "ls", Short: "List dead events", Example: "  flunq schedule dlq ls --topic orders", Aliases: []string{"list"}, Args: cli.NoArguments,
	}, sh)
	show := newShowCommand(sh, schedulerpb.EventStatus_EVENT_STATUS_DEAD, &cobra.Command{
		Use: "show ID", Short: "Show a dead event", Example: "  flunq schedule dlq show 4be0643f-1d98-573b-97cd-ca98a65347dd",
	})
	return cli.Group(&cobra.Command{
		Use:   "dlq",
		Short: "List, replay and drop dead events",
		Long: `Dead events are those that could not be published: their topic refuses them, or the attempts
are used up (SCHEDULER_MAX_ATTEMPTS). They are kept until they are replayed or dropped.`,
		Example: `  flunq schedule dlq ls
  flunq schedule dlq replay --all --topic orders --yes`,
	}, list, show, newReplayCommand(sh), newDropCommand(sh))
}

func newReplayCommand(sh *cli.Shell) *cobra.Command {
	h := &change{verb: "replay", done: "replayed"}
	h.do = func(ctx context.Context, c *client, id string) (outcome, error) {
		return c.Replay(ctx, &schedulerpb.ReplayRequest{EventId: id})
	}
	return h.dead(&cobra.Command{
		Use:   "replay ID…",
		Short: "Publish dead events again",
		Example: `  flunq schedule dlq replay 4be0643f-1d98-573b-97cd-ca98a65347dd
  flunq schedule dlq replay --all --topic orders --dry-run`,
	}, sh)
}

func newDropCommand(sh *cli.Shell) *cobra.Command {
	h := &change{verb: "drop", done: "dropped"}
	h.do = func(ctx context.Context, c *client, id string) (outcome, error) {
		return c.Drop(ctx, &schedulerpb.DropRequest{EventId: id})
	}
	return h.dead(&cobra.Command{
		Use:     "drop ID…",
		Short:   "Give up dead events",
		Long:    "Gives up dead events: they become cancelled, and are removed after SCHEDULER_RETENTION.",
		Example: "  flunq schedule dlq drop 4be0643f-1d98-573b-97cd-ca98a65347dd --yes",
	}, sh)
}

// dead adds the flags that select dead events.
func (h *change) dead(c *cobra.Command, sh *cli.Shell) *cobra.Command {
	h.flags(c, sh, schedulerpb.EventStatus_EVENT_STATUS_DEAD)
	c.Flags().BoolVar(&h.all, "all", false, h.verb+" all dead events")
	c.Flags().StringVar(&h.topic, "topic", "", "with --all: only those of the topic `NAME`")
	c.Args = func(c *cobra.Command, args []string) error {
		switch {
		case h.all && len(args) > 0:
			return cli.Misusef("%s: want ids or --all, not both%s", c.Name(), cli.SeeHelp(c))
		case h.topic != "" && !h.all:
			return cli.Misusef("%s: --topic needs --all%s", c.Name(), cli.SeeHelp(c))
		case h.all:
			return nil
		default:
			return cli.SomeArguments("event")(c, args)
		}
	}
	return c
}

func (h *change) run(ctx context.Context, c *client, ids []string) error {
	if h.all {
		filter := &schedulerpb.ListRequest{Status: schedulerpb.EventStatus_EVENT_STATUS_DEAD, Topic: h.topic}
		err := c.each(ctx, filter, func(e *schedulerpb.Event) error { ids = append(ids, e.GetEventId()); return nil })
		if err != nil {
			return err
		}
		if len(ids) == 0 {
			h.sh.Hint("no dead events")
			return h.print(nil)
		}
	}
	if !h.consent.Yes || h.consent.Dry {
		if err := h.preview(ctx, c, ids); err != nil || h.consent.Dry {
			return err
		}
	}
	what := "schedule " + h.verb
	if h.from == schedule.Dead {
		what = "schedule dlq " + h.verb
	}
	if err := h.consent.Confirm(ctx, h.sh, h.format, what); err != nil {
		return err
	}
	return h.apply(ctx, c, ids)
}

// preview prints the events that the command would change.
func (h *change) preview(ctx context.Context, c *client, ids []string) error {
	const few = 20
	var rows []changed
	var wrong []error
	for i, id := range ids {
		if i == few && !h.consent.Dry {
			h.sh.Hint("and %s more", history.Number(len(ids)-few))
			break
		}
		row, err := c.event(ctx, id)
		if err != nil {
			return ofEvent(id, err)
		}
		would := changed{ID: row.ID, Action: h.verb, Status: row.Status, Due: row.Due}
		switch {
		case row.Status == h.from:
		case row.Status == schedule.Cancelled && h.verb == "cancel":
			if h.consent.Dry {
				h.sh.Hint("%s: the event was cancelled before", row.ID)
			}
		default:
			would.Error = "the event is " + string(row.Status)
			wrong = append(wrong, fmt.Errorf("%s: %s", id, would.Error))
		}
		rows = append(rows, would)
		if !h.consent.Dry {
			h.sh.Hint("%s %s, due at %s, for %s", row.ID, row.Status, clock(row.Due), cli.Printable(row.Topic))
		}
	}
	if h.consent.Dry {
		return errors.Join(h.print(rows), errors.Join(wrong...))
	}
	return nil
}

// apply changes the events, and continues after one that cannot be changed.
func (h *change) apply(ctx context.Context, c *client, ids []string) error {
	var rows []changed
	var wrong []error
	for _, id := range ids {
		out, err := h.do(ctx, c, id)
		if err != nil {
			return errors.Join(h.print(rows), fmt.Errorf("%s: %w", id, c.failed(err)))
		}
		row := changed{ID: id, Action: h.verb, Done: out.GetStatus().GetCode() == schedulerpb.StatusCode_SUCCESS}
		if e := out.GetEvent(); e != nil {
			row.ID, row.Status, row.Due = e.GetEventId(), statusOf(e.GetStatus()), timeOf(e.GetExecuteTime())
		}
		if err := refused(out.GetStatus()); err != nil {
			row.Error = err.Error()
			wrong = append(wrong, ofEvent(id, err))
		} else if !row.Done {
			h.sh.Hint("%s: %s", row.ID, out.GetStatus().GetMessage())
		}
		rows = append(rows, row)
	}
	return errors.Join(h.print(rows), errors.Join(wrong...))
}

// ofEvent returns an error that names its event.
func ofEvent(id string, err error) error {
	if strings.Contains(err.Error(), id) {
		return err
	}
	return fmt.Errorf("%s: %w", id, err)
}

func (h *change) print(rows []changed) error {
	return cli.List[changed]{Line: func(r changed) string {
		switch {
		case h.consent.Dry && r.Status == h.from:
			return fmt.Sprintf("would %s %s: %s, due at %s", h.verb, r.ID, r.Status, clock(r.Due))
		case r.Done && h.verb == "move":
			return fmt.Sprintf("%s %s: due at %s", h.done, r.ID, clock(r.Due))
		case r.Done:
			return h.done + " " + r.ID
		default:
			return ""
		}
	}}.Print(h.sh, h.format, rows)
}
