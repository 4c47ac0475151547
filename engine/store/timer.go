package store

import (
	"cmp"
	"strconv"
	"strings"

	"flunq.io/flunq/engine/event"
)

// member is a timer as it stands in the ZSET.
func member(t event.Timer) string { return event.TimerText(&t) }

// tombstone is the field of an execution that says a timer was taken back
// before it was set.
func tombstone(t event.Timer) string {
	out := append(append(append(make([]byte, 0, 128), "gone:"...), t.TaskID...), ' ') //nolint:mnd // room for most
	out = append(append(append(append(out, t.Kind...), ' '), t.Key...), ' ')
	return string(strconv.AppendInt(out, t.FireAt.UnixNano(), 10))
}

// order is when a timer was set, in digits that compare as texts do: by the entry
// that its event was at first. That of a dead letter is not known any more, and
// the event's own time has to do.
func (m Message) order() string {
	entry := m.ID
	if m.Attempt > 0 {
		entry = cmp.Or(m.field(firstEntryField), entry)
	}
	ms, seq, _ := strings.Cut(entry, "-")
	if at := m.Event.Time.UnixMilli(); m.Replay > 0 && at > 0 {
		ms, seq = strconv.FormatInt(at, 10), ""
	}
	return digits(ms) + digits(seq)
}

// digits pads a number to 20 digits.
func digits(n string) string { return strings.Repeat("0", max(20-len(n), 0)) + n }
