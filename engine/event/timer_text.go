package event

import (
	"strconv"
	"strings"
	"time"
)

// EncodeTimer returns the same JSON as Encode in half the time: every timer that is set,
// fired or cancelled is encoded.
func EncodeTimer(t *Timer) []byte {
	if out, ok := appendTimer(make([]byte, 0, timerSize), t); ok {
		return append(out, '}')
	}
	return Encode(t)
}

// TimerText is EncodeTimer as a string.
func TimerText(t *Timer) string { return string(EncodeTimer(t)) }

// FiredText returns the same JSON of the data of a TimerFired as Encode, built like
// EncodeTimer.
func FiredText(f *Fired) string {
	out, ok := appendTimer(make([]byte, 0, timerSize), &f.Timer)
	if !ok || f.By != "" || !writable(f.ScheduledFor) || !writable(f.FiredAt) {
		return string(Encode(f))
	}
	out = appendTime(append(out, `,"scheduled_for":`...), f.ScheduledFor)
	out = appendTime(append(out, `,"fired_at":`...), f.FiredAt)
	return string(append(out, '}'))
}

// timerSize is sufficient for most timers.
const timerSize = 384

// appendTimer appends a timer without its closing brace. It returns false for values that
// need encoding/json.
func appendTimer(out []byte, t *Timer) ([]byte, bool) {
	if t.Event != nil || !writable(t.FireAt) || !writable(t.MovedTo) {
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

// writable reports whether encoding/json accepts a time, and writes it in UTC.
func writable(t time.Time) bool {
	return t.Location() == time.UTC && t.Year() >= 0 && t.Year() <= 9999
}

// plainText reports whether a text needs no escapes in JSON.
func plainText(s string) bool {
	for i := range len(s) {
		switch c := s[i]; {
		case c < ' ', c > '~', c == '"', c == '\\', c == '<', c == '>', c == '&':
			return false
		}
	}
	return true
}

// ScanTimer parses the JSON of a timer in exactly the form that Encode writes. For any
// other form it returns false; json.Unmarshal may still be able to read it.
func ScanTimer(text string) (t Timer, ok bool) {
	s := scanner{rest: text, good: true}
	t = s.timer()
	return t, s.good && s.rest == "}"
}

// ScanFired parses the data of TimerFired as ScanTimer does.
func ScanFired(text string) (f Fired, ok bool) {
	s := scanner{rest: text, good: true}
	f.Timer = s.timer()
	f.ScheduledFor = s.time(`,"scheduled_for":"`)
	f.FiredAt = s.time(`,"fired_at":"`)
	return f, s.good && s.rest == "}"
}

// scanner parses a text from its start.
type scanner struct {
	rest string
	good bool
}

// timer parses the members of a timer.
func (s *scanner) timer() (t Timer) {
	before := len(s.rest)
	t.Tenant = s.any(`{"tenant_id":"`)
	s.good = s.good && len(s.rest) < before // this member is never omitted
	t.Workflow = s.text(`,"workflow_id":"`)
	t.Execution = s.text(`,"execution_id":"`)
	t.TaskID = s.text(`,"task_id":"`)
	t.TaskName = s.text(`,"task_name":"`)
	before = len(s.rest)
	t.FireAt = s.time(`,"fire_at":"`)
	s.good = s.good && len(s.rest) < before
	t.DurationMS = s.number(`,"duration_ms":`)
	t.Kind = TimerKind(s.text(`,"kind":"`))
	t.Key = s.text(`,"key":"`)
	before = len(s.rest)
	t.MovedTo = s.time(`,"moved_to":"`)
	s.good = s.good && t.MovedTo.IsZero() == (len(s.rest) == before)
	return t
}

// any parses a string member; a missing one is "".
func (s *scanner) any(name string) string {
	rest, found := strings.CutPrefix(s.rest, name)
	if !found {
		return ""
	}
	end := strings.IndexByte(rest, '"')
	if end < 0 || !plainText(rest[:end]) {
		s.good = false
		return ""
	}
	s.rest = rest[end+1:]
	return rest[:end]
}

// text parses a string member that is omitted if empty.
func (s *scanner) text(name string) string {
	before := len(s.rest)
	text := s.any(name)
	s.good = s.good && (text != "" || len(s.rest) == before)
	return text
}

// time parses a member that is a time in UTC.
func (s *scanner) time(name string) (at time.Time) {
	if !strings.HasPrefix(s.rest, name) {
		return at
	}
	text := s.text(name)
	if at.UnmarshalText([]byte(text)) != nil || !strings.HasSuffix(text, "Z") {
		s.good = false
	}
	s.good = s.good && shortest(text)
	return at
}

// shortest reports whether a time has exactly the digits that Encode writes.
func shortest(moment string) bool {
	const whole, most = len("2006-01-02T15:04:05Z"), len("2006-01-02T15:04:05.123456789Z")
	n := len(moment)
	return n == whole || n > whole && n <= most && moment[whole-1] == '.' && moment[n-2] != '0'
}

// number parses a number of few digits.
func (s *scanner) number(name string) (n int64) {
	rest, found := strings.CutPrefix(s.rest, name)
	if !found {
		return 0
	}
	digits := 0
	for digits < len(rest) && rest[digits] >= '0' && rest[digits] <= '9' {
		n = 10*n + int64(rest[digits]-'0')
		digits++
	}
	const most = 18                                     // any such number fits an int64
	if digits == 0 || digits > most || rest[0] == '0' { // 0 is omitted
		s.good = false
	}
	s.rest = rest[digits:]
	return n
}
