package decide

import (
	"bytes"
	"encoding/json"
	"time"

	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/expr"
)

// Status is the phase of an execution, in the specification's words.
type Status string

// The phases of an execution.
const (
	Pending   Status = "pending"
	Running   Status = "running"
	Waiting   Status = "waiting"
	Suspended Status = "suspended"
	Cancelled Status = "cancelled"
	Faulted   Status = "faulted"
	Completed Status = "completed"
)

// Ended reports whether nothing can happen any more.
func (s Status) Ended() bool { return s == Cancelled || s == Faulted || s == Completed }

// Data is a JSON value within a State. It is shared, and never changed in place.
type Data struct{ V any }

// MarshalJSON writes the value.
func (d Data) MarshalJSON() ([]byte, error) { return expr.Encode(d.V), nil }

// UnmarshalJSON reads the value.
func (d *Data) UnmarshalJSON(src []byte) (err error) {
	d.V, err = expr.Decode(src)
	return err
}

// State is where an execution stands. It follows from its history alone: Rebuild
// gives the same. Its JSON form is what Redis keeps as a snapshot: another form is
// another number in snapshotHead.
type State struct {
	Tenant     string               `json:"tenant"`
	Workflow   string               `json:"workflow"`
	Execution  string               `json:"execution"`
	Version    int64                `json:"version"`         // entries in the history
	Bytes      int                  `json:"bytes,omitempty"` // of their data
	Status     Status               `json:"status"`
	Now        time.Time            `json:"now"` // of the last event
	StartedAt  time.Time            `json:"started_at"`
	Input      Data                 `json:"input,omitzero"` // as it came
	Context    Data                 `json:"context,omitzero"`
	Root       *Node                `json:"root,omitempty"`
	Tasks      int                  `json:"tasks"`    // started so far
	Children   int                  `json:"children"` // executions started so far
	Parent     string               `json:"parent,omitempty"`
	ParentTask string               `json:"parent_task,omitempty"`
	Depth      int                  `json:"depth,omitempty"`
	Nonce      string               `json:"nonce,omitempty"`          // in the idempotency keys of its calls
	History    *event.HistoryLimits `json:"history_limits,omitempty"` // nil: the defaults

	Keys            map[string]Data     `json:"keys,omitempty"`             // values of correlation keys
	Seen            []string            `json:"seen,omitempty"`             // the last events consumed from outside
	Timeout         *event.Timer        `json:"timeout,omitempty"`          // of the whole execution
	CancelledTimers []event.TimerChange `json:"cancelled_timers,omitempty"` // those it waits for that an operator has cancelled

	Paused   bool          `json:"suspended,omitempty"` // suspended: nothing begins
	Deferred []event.Event `json:"deferred,omitempty"`  // what came meanwhile, in order
	Faulted  *FaultPoint   `json:"faulted,omitempty"`   // once faulted: where it goes on if it is retried
	Retried  int           `json:"retried,omitempty"`   // how often it was

	Output Data           `json:"output,omitzero"` // once completed
	Error  *event.Problem `json:"error,omitempty"` // once faulted

	open     map[string]*Node // active tasks by task id
	inline   []*Node          // to be computed, in order
	expected []event.Event    // by the last decision of a replay, not compared yet
	reused   *machine         // between transitions
}

// Node is an active task: one that has begun and not ended.
type Node struct {
	Run           event.Run     `json:"run"`
	StartedAt     time.Time     `json:"started_at"`
	Raw           Data          `json:"raw,omitzero"`   // input as it came
	Input         Data          `json:"input,omitzero"` // input after input.from
	Timers        []event.Timer `json:"timers,omitempty"`
	Children      []*Node       `json:"children,omitempty"`
	Vars          bindings      `json:"variables,omitempty"`      // bound for the tasks inside
	OwnContext    *ContextValue `json:"own_context,omitempty"`    // $context of a branch of a fork
	ContextBefore *ContextValue `json:"context_before,omitempty"` // $context as the task found it, once it has changed

	At           int `json:"at,omitempty"`            // index of the current task in a list, of the branch in a fork
	Visit        int `json:"visit,omitempty"`         // jumps back in a list
	SkippedLists int `json:"skipped_lists,omitempty"` // lists without laps above, see Run
	SkippedTries int `json:"skipped_tries,omitempty"` // tries without retries above, see Run

	For    *forState    `json:"for,omitempty"`
	Fork   *forkState   `json:"fork,omitempty"`
	Try    *tryState    `json:"try,omitempty"`
	Listen *listenState `json:"listen,omitempty"`
	Child  string       `json:"child,omitempty"`  // execution that a run task waits for
	Inline bool         `json:"inline,omitempty"` // to be computed by the worker itself

	// The history has the task's own result, and whether it was a failure.
	reported, failed bool

	closed bool
	task   *dsl.Task
	parent *Node
	id     string // Run as text
	cause  *Node  // the task inside that it failed of, nil if the problem was its own
}

// ContextValue is a $context where there may be none: null is one, too.
type ContextValue struct {
	Context Data `json:"context"`
}

// Restore reads a Snapshot of an execution of env's definition. Of none, and of one in
// another format, it is the state before the history, Version 0, from which Replay
// rebuilds it.
func Restore(env *Env, snapshot []byte) (*State, error) {
	if !bytes.HasPrefix(snapshot, []byte(snapshotHead)) {
		return New(), nil
	}
	s := new(State)
	dec := json.NewDecoder(bytes.NewReader(snapshot))
	dec.UseNumber()
	if err := dec.Decode(s); err != nil {
		return nil, err
	}
	s.open = map[string]*Node{}
	if s.Root != nil {
		s.Root.task = env.root
		for _, child := range s.Root.Children {
			s.adopt(env, s.Root, child)
		}
	}
	if s.Faulted != nil {
		s.Faulted.Root.task = env.root
		for _, n := range s.Faulted.Chain {
			n.task, n.id = env.def.Task(n.Run.Ref), n.Run.String()
		}
	}
	return s, nil
}

// adopt ties a restored node to its task and parent.
func (s *State) adopt(env *Env, parent, n *Node) {
	n.parent = parent
	n.task = env.def.Task(n.Run.Ref)
	n.id = n.Run.String()
	s.open[n.id] = n
	if n.Inline {
		s.inline = append(s.inline, n)
	}
	for _, child := range n.Children {
		s.adopt(env, n, child)
	}
}

// Open are the active tasks, outermost first.
func (s *State) Open() []*Node {
	var out []*Node
	var walk func(*Node)
	walk = func(n *Node) {
		for _, child := range n.Children {
			out = append(out, child)
			walk(child)
		}
	}
	if s.Root != nil {
		walk(s.Root)
	}
	return out
}

// Task is what the node runs.
func (n *Node) Task() *dsl.Task { return n.task }

// Awaits says what an execution waits for, a line for each task that waits.
func (s *State) Awaits() []string {
	var out []string
	if s.Paused {
		out = append(out, "the execution is suspended, and goes on when it is resumed")
	}
	for _, n := range s.Open() {
		switch {
		case n.Listen != nil && !n.Listen.Stopped:
			out = append(out, n.id+" listens for "+wanted(n.task.Listen.To))
		case n.Child != "":
			out = append(out, n.id+" runs execution "+n.Child)
		case len(n.Timers) == 0 && n.requestable():
			out = append(out, n.id+" is being performed")
		}
	}
	return out
}
