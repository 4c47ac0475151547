package schedule

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"flunq.io/flunq/cmd/cli"
	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/history"
	"flunq.io/flunq/engine/schedule"
	"flunq.io/flunq/engine/scheduler/schedulerpb"
)

// addition is one run of schedule add.
type addition struct {
	*command

	when                            *moment
	topic, id, payload, key, tenant string
	headers                         []string
	replace, jsonl                  bool
}

func newAddCommand(sh *cli.Shell) *cobra.Command {
	a := &addition{}
	c := &cobra.Command{
		Use:   "add [-]",
		Short: "Schedule an event",
		Long: `Schedules an event and prints its id. The command can be repeated with the same --id: the
event is scheduled once. Different content under that id is an error (exit code 1), unless
--replace is given and no attempt has been made to publish the event.

'add - --jsonl' reads events from stdin, one JSON object on each line, as 'schedule ls
-o jsonl --payloads' prints them: id, topic, due or after, payload (any JSON) or
payload_base64, key, headers, tenant, replace. Those whose status is FIRED, CANCELLED or DEAD
are left out. Up to 1000 go into one call. Refused events are reported with their line
numbers, and the exit code is 1.`,
		Example: `  flunq schedule add --topic orders --after 15m --payload '{"order": 7}'
  flunq schedule add --topic event:com.shop.late --after 2h --payload @late.json
  flunq schedule add - --jsonl < events.jsonl`,
		Args: func(c *cobra.Command, args []string) error {
			for _, name := range []string{"topic", "id", "payload", "key", "tenant", "header", "at", "after", "replace"} {
				if a.jsonl && c.Flags().Changed(name) {
					return cli.Misusef("--%s and --jsonl exclude each other: set it in each line%s", name, cli.SeeHelp(c))
				}
			}
			if word := a.format.String(); a.jsonl && (word == "json" || word == "yaml") {
				return cli.Misusef("--jsonl and -o %s exclude each other: want -o text, jsonl or ids", word)
			}
			switch {
			case len(args) == 0 && !a.jsonl:
				return nil
			case len(args) == 1 && args[0] == "-" && a.jsonl:
				return nil
			case a.jsonl:
				return cli.Misusef("add --jsonl reads from stdin: want 'flunq schedule add - --jsonl'")
			default:
				return cli.Misusef("add: want flags only, got %q%s", args[0], cli.SeeHelp(c))
			}
		},
	}
	a.command = newCommand(c, sh, "text", "json", "jsonl", "yaml", "ids")
	a.when = momentFlags(c)
	f := c.Flags()
	f.StringVar(&a.topic, "topic", "", "publish it on the topic `NAME`, event:TYPE or workflow:NAME")
	f.StringVar(&a.id, "id", "", "give the event the id `UUID` (default: random)")
	f.StringVar(&a.payload, "payload", "{}", "publish this `TEXT`, @FILE, or - for stdin")
	f.StringVar(&a.key, "key", "", "give the published record the key `KEY` (default: the id)")
	f.StringVar(&a.tenant, "tenant", "", "reach the tenant `NAME` (topics event: and workflow:)")
	f.StringArrayVar(&a.headers, "header", nil, "add the header `NAME=VALUE` (repeatable)")
	f.BoolVar(&a.replace, "replace", false, "replace an event with this id whose publication has not been tried yet")
	f.BoolVar(&a.jsonl, "jsonl", false, "read events from stdin, a JSON object on each line")
	c.RunE = a.command.run(a.run)
	return c
}

func (a *addition) run(ctx context.Context, c *client, _ []string) error {
	if a.jsonl {
		return a.all(ctx, c)
	}
	request, err := a.request()
	if err != nil {
		return err
	}
	out, err := c.Schedule(ctx, request)
	if err != nil && unanswered(err) {
		return cli.RepeatWith(request.GetEventId(), c.failed(err))
	}
	if err != nil {
		return c.failed(err)
	}
	if err := refused(out.GetStatus()); err != nil {
		return err
	}
	row := rowOf(out.GetEvent())
	if a.format.String() != "text" {
		return row.print(a.sh, a.format)
	}
	fmt.Fprintln(a.sh.Out, row.ID)
	if !out.GetCreated() && !a.replace {
		a.sh.Hint("it was scheduled before")
	}
	if in := row.dueIn(); in != "" {
		a.sh.Hint("due at %s, in %s", clock(row.Due), in)
	}
	return nil
}

// request builds the request from the flags.
func (a *addition) request() (*schedulerpb.ScheduleRequest, error) {
	if a.topic == "" {
		return nil, cli.Misusef("add: no --topic given (see 'flunq schedule add --help')")
	}
	r := &schedulerpb.ScheduleRequest{
		EventId: cmp.Or(a.id, uuid.NewString()), Topic: a.topic, Key: a.key, Tenant: a.tenant, Replace: a.replace, Headers: map[string]string{},
	}
	for _, given := range a.headers {
		name, value, ok := strings.Cut(given, "=")
		if !ok || name == "" {
			return nil, cli.Misusef("--header %q: want NAME=VALUE", given)
		}
		if _, twice := r.Headers[name]; twice {
			return nil, cli.Misusef("--header %s is given twice", name)
		}
		r.Headers[name] = value
	}
	var err error
	if r.ExecuteTime, r.After, err = a.when.read(); err != nil {
		return nil, err
	}
	switch file, isFile := strings.CutPrefix(a.payload, "@"); {
	case a.payload == "-":
		r.Payload, err = io.ReadAll(a.sh.In)
	case isFile:
		if r.Payload, err = os.ReadFile(file); err != nil {
			err = cli.Fail(cli.ExitMisuse, fmt.Errorf("--payload %w", cli.WithoutVerb(file, err)))
		}
	default:
		r.Payload = []byte(a.payload)
	}
	return r, err
}

// moment is a time in the future, from the flags --at and --after.
type moment struct{ at, after string }

func momentFlags(c *cobra.Command) *moment {
	var m moment
	c.Flags().StringVar(&m.at, "at", "", "publish it at `TIME` (RFC 3339)")
	c.Flags().StringVar(&m.after, "after", "", "publish it `DURATION` from now, by the clock of the scheduler: 10m, PT10M, 3d")
	return &m
}

// read returns the time or the duration, whichever is given.
func (m *moment) read() (at *timestamppb.Timestamp, after *durationpb.Duration, err error) {
	switch {
	case (m.at == "") == (m.after == ""):
		return nil, nil, cli.Misusef("want one of --at and --after")
	case m.at != "":
		at, err := timeOfFlag("--at", m.at)
		return at, nil, err
	default:
		d, err := delay(m.after)
		if err != nil {
			return nil, nil, cli.Misusef("--after %q: %v", m.after, err)
		}
		return nil, d, nil
	}
}

// timeOfFlag returns the time that a flag gives, nil if it is not given.
func timeOfFlag(flag, text string) (*timestamppb.Timestamp, error) {
	if text == "" {
		return nil, nil
	}
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return nil, cli.Misusef("%s %q: want a time such as 2026-02-01T09:00:00Z", flag, text)
	}
	return timestamppb.New(t), nil
}

// delay reads a positive duration: 10m, PT10M, 3d.
func delay(text string) (*durationpb.Duration, error) {
	d, err := dsl.ParseSpan(text)
	if err != nil {
		return nil, err
	}
	length, ok := d.Fixed()
	if !ok || length == 0 {
		return nil, errors.New("want a positive duration without months")
	}
	return durationpb.New(length), nil
}

// line is one line of 'add - --jsonl'.
type line struct {
	eventRow

	After   string `json:"after"`
	Replace bool   `json:"replace"`
}

// closed reports whether a line is about an event that is not to be published any more.
func (l *line) closed() bool {
	return !l.Status.Open() && slices.Contains(schedule.Statuses(), l.Status)
}

// request returns the request that a line stands for.
func (l *line) request() (*schedulerpb.ScheduleRequest, error) {
	r := &schedulerpb.ScheduleRequest{
		EventId: cmp.Or(l.ID, uuid.NewString()), Topic: l.Topic, Key: l.Key, Headers: l.Headers, Tenant: l.Tenant, Replace: l.Replace, Payload: l.Base64,
	}
	switch payload := compact(l.Payload); {
	case l.Base64 == nil:
		r.Payload = payload
	case l.Payload != nil && !bytes.Equal(payload, compact(l.Base64)):
		return nil, errors.New("payload and payload_base64 differ: want one of them")
	}
	if l.Status != "" && !l.Status.Open() {
		return nil, fmt.Errorf("status %q: want SCHEDULED", l.Status)
	}
	switch {
	case (l.Due == nil) == (l.After == ""):
		return nil, errors.New("want one of due and after")
	case l.Due != nil:
		r.ExecuteTime = timestamppb.New(*l.Due)
	default:
		after, err := delay(l.After)
		if err != nil {
			return nil, fmt.Errorf("after %q: %w", l.After, err)
		}
		r.After = after
	}
	return r, nil
}

// intake is the work of 'add - --jsonl'.
type intake struct {
	*addition

	client   *client
	requests []*schedulerpb.ScheduleRequest // of the next call
	numbers  []int                          // of their lines
	bytes    int

	done, before   int // events scheduled now, and earlier with the same content
	leftOut, wrong int // lines with closed events, and refused ones
}

// all schedules the events of stdin.
func (a *addition) all(ctx context.Context, c *client) error {
	const maxLine = 2 << 20
	lines := bufio.NewScanner(a.sh.In)
	lines.Buffer(nil, maxLine)
	in := &intake{addition: a, client: c}
	number := 0
	for lines.Scan() && ctx.Err() == nil {
		number++
		if text := bytes.TrimSpace(lines.Bytes()); len(text) > 0 {
			if err := in.take(ctx, number, text); err != nil {
				return err
			}
		}
	}
	if errors.Is(lines.Err(), bufio.ErrTooLong) {
		return fmt.Errorf("line %d: longer than %d MiB; %s scheduled before it", number+1, maxLine>>20, history.Count(in.done, "event"))
	}
	if err := cmp.Or(lines.Err(), ctx.Err()); err != nil {
		return fmt.Errorf("line %d: %w", number+1, err)
	}
	if err := in.flush(ctx); err != nil {
		return err
	}
	text := history.Count(in.done, "event") + " scheduled"
	if in.before > 0 {
		text += "; " + history.Number(in.before) + " had been scheduled before"
	}
	if in.leftOut > 0 {
		text += "; " + history.Number(in.leftOut) + " left out: FIRED, CANCELLED or DEAD"
	}
	a.sh.Hint("%s", text)
	if in.wrong > 0 {
		return cli.Fail(cli.ExitFailed, fmt.Errorf("%s refused", history.Count(in.wrong, "line")))
	}
	return nil
}

// take adds the event of a line to the next call. If that is full, it is made first.
func (in *intake) take(ctx context.Context, number int, text []byte) error {
	const maxBytes, limit = 900 << 10, 1000
	l, err := parse(text)
	if l.closed() {
		in.leftOut++
		return nil
	}
	var request *schedulerpb.ScheduleRequest
	if err == nil {
		request, err = l.request()
	}
	if err != nil {
		in.refuse(number, err)
		return nil
	}
	n := proto.Size(request)
	if len(in.requests) == limit || in.bytes+n > maxBytes {
		if err := in.flush(ctx); err != nil {
			return err
		}
	}
	in.requests, in.numbers, in.bytes = append(in.requests, request), append(in.numbers, number), in.bytes+n
	return nil
}

// parse reads a line.
func parse(text []byte) (l line, err error) {
	if err := event.DecodeStrictly(text, &l); err != nil {
		return l, errors.New(strings.TrimPrefix(err.Error(), "eventRow.")) // encoding/json names the embedded struct
	}
	return l, nil
}

// refuse reports a line whose event is not scheduled.
func (in *intake) refuse(number int, err error) {
	in.wrong++
	fmt.Fprintf(in.sh.Err, "line %d: %s\n", number, cli.Printable(err.Error()))
}

// flush schedules the gathered events and prints them.
func (in *intake) flush(ctx context.Context) error {
	if len(in.requests) == 0 {
		return nil
	}
	out, err := in.client.ScheduleMany(ctx, &schedulerpb.ScheduleManyRequest{Requests: in.requests})
	if err != nil {
		first, last, failed := in.numbers[0], in.numbers[len(in.numbers)-1], in.client.failed(err)
		if unanswered(err) {
			failed = fmt.Errorf("%w; lines %d to %d may have taken effect nevertheless: repeat only those with ids", failed, first, last)
		}
		if in.done > 0 {
			failed = fmt.Errorf("%w\n%s scheduled before line %d", failed, history.Count(in.done, "event"), first)
		}
		return failed
	}
	var rows []eventRow
	for i, one := range out.GetResponses() {
		if err := refused(one.GetStatus()); err != nil {
			in.refuse(in.numbers[i], err)
			continue
		}
		rows = append(rows, rowOf(one.GetEvent()))
		if one.GetCreated() || in.requests[i].GetReplace() {
			in.done++
		} else {
			in.before++
		}
	}
	in.requests, in.numbers, in.bytes = nil, nil, 0
	format := in.format
	if format.String() == "text" {
		format = cli.NewChoice("ids")
	}
	return eventList().Print(in.sh, format, rows)
}
