package event

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Run names one run of one task within an execution: the task's reference, the
// iteration of the loops (and laps of jumps back) around it, and the attempt of
// the retries around it.
type Run struct {
	Ref       string `json:"ref"`                 // JSON pointer, "/do/0/name"
	Iteration string `json:"iteration,omitempty"` // "" outside of loops, else "2", or "2.0" in nested ones
	Attempt   string `json:"attempt,omitempty"`   // "" in the first attempt, else "1", or "0.1" in nested ones
}

// String is the run's task id: reference, "#" iteration, "@" attempt.
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

// EscapeRef writes a reference as part of a task id: "#" as "~2" and "@" as
// "~3", after the manner of JSON pointers.
func EscapeRef(ref string) string {
	if !strings.ContainsAny(ref, "#@") {
		return ref
	}
	return strings.NewReplacer("#", "~2", "@", "~3").Replace(ref)
}

// ParseRun reads a task id.
func ParseRun(id string) Run {
	var r Run
	id, r.Attempt, _ = strings.Cut(id, "@")
	r.Ref, r.Iteration, _ = strings.Cut(id, "#")
	if strings.Contains(r.Ref, "~") {
		r.Ref = strings.NewReplacer("~2", "#", "~3", "@").Replace(r.Ref)
	}
	return r
}

// IdempotencyKey is the same for every delivery and attempt of one run of a task, and
// differs for every other: "<tenant>/<execution>/<nonce><reference>/<iteration>".
// Without a nonce, as in executions that an older version started, it is
// "<execution><reference>/<iteration>", which it was when they began.
func (r Run) IdempotencyKey(tenant, execution, nonce string) string {
	iteration := r.Iteration
	if iteration == "" {
		iteration = "0"
	}
	key := execution
	if nonce != "" {
		key = tenant + "/" + execution + "/" + nonce
	}
	return key + r.Ref + "/" + iteration
}

// Started is the data of ExecutionStarted.
type Started struct {
	Namespace  string          `json:"namespace"`
	Name       string          `json:"name"`
	Version    string          `json:"version"`              // "latest" or "" for the newest
	Definition string          `json:"definition,omitempty"` // hash of the document, once it is known
	Input      json.RawMessage `json:"input"`
	Parent     string          `json:"parent,omitempty"`      // execution that waits for this one …
	ParentTask string          `json:"parent_task,omitempty"` // … and the run of its task
	Depth      int             `json:"depth,omitempty"`       // of nested executions
	Nonce      string          `json:"nonce,omitempty"`       // distinguishes the execution from others of the same id, see NewNonce

	// The limits of its history, where they are not the defaults of decide.Limits: what
	// follows from a history must not depend on the settings of who reads it.
	History *HistoryLimits `json:"history_limits,omitempty"`
}

// HistoryLimits is how long a history may become; 0: any length.
type HistoryLimits struct {
	Entries int `json:"entries"`
	Bytes   int `json:"bytes"` // of the data of its entries
}

// NewNonce derives the nonce of an execution from parts that together no other
// execution has: 16 hexadecimal digits.
func NewNonce(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return hex.EncodeToString(sum[:8])
}

// WithNonce returns an ExecutionStarted whose data hold a nonce. One that has none gets
// one derived from its tenant, execution, id and time, which redeliveries have in common.
func WithNonce(e Event) Event {
	started, ok := ScanStarted(e.Data)
	if !ok && json.Unmarshal(e.Data, &started) != nil || started.Nonce != "" {
		return e
	}
	return withMember(e, "nonce", NewNonce(e.Tenant, e.Execution, e.ID, e.Time.UTC().Format(time.RFC3339Nano)))
}

// WithHistoryLimits returns an ExecutionStarted whose data hold the limits of the history.
func WithHistoryLimits(e Event, limits HistoryLimits) Event {
	return withMember(e, "history_limits", limits)
}

// withMember returns an event whose data, an object, have one more member. Of two of
// that name the last one counts.
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

// Migrated is the data of ExecutionMigrated. The history before it follows from either
// document, so that all of it can be rebuilt with the one that came last.
type Migrated struct {
	Definition  string `json:"definition"` // hash of the document that the execution goes on with
	Version     string `json:"version"`
	From        string `json:"from"` // hash of the document before
	FromVersion string `json:"from_version"`
	Reason      string `json:"reason,omitempty"`
	By          string `json:"by"` // the operator who asked for it
}

// Requested is the data of TaskRequested.
type Requested struct {
	TaskID   string          `json:"task_id"`
	TaskName string          `json:"task_name"`
	TaskType string          `json:"task_type"`
	Input    json.RawMessage `json:"input,omitempty"`
	Config   json.RawMessage `json:"config,omitempty"` // the task as the document has it
	Vars     json.RawMessage `json:"vars,omitempty"`   // variables that its expressions use, by name
	Nonce    string          `json:"nonce,omitempty"`  // of the execution; calls only
}

// Completed is the data of TaskCompleted.
type Completed struct {
	TaskID     string          `json:"task_id"`
	TaskName   string          `json:"task_name"`
	TaskType   string          `json:"task_type,omitempty"`
	Success    bool            `json:"success"`
	Status     string          `json:"status,omitempty"` // "skipped" or "cancelled", else empty
	Output     json.RawMessage `json:"output,omitempty"`
	Then       string          `json:"then,omitempty"` // a switch: where to go on
	Error      *Problem        `json:"error,omitempty"`
	DurationMS int64           `json:"duration_ms"`
	Call       *Call           `json:"call,omitempty"` // that was made; earlier versions do not say
}

// Call is the request that a call task has made last, and the status of its answer.
// Nothing in it is secret.
type Call struct {
	Method string `json:"method"`
	URL    string `json:"url"`
	First  string `json:"redirected_from,omitempty"` // the URL that was asked first, if it was another one
	Status int    `json:"status,omitempty"`          // 0: no answer came
}

// String is the call in a few words: "GET https://example.com/a 200".
func (c Call) String() string {
	text := c.Method + " "
	if c.First != "" {
		text += c.First + " → "
	}
	if c.Status == 0 {
		return text + c.URL + " (no answer)"
	}
	return text + c.URL + " " + strconv.Itoa(c.Status)
}

// Ended is the data of WorkflowCompleted, WorkflowFailed and WorkflowCancelled, and of
// what operators ask of executions: ExecutionCancelled, ExecutionSuspended,
// ExecutionResumed and ExecutionRetried.
type Ended struct {
	Output     json.RawMessage `json:"output,omitempty"`
	Error      *Problem        `json:"error,omitempty"`
	Reason     string          `json:"reason,omitempty"`
	By         string          `json:"by,omitempty"` // the operator who asked for it
	ParentTask string          `json:"parent_task,omitempty"`
}

// Dead is the data of the dlq events and, as fields, of dead letters.
type Dead struct {
	Reason   string          `json:"reason"`
	Attempts int             `json:"attempts"`
	Service  string          `json:"service"`
	Original json.RawMessage `json:"original"` // the event's attributes as an object
}

// Problem is what a delivery that was given up means to the workflow.
func (d Dead) Problem() *Problem {
	when := fmt.Sprintf("after %d attempts", d.Attempts)
	if d.Attempts == 1 {
		when = "at the first attempt"
	}
	return NewProblem(Runtime, fmt.Sprintf("the %s gave up %s: %s", d.Service, when, d.Reason))
}

// Timer is a moment at which the timer service publishes TimerFired, in the
// form of its ZSET member: this order, empty members left out.
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

	// Of a delivery: the event to deliver again, and how often it was tried.
	Event json.RawMessage `json:"event,omitempty"`

	// Of a timer that somebody has moved: when it is due instead. To those who
	// set it, it is still the one of FireAt.
	MovedTo time.Time `json:"moved_to,omitzero"`
}

// Due is the moment at which the timer fires.
func (t Timer) Due() time.Time {
	if t.MovedTo.IsZero() {
		return t.FireAt
	}
	return t.MovedTo
}

// Keyed reports whether a timer replaces an earlier one of its key: those that
// the engine sets for itself do not.
func (t Timer) Keyed() bool {
	return t.Key != "" && t.Kind != TimeoutTimer && t.Kind != RetryTimer && t.Kind != DeliveryTimer
}

// TimerKind says what a timer is for.
type TimerKind string

// The kinds of timers. One without a kind is a wait, as flunq.io's are.
const (
	WaitTimer     TimerKind = "wait"
	TimeoutTimer  TimerKind = "timeout"
	RetryTimer    TimerKind = "retry"
	DeliveryTimer TimerKind = "delivery"
)

// Fired is the data of TimerFired.
type Fired struct {
	Timer
	ScheduledFor time.Time `json:"scheduled_for"`
	FiredAt      time.Time `json:"fired_at"`
	By           string    `json:"by,omitempty"` // the operator who fired it
}

// TimerChange is the data of TimerScheduled and TimerCancelled in a history where an
// operator has moved a timer, set it again or cancelled it.
type TimerChange struct {
	Timer
	By string `json:"by"`
}

// Restored is the data of ExecutionRestored.
type Restored struct {
	Listen   []string `json:"listen"` // the types of events that it listens for again
	By       string   `json:"by"`
	Requests []string `json:"requests,omitempty"` // tasks whose lost requests were sent again
}

// Encode is the JSON of an event's data, which cannot fail to have one.
func Encode(data any) []byte {
	out, err := json.Marshal(data)
	if err != nil {
		panic(fmt.Sprintf("event: encode %T: %v", data, err))
	}
	return out
}
