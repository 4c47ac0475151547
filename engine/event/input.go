package event

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Attributes with which an emit task addresses its event to one execution. An event with any of
// them is an input.
const (
	InputExecutionAttribute = "flunqexecution" // the receiving execution; default: the one that emits the event
	InputAfterAttribute     = "flunqafter"     // deliver it after this duration
	InputAtAttribute        = "flunqat"        // deliver it at this time
	InputKeyAttribute       = "flunqkey"       // replace the pending input with this key
	InputRejectAttribute    = "flunqonreject"  // what happens if no task consumes it, see ParseRejection
	InputCancelAttribute    = "flunqcancel"    // instead of sending an event, cancel the pending input with this key
)

// InputAttributes returns the names of these attributes.
func InputAttributes() []string {
	return []string{
		InputExecutionAttribute, InputAfterAttribute, InputAtAttribute, InputKeyAttribute, InputRejectAttribute, InputCancelAttribute,
	}
}

// IsInput reports whether an emitted event, an object of its attributes, is an input.
func IsInput(envelope json.RawMessage) bool {
	var members map[string]json.RawMessage
	if !strings.Contains(string(envelope), `"flunq`) || json.Unmarshal(envelope, &members) != nil {
		return false
	}
	return slices.ContainsFunc(InputAttributes(), func(name string) bool { return members[name] != nil })
}

// Addressed reports whether an event has attributes that make it an input.
func (e Event) Addressed() bool {
	return slices.ContainsFunc(InputAttributes(), func(name string) bool { return e.Ext[name] != "" })
}

// WithoutAddress returns an event without these attributes.
func (e Event) WithoutAddress() Event {
	e.Ext = maps.Clone(e.Ext)
	for _, name := range InputAttributes() {
		delete(e.Ext, name)
	}
	return e
}

// ForOne reports whether a timer concerns an execution as a whole, under a key that is unique
// within the execution: an InputTimer or a StartTimer.
func (t Timer) ForOne() bool { return t.Kind == InputTimer || t.Kind == StartTimer }

// InputID returns the id of the event that an InputTimer delivers to its execution. It is the same
// for every delivery.
func (t Timer) InputID() string {
	return t.Execution + "/" + t.Key + "/input/" + strconv.FormatInt(t.FireAt.UnixNano(), 10)
}

// EncodeInput returns the input of a timer that delivers e: an object of its attributes. It omits
// the tenant, execution, workflow and task of e.
func EncodeInput(e Event) json.RawMessage {
	members := map[string]any{"type": e.Type}
	for name, value := range e.Ext {
		members[name] = value
	}
	for name, value := range map[string]string{"id": e.ID, "source": e.Source} {
		if value != "" {
			members[name] = value
		}
	}
	if !e.Time.IsZero() {
		members["time"] = e.Time.UTC().Format(time.RFC3339Nano)
	}
	switch {
	case len(e.Data) == 0:
	case json.Valid(e.Data):
		members["data"] = e.Data
	default:
		members["data"] = string(e.Data)
	}
	return Encode(members)
}

// ReadInput returns the event that a timer delivers: for an InputTimer, an external event that has
// an id, a source and a time; for a StartTimer, an ExecutionStarted.
func (t Timer) ReadInput() (Event, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(t.Input, &members); err != nil || members == nil {
		return Event{}, fmt.Errorf("has input %.80q, want an object with the attributes of an event: type, source, data, …", t.Input)
	}
	fields := make([]string, 0, 2*len(members))
	for _, name := range slices.Sorted(maps.Keys(members)) {
		text := string(members[name])
		var plain string
		if name != "data" && json.Unmarshal(members[name], &plain) == nil {
			text = plain
		}
		fields = append(fields, name, text)
	}
	e, err := FromFields(fields)
	if err != nil {
		return e, fmt.Errorf("has an input that is not an event: %w", err)
	}
	if ours := strings.HasPrefix(string(e.Type), Prefix); ours != (t.Kind == StartTimer) || ours && e.Type != ExecutionStarted {
		return e, fmt.Errorf("has an input of type %s, which a timer of kind %s cannot deliver", e.Type, t.Kind)
	}
	e.Tenant, e.Workflow, e.Execution, e.Task = t.Tenant, t.Workflow, t.Execution, ""
	e.ID, e.Source = cmp.Or(e.ID, t.InputID()), cmp.Or(e.Source, "/flunq/timer")
	if e.Time.IsZero() {
		e.Time = t.FireAt
	}
	return e, nil
}

// Rejection says what happens to an input that no task consumes.
type Rejection struct {
	DeadLetter bool
	Park       string // a duration for which to keep it for a task that begins to listen; "": do not keep it
}

const parkPrefix = "park="

// ParseRejection parses "drop" (or ""), "dead-letter" or "park=DURATION". It does not check the
// duration.
func ParseRejection(text string) (Rejection, error) {
	switch {
	case text == "", text == "drop":
		return Rejection{}, nil
	case text == "dead-letter":
		return Rejection{DeadLetter: true}, nil
	case strings.HasPrefix(text, parkPrefix) && len(text) > len(parkPrefix):
		return Rejection{Park: text[len(parkPrefix):]}, nil
	default:
		return Rejection{}, fmt.Errorf("%q, want drop, dead-letter or park=DURATION", text)
	}
}

// CheckInputKey returns an error if key is not allowed for an input.
func CheckInputKey(key string) error {
	const longest = 200
	if key == "" || len(key) > longest || !Plain(key) {
		return errors.New("a key has 1 to 200 bytes of UTF-8 and no control characters")
	}
	return nil
}
