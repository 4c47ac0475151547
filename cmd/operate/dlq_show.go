package operate

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"flunq.io/flunq/cmd/actions"
	"flunq.io/flunq/cmd/cli"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/stream"
)

func newDeadLetterShowCommand(sh *cli.Shell) *cobra.Command {
	c := &cobra.Command{
		Use:   "show ID",
		Short: "Show one dead letter in full",
		Long: `Shows a dead letter: why and when its event was dead-lettered, the event with its
payload, and whether a replay can succeed.`,
		Example: `  flunq dlq show 1767225600000-0
  flunq dlq show 1767225600000-0 -o json | jq .payload`,
		Args: cli.OneArgument("dead letter"),
	}
	t := newCommand(c, sh, "text", "json", "yaml")
	c.ValidArgsFunction = completeDeadLetters(t.target)
	c.RunE = t.target.RunAt(t.showDeadLetter)
	return c
}

// deadLetterPage is a dead letter as dlq show prints it.
type deadLetterPage struct {
	deadLetterRow

	FirstFailure    time.Time         `json:"first_failure,omitzero"`
	LastFailure     time.Time         `json:"last_failure,omitzero"`
	SourceStream    string            `json:"source_stream,omitempty"`
	SourceID        string            `json:"source_id,omitempty"`
	ExecutionStatus string            `json:"execution_status,omitempty"`
	Advice          string            `json:"advice"`
	Payload         json.RawMessage   `json:"payload,omitempty"` // if it is JSON
	Text            string            `json:"text,omitempty"`    // the payload otherwise
	Fields          map[string]string `json:"fields,omitempty"`  // all other fields of the event

	facts [][2]string // for people
}

func (c command) showDeadLetter(ctx context.Context, r *cli.Remote, now time.Time, args []string) error {
	l, err := findDeadLetter(ctx, r, args[0])
	if err != nil {
		return err
	}
	status, err := actions.Status(ctx, r.Store, l.Tenant, l.Event.Execution)
	if err != nil {
		return err
	}
	page := deadLetterPageOf(l, deadLetterRowOf(r, l, now), status)
	if c.format.String() != "text" {
		return cli.WriteValue(c.sh.Out, c.format.String(), page)
	}
	page.write(c.sh)
	return nil
}

func deadLetterPageOf(l stream.DeadLetter, row deadLetterRow, status string) deadLetterPage {
	page := deadLetterPage{
		deadLetterRow: row, FirstFailure: l.FirstFailure, LastFailure: l.LastFailure, SourceStream: l.SourceStream,
		SourceID: l.SourceID, ExecutionStatus: status, Advice: actions.ReplayOutlook(l, status), Fields: map[string]string{},
		facts: actions.DeadLetterFacts(l, status, cli.Moment),
	}
	payload := l.Timer
	for i := 0; i+1 < len(l.Fields); i += 2 {
		if l.Fields[i] == "data" {
			payload = l.Fields[i+1]
		} else {
			page.Fields[l.Fields[i]] = l.Fields[i+1]
		}
	}
	if json.Valid([]byte(payload)) {
		page.Payload = json.RawMessage(payload)
	} else {
		page.Text = payload
	}
	return page
}

func (p deadLetterPage) write(sh *cli.Shell) {
	writeRows(sh, slices.Concat([][2]string{
		{"dead letter", p.ID},
		{"tenant", p.Tenant},
		{"dead-lettered", cli.Moment(p.DiedAt) + " (" + p.age() + " ago)"},
	}, p.facts, [][2]string{{"problem", p.Problem}, {"advice", p.Advice}}))
	var rest [][2]string
	for _, name := range slices.Sorted(maps.Keys(p.Fields)) {
		switch name {
		case "id", "type", "workflowid", "executionid", "taskid", "tenantid":
		default:
			rest = append(rest, [2]string{name, p.Fields[name]})
		}
	}
	if len(rest) > 0 {
		fmt.Fprintln(sh.Out, "\nattributes:")
		writeRows(sh, rest)
	}
	switch {
	case p.Payload != nil:
		fmt.Fprintln(sh.Out, "\npayload:")
		fmt.Fprintln(sh.Out, cli.Printable(indented(string(p.Payload))))
	case p.Text != "":
		fmt.Fprintln(sh.Out, "\npayload (not JSON):")
		fmt.Fprintln(sh.Out, cli.Printable(p.Text))
	}
}

// completeDeadLetters completes the ids of the newest dead letters.
func completeDeadLetters(t *cli.Target) cobra.CompletionFunc {
	return cli.Complete(t, func(ctx context.Context, r *cli.Remote) (ids []string, err error) {
		deadLetters, _, err := stream.New(r.Store).DeadLetters(ctx, stream.DeadLetterQuery{Tenant: r.Tenant, Range: store.Range{Count: 50}})
		for _, l := range deadLetters {
			what := strings.TrimPrefix(string(l.Event.Type), event.Prefix)
			ids = append(ids, l.ID+"\t"+cli.OneLine(strings.TrimSpace(what+" "+l.Event.Execution+": "+l.Reason)))
		}
		return ids, err
	})
}
