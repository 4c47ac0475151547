package schedule

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Values of CloudEvents attributes of every published event.
const (
	// Source is the CloudEvents source.
	Source = "/flunq/scheduler"
	// SpecVersion is the version of CloudEvents.
	SpecVersion = "1.0"
	// FiredType is the CloudEvents type of an event on a topic.
	FiredType = "io.flunq.schedule.fired"
)

// Header is a header of a record.
type Header struct{ Name, Value string }

// RecordHeaders returns the headers of the published record, sorted by name: the attributes of a
// CloudEvent in binary mode, those of the scheduler, and the event's own.
func (e *Event) RecordHeaders() []Header {
	headers := []Header{
		{"ce_id", e.ID},
		{"ce_source", Source},
		{"ce_specversion", SpecVersion},
		{"ce_time", e.Due.UTC().Format(time.RFC3339Nano)},
		{"ce_type", FiredType},
		{"flunq-attempt", strconv.Itoa(e.Attempts + 1)},
		{"flunq-scheduled-for", strconv.FormatInt(e.Due.UnixMilli(), 10)},
	}
	for _, name := range slices.Sorted(maps.Keys(e.Headers)) {
		headers = append(headers, Header{name, e.Headers[name]})
	}
	slices.SortStableFunc(headers, func(a, b Header) int { return strings.Compare(a.Name, b.Name) })
	return headers
}
