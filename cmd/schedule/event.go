package schedule

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"flunq.io/flunq/cmd/cli"
	"flunq.io/flunq/engine/history"
	"flunq.io/flunq/engine/schedule"
	"flunq.io/flunq/engine/scheduler/schedulerpb"
)

// eventRow is an event in the output. 'schedule add --jsonl' also reads it.
type eventRow struct {
	ID       string            `json:"id"`
	Status   schedule.Status   `json:"status,omitempty"`
	Due      *time.Time        `json:"due,omitempty"`
	Topic    string            `json:"topic,omitempty"`
	Key      string            `json:"key,omitempty"`
	Headers  map[string]string `json:"headers,omitempty"`
	Tenant   string            `json:"tenant,omitempty"`
	Attempts int               `json:"attempts,omitempty"`
	Error    string            `json:"error,omitempty"`
	Next     *time.Time        `json:"next,omitempty"` // if an earlier publication failed
	Created  *time.Time        `json:"created,omitempty"`
	Updated  *time.Time        `json:"updated,omitempty"`
	Fired    *time.Time        `json:"fired,omitempty"`
	Payload  json.RawMessage   `json:"payload,omitempty"`        // if it is JSON
	Base64   []byte            `json:"payload_base64,omitempty"` // if it is not JSON, or has spaces that Payload loses

	in time.Duration // until it is due, by the clock of the scheduler
}

func rowOf(e *schedulerpb.Event) eventRow {
	row := eventRow{
		ID: e.GetEventId(), Status: statusOf(e.GetStatus()), Due: timeOf(e.GetExecuteTime()), Topic: e.GetTopic(), Key: e.GetKey(),
		Headers: e.GetHeaders(), Tenant: e.GetTenant(), Attempts: int(e.GetAttempts()), Error: e.GetLastError(),
		in:      e.GetDueIn().AsDuration(),
		Created: timeOf(e.GetCreatedTime()), Updated: timeOf(e.GetUpdatedTime()), Fired: timeOf(e.GetFiredTime()),
	}
	if row.Key == row.ID {
		row.Key = ""
	}
	if next := timeOf(e.GetNextTime()); next != nil && row.Due != nil && !next.Equal(*row.Due) {
		row.Next = next
	}
	payload := e.GetPayload()
	if row.Payload = compact(payload); !bytes.Equal(row.Payload, payload) {
		row.Base64 = payload
	}
	return row
}

// compact returns JSON without spaces, nil if the text is not JSON.
func compact(text []byte) []byte {
	var out bytes.Buffer
	if json.Compact(&out, text) != nil {
		return nil
	}
	return out.Bytes()
}

// statusOf returns a state by its name: SCHEDULED.
func statusOf(s schedulerpb.EventStatus) schedule.Status {
	return schedule.Status(strings.TrimPrefix(s.String(), statusPrefix))
}

const statusPrefix = "EVENT_STATUS_"

// timeOf returns a time, nil if there is none.
func timeOf(t *timestamppb.Timestamp) *time.Time {
	if t == nil {
		return nil
	}
	at := t.AsTime()
	return &at
}

func clock(t *time.Time) string {
	if t == nil {
		return ""
	}
	return cli.Moment(*t)
}

// dueIn returns how long it is until an open event is due.
func (r eventRow) dueIn() string {
	if r.Due == nil || !r.Status.Open() {
		return ""
	}
	return history.Duration(r.in.Round(time.Millisecond))
}

func eventID(r eventRow) string { return r.ID }

// eventList prints events, but not as a table.
func eventList() cli.List[eventRow] { return cli.List[eventRow]{ID: eventID} }

// print prints one event as data.
func (r eventRow) print(sh *cli.Shell, format *cli.Choice) error {
	if word := format.String(); word == "json" || word == "yaml" {
		return cli.WriteValue(sh.Out, word, r)
	}
	return eventList().Print(sh, format, []eventRow{r})
}

// eventColumns returns the columns of a listing, or of one of dead events: those show why they
// are dead.
func eventColumns(dead bool) []cli.Column[eventRow] {
	return []cli.Column[eventRow]{
		{Title: "ID", Text: eventID},
		{Title: "STATUS", Wide: dead, Text: func(r eventRow) string { return string(r.Status) }},
		{Title: "DUE IN", Wide: dead, Text: eventRow.dueIn},
		{Title: "DUE AT", Text: func(r eventRow) string { return clock(r.Due) }},
		{Title: "TOPIC", Text: func(r eventRow) string { return r.Topic }},
		{Title: "ATTEMPTS", Wide: !dead, Text: func(r eventRow) string { return strconv.Itoa(r.Attempts) }},
		{Title: "KEY", Wide: true, Text: func(r eventRow) string { return r.Key }},
		{Title: "FIRED", Wide: true, Text: func(r eventRow) string { return clock(r.Fired) }},
		{Title: "ERROR", Wide: !dead, Text: func(r eventRow) string { return strings.TrimPrefix(r.Error, "not published: ") }},
	}
}

// describe prints an event as text.
func (r eventRow) describe(sh *cli.Shell) {
	line := func(name, value string) {
		if value != "" {
			fmt.Fprintf(sh.Out, "%-9s %s\n", name, cli.Printable(value))
		}
	}
	line("id", r.ID)
	line("status", string(r.Status))
	line("due", clock(r.Due))
	line("topic", r.Topic)
	line("key", r.Key)
	for _, name := range slices.Sorted(maps.Keys(r.Headers)) {
		line("header", name+"="+r.Headers[name])
	}
	line("tenant", r.Tenant)
	if r.Attempts > 0 {
		line("attempts", strconv.Itoa(r.Attempts))
	}
	line("error", r.Error)
	line("next", clock(r.Next))
	line("created", clock(r.Created))
	line("updated", clock(r.Updated))
	line("fired", clock(r.Fired))
	line("payload", string(r.Payload))
	if r.Payload == nil && len(r.Base64) > 0 {
		line("payload", fmt.Sprintf("%d bytes that are not JSON (see -o json)", len(r.Base64)))
	}
}
