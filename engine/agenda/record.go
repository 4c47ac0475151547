package agenda

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"flunq.io/flunq/engine/schedule"
)

// The stored form of an event, see partition.lua. Times are in milliseconds since 1970.

// format is the number of the stored form.
const format = 1

// content is the line with what the client asked for.
type content struct {
	Format  int               `json:"format"`
	Due     int64             `json:"due"`
	Topic   string            `json:"topic"`
	Key     string            `json:"key,omitempty"`
	Headers map[string]string `json:"headers,omitempty"`
	Tenant  string            `json:"tenant,omitempty"`
	Created int64             `json:"created"`
}

// state is the line with what has happened to the event.
type state struct {
	Status    schedule.Status `json:"status"`
	Version   int64           `json:"version"`
	Attempts  int             `json:"attempts"`
	Failures  int             `json:"failures"`
	Next      int64           `json:"next,omitempty"` // only if it differs from the due time
	Owner     string          `json:"owner,omitempty"`
	Lease     int64           `json:"lease,omitempty"`
	Updated   int64           `json:"updated"`
	Published int64           `json:"published,omitempty"`
	Error     string          `json:"error,omitempty"`
}

// line encodes the state or the content of an event.
func line(v any) string {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(v) // structs of strings and numbers can always be encoded
	return out.String()
}

// encode returns the record of an event.
func encode(e *schedule.Event) string {
	return stateLine(e) + line(content{
		Format: format, Due: millis(e.Due), Topic: e.Topic, Key: e.Key, Headers: e.Headers, Tenant: e.Tenant, Created: millis(e.Created),
	}) + string(e.Payload)
}

// stateLine returns the state of an event; "" while nothing has happened to it.
func stateLine(e *schedule.Event) string {
	if e.Status == schedule.Scheduled && e.Version == 1 && e.Next.Equal(e.Due) {
		return ""
	}
	s := state{
		Status: e.Status, Version: e.Version, Attempts: e.Attempts, Failures: e.Failures,
		Owner: e.Owner, Lease: millis(e.Lease), Updated: millis(e.Updated), Published: millis(e.Published), Error: e.Error,
	}
	if e.Status.Open() && !e.Next.Equal(e.Due) {
		s.Next = millis(e.Next)
	}
	return line(s)
}

// decode returns the event of a record.
func decode(id, record string) (schedule.Event, error) {
	e := schedule.Event{ID: id, Status: schedule.Scheduled, Version: 1}
	var c content
	var s state
	first, rest, ok := strings.Cut(record, "\n")
	touched := strings.HasPrefix(first, `{"status":`)
	if touched && ok {
		if err := json.Unmarshal([]byte(first), &s); err != nil {
			return e, fmt.Errorf("read the state of event %s: %w", id, err)
		}
		first, rest, ok = strings.Cut(rest, "\n")
	}
	if err := json.Unmarshal([]byte(first), &c); err != nil || !ok {
		return e, fmt.Errorf("read event %s: its record is damaged", id)
	}
	if c.Format != format {
		return e, fmt.Errorf("read event %s: its record has format %d, want %d: it was written by a newer version", id, c.Format, format)
	}
	e.Content = schedule.Content{Due: moment(c.Due), Tenant: c.Tenant, Topic: c.Topic, Key: c.Key, Headers: c.Headers, Payload: []byte(rest)}
	e.Created, e.Updated, e.Next = moment(c.Created), moment(c.Created), e.Due
	if touched {
		e.Status, e.Version, e.Attempts, e.Failures = s.Status, s.Version, s.Attempts, s.Failures
		e.Owner, e.Error = s.Owner, s.Error
		e.Lease, e.Updated, e.Published = moment(s.Lease), moment(s.Updated), moment(s.Published)
		if s.Next != 0 {
			e.Next = moment(s.Next)
		}
	}
	return e, nil
}

func millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

func moment(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}
