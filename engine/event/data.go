package event

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Run identifies one run of a task within an execution: the task's reference, the iteration of the
// enclosing loops (and jumps back), and the attempt of the enclosing retries.
type Run struct {
	Ref       string `json:"ref"`                 // JSON pointer, "/do/0/name"
	Iteration string `json:"iteration,omitempty"` // "" outside loops, else "2", or "2.0" in nested ones
	Attempt   string `json:"attempt,omitempty"`   // "" in the first attempt, else "1", or "0.1" in nested ones
}

// String returns the run's task id: reference, "#" iteration, "@" attempt.
func (r Run) String() string {
	id := EscapeRef(r.Ref)
	if r.Iteration != "" {
		id += "#" + r.Iteration
	}
	if r.Attempt != "" {
		id += "@" + r.Attempt
	}
	return id
}

// EscapeRef escapes a reference for use in a task id: "#" as "~2" and "@" as "~3", in the
// style of JSON pointers.
func EscapeRef(ref string) string {
	return strings.ReplaceAll(strings.ReplaceAll(ref, "#", "~2"), "@", "~3")
}

// ParseRun parses a task id.
func ParseRun(id string) Run {
	var r Run
	id, r.Attempt, _ = strings.Cut(id, "@")
	r.Ref, r.Iteration, _ = strings.Cut(id, "#")
	r.Ref = strings.ReplaceAll(strings.ReplaceAll(r.Ref, "~2", "#"), "~3", "@")
	return r
}

// IdempotencyKey returns a key that is the same for every delivery and attempt of one task
// run, and different for any other run:
// "<tenant>/<execution>/<nonce><reference>/<iteration>". Executions started by an older
// version have no nonce, and their key remains
// "<execution><reference>/<iteration>".
func (r Run) IdempotencyKey(tenant, execution, nonce string) string {
	key := execution
	if nonce != "" {
		key = tenant + "/" + execution + "/" + nonce
	}
	return key + r.Ref + "/" + cmp.Or(r.Iteration, "0")
}

// Started is the data of ExecutionStarted.
type Started struct {
	Namespace  string          `json:"namespace"`
	Name       string          `json:"name"`
	Version    string          `json:"version"`              // "latest" or "": the newest
	Definition string          `json:"definition,omitempty"` // hash of the document, once it is known
	Input      json.RawMessage `json:"input"`
	Parent     string          `json:"parent,omitempty"`      // the execution that waits for this one
	ParentTask string          `json:"parent_task,omitempty"` // the task run of the parent that waits
	Depth      int             `json:"depth,omitempty"`       // nesting depth; 0 for a root
	Nonce      string          `json:"nonce,omitempty"`       // distinguishes executions with the same id, see NewNonce
	Labels     Labels          `json:"labels,omitempty"`
	Reset      *Reset          `json:"reset,omitempty"` // what it was made from, if an operator reset another execution

	// The limits of its history, if they are not the defaults. They are stored so that the history
	// is rebuilt in the same way whatever the reader's settings are.
	History *HistoryLimits `json:"history_limits,omitempty"`
}

// Workflow returns the id of the workflow that is started: "namespace.name".
func (s *Started) Workflow() string { return s.Namespace + "." + s.Name }

// IsWorkflow reports whether a name, with or without its namespace, names the workflow with an id.
func IsWorkflow(id, name string) bool { return id == name || strings.HasSuffix(id, "."+name) }

// Reset says which execution another one was made from, and who made it.
type Reset struct {
	Execution string    `json:"execution"`
	Task      string    `json:"task"` // the run that it continues with
	At        time.Time `json:"at"`
	By        string    `json:"by"`
	Reason    string    `json:"reason,omitempty"`
}

// HistoryLimits bounds the length of a history; 0 means no limit.
type HistoryLimits struct {
	Entries int `json:"entries"`
	Bytes   int `json:"bytes"` // size of the data of its entries
}

// NewNonce derives the nonce of an execution, 16 hexadecimal digits, from parts that are
// unique in combination.
func NewNonce(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return hex.EncodeToString(sum[:8])
}

// WithNonce returns an ExecutionStarted with a nonce in its data. If there is none, it
// derives one from the tenant, execution, id and time, so redeliveries get the same.
func WithNonce(e Event) Event {
	var started struct {
		Nonce string `json:"nonce"`
	}
	if json.Unmarshal(e.Data, &started) != nil || started.Nonce != "" {
		return e
	}
	return withMember(e, "nonce", NewNonce(e.Tenant, e.Execution, e.ID, e.Time.UTC().Format(time.RFC3339Nano)))
}

// WithHistoryLimits returns an ExecutionStarted with history limits in its data.
func WithHistoryLimits(e Event, limits HistoryLimits) Event {
	return withMember(e, "history_limits", limits)
}

// withMember returns an event whose data, an object, has one more member. It is appended,
// so it replaces a member with the same name.
func withMember(e Event, name string, value any) Event {
	body, ok := bytes.CutSuffix(bytes.TrimSpace(e.Data), []byte("}"))
	if !ok {
		return e
	}
	comma := ","
	if bytes.Equal(bytes.TrimSpace(body), []byte("{")) {
		comma = ""
	}
	e.Data = slices.Concat(body, []byte(comma+`"`+name+`":`), Encode(value), []byte("}"))
	return e
}

// Migrated is the data of ExecutionMigrated. The history before it follows from both documents, so
// that the whole history can be rebuilt with the latest one.
type Migrated struct {
	Definition  string `json:"definition"` // hash of the new document
	Version     string `json:"version"`
	From        string `json:"from"` // hash of the previous document
	FromVersion string `json:"from_version"`
	Reason      string `json:"reason,omitempty"`
	By          string `json:"by"` // the operator who requested it
}

// Requested is the data of TaskRequested.
type Requested struct {
	TaskID   string          `json:"task_id"`
	TaskName string          `json:"task_name"`
	TaskType string          `json:"task_type"`
	Input    json.RawMessage `json:"input,omitempty"`
	Config   json.RawMessage `json:"config,omitempty"` // the task as in the document
	Vars     json.RawMessage `json:"vars,omitempty"`   // variables that its expressions use, by name
	Nonce    string          `json:"nonce,omitempty"`  // the execution's nonce; calls only
}

// Completed is the data of TaskCompleted.
type Completed struct {
	TaskID     string          `json:"task_id"`
	TaskName   string          `json:"task_name"`
	TaskType   string          `json:"task_type,omitempty"`
	Success    bool            `json:"success"`
	Status     string          `json:"status,omitempty"` // "skipped", "cancelled" or ""
	Output     json.RawMessage `json:"output,omitempty"`
	Then       string          `json:"then,omitempty"` // directive of a switch
	Error      *Problem        `json:"error,omitempty"`
	DurationMS int64           `json:"duration_ms"`
	Call       *Call           `json:"call,omitempty"` // the last request; absent in data of earlier versions
}

// Milliseconds returns the time from one moment to another, which may be more than the 292 years of a
// time.Duration.
func Milliseconds(from, to time.Time) int64 {
	if d := to.Sub(from); d.Abs() < math.MaxInt64 {
		return d.Milliseconds()
	}
	return to.UnixMilli() - from.UnixMilli()
}

// Call is the last request of a call task, and the status of its response. It contains no secrets.
type Call struct {
	Method string `json:"method"`
	URL    string `json:"url"`
	First  string `json:"redirected_from,omitempty"` // the original URL, if the request was redirected
	Status int    `json:"status,omitempty"`          // 0 if there was no response
}

// String formats the call: "GET https://example.com/a 200".
func (c Call) String() string {
	text := c.Method + " "
	if c.First != "" {
		text += c.First + " → "
	}
	if c.Status == 0 {
		return text + c.URL + " (no response)"
	}
	return text + c.URL + " " + strconv.Itoa(c.Status)
}

// Ended is the data of WorkflowCompleted, WorkflowFailed and WorkflowCancelled, and of an
// operator's requests: ExecutionCancelled, ExecutionSuspended, ExecutionResumed and
// ExecutionRetried.
type Ended struct {
	Output json.RawMessage `json:"output,omitempty"`
	Error  *Problem        `json:"error,omitempty"`
	Reason string          `json:"reason,omitempty"`
	By     string          `json:"by,omitempty"` // the operator who requested it
}

// Dead is the data of the dlq events. Dead letters have its members as fields.
type Dead struct {
	Reason   string          `json:"reason"`
	Attempts int             `json:"attempts"`
	Service  string          `json:"service"`
	Original json.RawMessage `json:"original"` // the event's attributes as an object
}

// Problem returns the workflow error that a dead-lettered message causes.
func (d Dead) Problem() *Problem {
	when := fmt.Sprintf("after %d attempts", d.Attempts)
	if d.Attempts == 1 {
		when = "at the first attempt"
	}
	return NewProblem(Runtime, fmt.Sprintf("the %s gave up %s: %s", d.Service, when, d.Reason))
}

// Timer is a time at which the timer service publishes a TimerFired. Its JSON is a member of the
// sorted set of timers, so the order of the fields is fixed and empty ones are omitted.
type Timer struct {
	Tenant     string    `json:"tenant_id"`
	Workflow   string    `json:"workflow_id,omitempty"`
	Execution  string    `json:"execution_id,omitempty"`
	TaskID     string    `json:"task_id,omitempty"`
	TaskName   string    `json:"task_name,omitempty"`
	FireAt     time.Time `json:"fire_at"`
	DurationMS int64     `json:"duration_ms,omitempty"`
	Kind       TimerKind `json:"kind,omitempty"`
	Key        string    `json:"key,omitempty"`

	// Of a DeliveryTimer: the event to deliver again, with the number of its attempts.
	Event json.RawMessage `json:"event,omitempty"`
	// Of an InputTimer: the event for its execution, see EncodeInput. Of a StartTimer: the
	// ExecutionStarted.
	Input json.RawMessage `json:"input,omitempty"`
	// Of an InputTimer: what happens if no task consumes the event, see ParseRejection.
	OnReject string `json:"on_reject,omitempty"`
	// Of an InputTimer that no task has consumed yet: how long it is kept for one.
	ParkedUntil time.Time `json:"parked_until,omitzero"`

	// The new due time of a timer that an operator moved. The execution that set the timer still
	// identifies it by FireAt.
	MovedTo time.Time `json:"moved_to,omitzero"`
}

// Due returns the time at which the timer fires.
func (t Timer) Due() time.Time {
	switch {
	case !t.MovedTo.IsZero():
		return t.MovedTo
	case !t.ParkedUntil.IsZero():
		return t.ParkedUntil
	default:
		return t.FireAt
	}
}

// Same reports whether two timers of an execution are the same one, which an operator may have moved.
func (t Timer) Same(other Timer) bool {
	return t.TaskID == other.TaskID && t.Kind == other.Kind && t.Key == other.Key && t.FireAt.Equal(other.FireAt)
}

// Keyed reports whether the timer replaces an earlier one with the same key. Timers that the
// engine sets for itself do not.
func (t Timer) Keyed() bool {
	return t.Key != "" && t.Kind != TimeoutTimer && t.Kind != RetryTimer && t.Kind != DeliveryTimer
}

// TimerKind is the purpose of a timer.
type TimerKind string

// The kinds of timers. A timer without a kind is a wait.
const (
	WaitTimer     TimerKind = "wait"
	TimeoutTimer  TimerKind = "timeout"
	RetryTimer    TimerKind = "retry"
	DeliveryTimer TimerKind = "delivery"
	InputTimer    TimerKind = "input" // delivers an event to one execution
	StartTimer    TimerKind = "start" // starts an execution
)

// Fired is the data of TimerFired.
type Fired struct {
	Timer
	ScheduledFor time.Time `json:"scheduled_for"`
	FiredAt      time.Time `json:"fired_at"`
	By           string    `json:"by,omitempty"` // the operator who fired it
}

// TimerChange is the data of TimerScheduled and TimerCancelled in a history if an operator
// moved, restored or cancelled the timer.
type TimerChange struct {
	Timer
	By string `json:"by"`
}

// Restored is the data of ExecutionRestored.
type Restored struct {
	Listen   []string `json:"listen"` // event types that it is subscribed to again
	By       string   `json:"by"`
	Requests []string `json:"requests,omitempty"` // tasks whose lost requests were sent again
}

// Encode returns the JSON of an event's data. It panics if the data cannot be encoded,
// which is a bug.
func Encode(data any) []byte {
	out, err := json.Marshal(data)
	if err != nil {
		panic(fmt.Sprintf("event: encode %T: %v", data, err))
	}
	return out
}
