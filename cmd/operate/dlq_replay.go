package operate

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"flunq.io/flunq/cmd/cli"
	"flunq.io/flunq/engine/history"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/stream"
)

// deadLetterChange is one run of a command that replays or drops dead letters.
type deadLetterChange struct {
	change

	verb, past string
	filter     *deadLetterFilter
	trial      *deadLetterTrial // for --simulate; nil: the command has no such flag
	all        bool
	limit      int
	rate       string
	pause      time.Duration // between two of them, by rate

	do func(ctx context.Context, r *cli.Remote, l stream.DeadLetter) (bool, error)
}

// flags adds the flags that these commands share.
func (ch *deadLetterChange) flags(c *cobra.Command, sh *cli.Shell) *cobra.Command {
	ch.change = newChange(c, sh, "text", "table", "wide", "json", "jsonl", "yaml", "ids")
	ch.filter = deadLetterFlags(c)
	c.Flags().BoolVar(&ch.all, "all", false, "take all dead letters that match the other flags, oldest first")
	cli.LimitFlag(c, &ch.limit, 0, "process at most `N`; 0: all")
	c.ValidArgsFunction = completeDeadLetters(ch.target)
	c.Args = ch.arguments
	c.PreRunE = func(*cobra.Command, []string) (err error) {
		ch.pause, err = pauseOf(ch.rate)
		return err
	}
	c.RunE = ch.target.RunAt(ch.run)
	return c
}

// arguments requires either ids or --all.
func (ch *deadLetterChange) arguments(c *cobra.Command, args []string) error {
	w, document := ch.filter, ""
	if ch.trial != nil {
		if err := ch.trial.check(w); err != nil {
			return err
		}
		if ch.trial.simulate {
			document = w.workflow
		}
	}
	narrowed := w.service+w.reason+w.execution+w.age+w.since != "" || w.allTenants || w.others || ch.limit > 0 || w.workflow != document
	switch {
	case ch.all && len(args) > 0:
		return cli.Misusef("%s: want dead letters or --all, not both%s", ch.verb, cli.SeeHelp(c))
	case !ch.all && len(args) == 0 && narrowed:
		return cli.Misusef("%s: add --all for all dead letters that match the flags%s", ch.verb, cli.SeeHelp(c))
	case !ch.all && len(args) == 0:
		return cli.Misusef("%s: no dead letter given: want ids, or --all%s", ch.verb, cli.SeeHelp(c))
	case !ch.all && narrowed:
		return cli.Misusef("%s: flags that select dead letters require --all instead of ids%s", ch.verb, cli.SeeHelp(c))
	default:
		return nil
	}
}

func newDeadLettersReplayCommand(sh *cli.Shell) *cobra.Command {
	t := &deadLetterChange{verb: "replay", past: "replayed", trial: &deadLetterTrial{sh: sh}}
	t.do = func(ctx context.Context, r *cli.Remote, l stream.DeadLetter) (bool, error) {
		return stream.New(r.Store).Replay(ctx, l)
	}
	c := t.flags(&cobra.Command{
		Use:   "replay ID…|--all",
		Short: "Put dead letters back into their stream",
		Long: `Puts the event of a dead letter back into the stream it came from, byte for byte, and
removes the dead letter, atomically. Two operators cannot replay the same one twice. If the
event becomes a dead letter again, that shows how many times it was replayed.

With --simulate nothing is replayed. For each dead letter of an execution, the document
of --workflow runs in the simulator from the beginning, with the execution's input; a line
says how it ends, and whether a replay can still reach the execution. The exit code is 4 if
one would not complete. --mocks answers calls; other calls are refused.`,
		Example: `  flunq dlq replay 1767225600000-0
  flunq dlq replay --all --service executor-service --since 1h --dry-run
  flunq dlq replay --all --rate 10/s --limit 1000
  flunq dlq replay --all --simulate --workflow v2.yaml --mocks order.mocks.yaml`,
	}, sh)
	c.Flags().StringVar(&t.rate, "rate", "", "replay at most at `RATE`: 10/s, 100/m")
	t.trial.flags(c)
	cli.Exclude(c, "simulate", "rate")
	return c
}

func newDeadLettersDropCommand(sh *cli.Shell) *cobra.Command {
	t := &deadLetterChange{verb: "drop", past: "dropped"}
	t.do = func(ctx context.Context, r *cli.Remote, l stream.DeadLetter) (bool, error) {
		n, err := stream.New(r.Store).Drop(ctx, l)
		return n == 1, err
	}
	return t.flags(&cobra.Command{
		Use:   "drop ID…|--all",
		Short: "Drop dead letters",
		Long:  `Deletes dead letters. This cannot be undone.`,
		Example: `  flunq dlq drop 1767225600000-0
  flunq dlq drop --all --age P30D --dry-run
  flunq dlq drop --all --age P30D --yes`,
	}, sh)
}

func (ch *deadLetterChange) run(ctx context.Context, r *cli.Remote, now time.Time, refs []string) error {
	simulate := ch.trial != nil && ch.trial.simulate
	if simulate {
		if err := ch.trial.begin(ctx, ch.filter); err != nil {
			return err
		}
	}
	deadLetters, err := ch.selected(ctx, r, now, refs)
	if err != nil {
		return err
	}
	if simulate {
		return ch.trial.run(ctx, r, deadLetters, ch.format)
	}
	rows := make([]deadLetterRow, len(deadLetters))
	for i, l := range deadLetters {
		rows[i] = deadLetterRowOf(r, l, now)
		rows[i].Action, rows[i].Done = ch.verb, new(bool)
	}
	if ch.Dry {
		return ch.print(rows)
	}
	if ch.verb == "drop" && len(rows) > 0 {
		if err := ch.confirm(ctx, "dlq drop", history.Count(len(rows), "dead letter")+" will be lost"); err != nil {
			return err
		}
	}
	err = ch.apply(ctx, r, deadLetters, rows)
	return errors.Join(ch.print(rows), err)
}

// selected returns the dead letters that the arguments and flags select.
func (ch *deadLetterChange) selected(ctx context.Context, r *cli.Remote, now time.Time, refs []string) ([]stream.DeadLetter, error) {
	if ch.all {
		return ch.filter.oldest(ctx, r, now, ch.limit)
	}
	var found []stream.DeadLetter
	var wrong []error
	for _, ref := range refs {
		l, err := findDeadLetter(ctx, r, ref)
		found, wrong = append(found, l), append(wrong, err)
	}
	return found, errors.Join(wrong...)
}

// oldest returns the matching dead letters, oldest first in each stream; limit is their
// maximum number, 0 for all.
func (f *deadLetterFilter) oldest(ctx context.Context, r *cli.Remote, now time.Time, limit int) ([]stream.DeadLetter, error) {
	from, to, err := f.span(now)
	if err != nil {
		return nil, err
	}
	sources, entries, err := f.sources(ctx, r)
	if err != nil {
		return nil, err
	}
	var found []stream.DeadLetter
	for _, source := range sources {
		q := stream.DeadLetterQuery{Tenant: source.tenant, Stream: source.stream, Range: store.Range{From: from, To: to, Oldest: true}}
		err := f.each(ctx, r, q, entries, func(l stream.DeadLetter) bool {
			found = append(found, l)
			return limit == 0 || len(found) < limit
		})
		if err != nil || limit > 0 && len(found) >= limit {
			return found, err
		}
	}
	return found, nil
}

// pauseOf returns the time between two replays at a rate.
func pauseOf(rate string) (time.Duration, error) {
	if rate == "" {
		return 0, nil
	}
	number, unit, _ := strings.Cut(rate, "/")
	per := map[string]time.Duration{"": time.Second, "s": time.Second, "m": time.Minute, "h": time.Hour}[unit]
	n, err := strconv.ParseFloat(number, 64)
	if err != nil || !(n > 0) || per == 0 {
		return 0, cli.Misusef("--rate %q: want a number and a time, such as 10/s or 100/m", rate)
	}
	return time.Duration(float64(per) / n), nil
}

// apply changes the dead letters one by one. It stops if Redis fails and continues after
// other errors.
func (ch *deadLetterChange) apply(ctx context.Context, r *cli.Remote, deadLetters []stream.DeadLetter, rows []deadLetterRow) error {
	var wrong []error
	for i, l := range deadLetters {
		if i > 0 {
			if err := cli.Pause(ctx, ch.pause); err != nil {
				return errors.Join(append(wrong, err)...)
			}
		}
		subject := strings.TrimSpace(rows[i].ID + " " + l.Event.Execution)
		if err := ch.trail(ctx, r, l.Tenant, "dlq "+ch.verb, subject); err != nil {
			return errors.Join(append(wrong, err)...)
		}
		done, err := ch.do(ctx, r, l)
		rows[i].Done = &done
		switch {
		case err != nil && store.Temporary(err):
			return errors.Join(append(wrong, err)...)
		case err != nil:
			wrong = append(wrong, err)
		case !done:
			ch.sh.Hint("%s is gone: another operator has replayed or dropped it", cli.Printable(rows[i].ID))
		}
	}
	return errors.Join(wrong...)
}

func (ch *deadLetterChange) print(rows []deadLetterRow) error {
	list := deadLetterList()
	list.Line = func(row deadLetterRow) string {
		switch {
		case ch.Dry && row.Problem != "" && ch.verb == "replay":
			return "cannot replay " + row.ID + ": " + cli.OneLine(row.Problem)
		case ch.Dry:
			return strings.TrimSpace(cli.OneLine(fmt.Sprintf("would %s %s  %s %s", ch.verb, row.ID, row.Type, row.Execution)))
		case *row.Done:
			return ch.past + " " + row.ID
		default:
			return ""
		}
	}
	return list.Print(ch.sh, ch.format, rows)
}
