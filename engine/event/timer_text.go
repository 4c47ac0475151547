package event

import (
	"strconv"
	"time"
)

// EncodeTimer returns the same JSON as Encode in half the time. It is worth it because every timer
// that is set, fired or cancelled is encoded.
func EncodeTimer(t *Timer) []byte {
	if out, ok := appendTimer(make([]byte, 0, timerSize), t); ok {
		return append(out, '}')
	}
	slow := *t // so that t itself need not be allocated
	return Encode(&slow)
}

// TimerText is EncodeTimer as a string.
func TimerText(t *Timer) string { return string(EncodeTimer(t)) }

// FiredText returns the same JSON as Encode for the data of a TimerFired, built like EncodeTimer.
func FiredText(f *Fired) string {
	out, ok := appendTimer(make([]byte, 0, timerSize), &f.Timer)
	if !ok || f.By != "" || !writable(f.ScheduledFor) || !writable(f.FiredAt) {
		slow := *f // so that f itself need not be allocated
		return string(Encode(&slow))
	}
	out = appendTime(append(out, `,"scheduled_for":`...), f.ScheduledFor)
	out = appendTime(append(out, `,"fired_at":`...), f.FiredAt)
	return string(append(out, '}'))
}

// timerSize is the initial size of a buffer, sufficient for most timers.
const timerSize = 384

// appendTimer appends a timer without its closing brace. It returns false for values that need
// encoding/json.
func appendTimer(out []byte, t *Timer) ([]byte, bool) {
	if t.Event != nil || t.Input != nil || t.OnReject != "" || !t.ParkedUntil.IsZero() || !writable(t.FireAt) || !writable(t.MovedTo) {
		return nil, false
	}
	for _, s := range [...]string{t.Tenant, t.Workflow, t.Execution, t.TaskID, t.TaskName, string(t.Kind), t.Key} {
		if !plainText(s) {
			return nil, false
		}
	}
	out = append(append(append(out, `{"tenant_id":"`...), t.Tenant...), '"')
	out = appendMember(out, `,"workflow_id":"`, t.Workflow)
	out = appendMember(out, `,"execution_id":"`, t.Execution)
	out = appendMember(out, `,"task_id":"`, t.TaskID)
	out = appendMember(out, `,"task_name":"`, t.TaskName)
	out = appendTime(append(out, `,"fire_at":`...), t.FireAt)
	if t.DurationMS != 0 {
		out = strconv.AppendInt(append(out, `,"duration_ms":`...), t.DurationMS, 10)
	}
	out = appendMember(out, `,"kind":"`, string(t.Kind))
	out = appendMember(out, `,"key":"`, t.Key)
	if !t.MovedTo.IsZero() {
		out = appendTime(append(out, `,"moved_to":`...), t.MovedTo)
	}
	return out, true
}

func appendMember(out []byte, name, value string) []byte {
	if value == "" {
		return out
	}
	return append(append(append(out, name...), value...), '"')
}

func appendTime(out []byte, t time.Time) []byte {
	return append(t.AppendFormat(append(out, '"'), time.RFC3339Nano), '"')
}

// writable reports whether encoding/json accepts a time and writes it in UTC.
func writable(t time.Time) bool {
	return t.Location() == time.UTC && t.Year() >= 0 && t.Year() <= 9999
}

// plainText reports whether a string needs no escapes in JSON.
func plainText(s string) bool {
	for i := range len(s) {
		switch c := s[i]; {
		case c < ' ', c > '~', c == '"', c == '\\', c == '<', c == '>', c == '&':
			return false
		}
	}
	return true
}
