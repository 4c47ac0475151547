package schedule

import (
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/history"
)

// The prefixes of topics that do not belong to the sink.
const (
	// EventTopic is the prefix of topics whose events reach a tenant: "event:TYPE" publishes a CloudEvent
	// of that type, with the payload as its data.
	EventTopic = "event:"
	// WorkflowTopic is the prefix of topics whose events start an execution: "workflow:NAME" or
	// "workflow:NAME:VERSION", with the payload as input and the event's id as its own.
	WorkflowTopic = "workflow:"
)

// Limits bounds the requests that are valid.
type Limits struct {
	MinDelay, MaxDelay time.Duration // between now and Due
	Payload            int           // bytes
	Topics             []string      // allowed topics; empty: all
}

// DefaultLimits are the limits of an ordinary deployment.
func DefaultLimits() Limits {
	return Limits{MinDelay: time.Minute, MaxDelay: 15 * 24 * time.Hour, Payload: 256 << 10}
}

// Limits of a Content that are not configurable.
const (
	longestTopic  = 249 // as in Kafka
	longestKey    = 1 << 10
	maxHeaders    = 32
	longestHeader = 1 << 10 // name or value
)

// CheckID returns an error unless id is a UUID.
func CheckID(id string) error {
	if id == "" {
		return errors.New("event_id is missing: want a UUID")
	}
	if !uuid(id) {
		return fmt.Errorf("event_id %.60q is not a UUID: want 8-4-4-4-12 hexadecimal digits", id)
	}
	return nil
}

// FormatID returns the id for the 16 bytes of a UUID.
func FormatID(b []byte) string {
	x := hex.EncodeToString(b)
	return x[:8] + "-" + x[8:12] + "-" + x[12:16] + "-" + x[16:20] + "-" + x[20:]
}

// uuid reports whether id is a UUID, in any case.
func uuid(id string) bool {
	if len(id) != 36 {
		return false
	}
	for i, c := range []byte(id) {
		switch dash := i == 8 || i == 13 || i == 18 || i == 23; {
		case dash != (c == '-'):
			return false
		case !dash && !strings.ContainsRune("0123456789abcdefABCDEF", rune(c)):
			return false
		}
	}
	return true
}

// Check returns an error that lists everything wrong with a request that is made now.
func (l Limits) Check(id string, c Content, now time.Time) error {
	return errors.Join(CheckID(id), l.CheckDue(c.Due, now), l.checkContent(c))
}

// CheckQueued is Check for a request that waited before it was read, so it may be overdue.
func (l Limits) CheckQueued(id string, c Content, now time.Time) error {
	// A request that was valid when it was sent is still valid, whatever the clocks say.
	const skew = time.Minute
	l.MaxDelay += skew
	due := l.CheckDue(c.Due, now)
	if !c.Due.IsZero() && !c.Due.After(now.Add(l.MaxDelay)) {
		due = nil
	}
	return errors.Join(CheckID(id), due, l.checkContent(c))
}

func (l Limits) checkContent(c Content) error {
	errs := []error{CheckTopic(c.Topic)}
	if c.Topic != "" && len(l.Topics) > 0 && !slices.Contains(l.Topics, c.Topic) {
		errs = append(errs, fmt.Errorf("topic %.80q is not allowed here: ask the operator to add it to SCHEDULER_TOPICS", c.Topic))
	}
	if c.Tenant != "" && !event.TenantName(c.Tenant) {
		errs = append(errs, fmt.Errorf("tenant %.80q: want [a-z0-9][a-z0-9._-]{0,62}", c.Tenant))
	}
	switch {
	case len(c.Payload) == 0:
		errs = append(errs, errors.New("payload is missing"))
	case len(c.Payload) > l.Payload:
		errs = append(errs, fmt.Errorf("payload has %d bytes: want at most %d", len(c.Payload), l.Payload))
	}
	switch {
	case len(c.Key) > longestKey:
		errs = append(errs, fmt.Errorf("key has %d bytes: want at most %d", len(c.Key), longestKey))
	case !utf8.ValidString(c.Key):
		errs = append(errs, fmt.Errorf("key %.60q: want text in UTF-8", c.Key))
	}
	if n := len(withoutTrace(c.Headers)); n > maxHeaders {
		errs = append(errs, fmt.Errorf("%d headers: want at most %d", n, maxHeaders))
	}
	for _, name := range slices.Sorted(maps.Keys(c.Headers)) {
		switch {
		case name == "" || len(name) > longestHeader || len(c.Headers[name]) > longestHeader:
			errs = append(errs, fmt.Errorf("header %.60q: want a name of 1 to %d bytes and a value of at most %d", name, longestHeader, longestHeader))
		case !utf8.ValidString(name) || !utf8.ValidString(c.Headers[name]):
			errs = append(errs, fmt.Errorf("header %.60q: want a name and a value in UTF-8", name))
		case strings.HasPrefix(name, "ce_") || strings.HasPrefix(name, "flunq-"):
			errs = append(errs, fmt.Errorf("header %.60q: names that begin with ce_ or flunq- are set by the scheduler", name))
		case strings.HasPrefix(c.Topic, EventTopic) && (!event.AttributeName(name) || slices.Contains(event.OwnAttributes(), name)):
			errs = append(errs, fmt.Errorf("header %.60q: the headers of an %s topic are CloudEvents attributes: want [a-z0-9]+, and none that each event has", name, EventTopic))
		}
	}
	return errors.Join(errs...)
}

// CheckDue returns an error unless an event may be due at due, seen from now. MinDelay counts from the
// beginning of the second, since execute_at is in whole seconds: a minute after a client's time is then
// a minute ahead.
func (l Limits) CheckDue(due, now time.Time) error {
	at := func(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.999Z07:00") }
	switch earliest, latest := now.Truncate(time.Second).Add(l.MinDelay), now.Add(l.MaxDelay); {
	case due.IsZero():
		return errors.New("execute_at is missing: want a Unix time in seconds, or execute_time with nanos from 0 to 999,999,999, or after")
	case !due.After(now):
		return fmt.Errorf("execute_at %s has passed: it is %s", at(due), at(now))
	case due.Before(earliest):
		return fmt.Errorf("execute_at %s is too early: want at least %s from now, after %s", at(due), history.Duration(l.MinDelay), at(earliest))
	case due.Year() > 9999:
		return fmt.Errorf("execute_at is too late: want at most %s from now, before %s, in seconds and not milliseconds since 1970", history.Duration(l.MaxDelay), at(latest))
	case due.After(latest):
		return fmt.Errorf("execute_at %s is too late: want at most %s from now, before %s", at(due), history.Duration(l.MaxDelay), at(latest))
	}
	return nil
}

// CheckTopic returns an error unless events may have a topic.
func CheckTopic(topic string) error {
	typ, isEvent := strings.CutPrefix(topic, EventTopic)
	workflow, isWorkflow := strings.CutPrefix(topic, WorkflowTopic)
	switch {
	case topic == "":
		return errors.New("topic is missing")
	case isEvent && (!eventType(typ) || strings.HasPrefix(typ, event.Prefix)):
		return fmt.Errorf("topic %.80q: want %sTYPE with a CloudEvents type of 1 to %d characters that does not begin with %s", topic, EventTopic, longestTopic, event.Prefix)
	case isWorkflow && !WorkflowName(workflow):
		return fmt.Errorf("topic %.80q: want %sNAME or %sNAME:VERSION", topic, WorkflowTopic, WorkflowTopic)
	case !isEvent && !isWorkflow && !TopicName(topic):
		return fmt.Errorf("topic %.80q: want [a-zA-Z0-9._-]{1,%d}, %sTYPE or %sNAME", topic, longestTopic, EventTopic, WorkflowTopic)
	default:
		return nil
	}
}

// eventType reports whether text may be the type of a CloudEvent.
func eventType(text string) bool {
	return text != "" && len(text) <= longestTopic && utf8.ValidString(text) && !strings.ContainsFunc(text, unicode.IsControl)
}

// WorkflowName reports whether text may name a workflow: NAME or NAMESPACE.NAME, optionally with a
// colon and its version.
func WorkflowName(text string) bool {
	name, version, versioned := strings.Cut(text, ":")
	version = strings.ReplaceAll(version, "+", "-") // build metadata
	return TopicName(name) && (!versioned || TopicName(version))
}

// TopicName reports whether a name may be that of a Kafka topic.
func TopicName(name string) bool {
	for _, c := range []byte(name) {
		alphanumeric := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		if !alphanumeric && c != '.' && c != '_' && c != '-' {
			return false
		}
	}
	return name != "" && len(name) <= longestTopic && name != "." && name != ".."
}
