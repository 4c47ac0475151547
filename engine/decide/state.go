package decide

import (
	"bytes"
	"cmp"
	"encoding/json"
	"time"

	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/expr"
	"flunq.io/flunq/engine/expr/canonical"
	"flunq.io/flunq/engine/history"
)

// Status is the phase of an execution, named as in the specification.
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

// Ended reports whether the execution is over. A faulted one may still be retried.
func (s Status) Ended() bool { return s == Cancelled || s == Faulted || s == Completed }

// Data is a JSON value in a State. It is shared and must not be modified.
type Data struct{ V any }

// MarshalJSON encodes the value.
func (d Data) MarshalJSON() ([]byte, error) { return canonical.Encode(d.V), nil }

// UnmarshalJSON decodes the value.
func (d *Data) UnmarshalJSON(src []byte) (err error) {
	d.V, err = canonical.Decode(src)
	return err
}

// State is the current state of an execution. It is derived from the history alone: Rebuild
// returns an equal one. Its JSON form is stored in Redis as a snapshot; changing the form
// requires a new number in snapshotHead.
type State struct {
	Tenant     string               `json:"tenant"`
	Workflow   string               `json:"workflow"`
	Execution  string               `json:"execution"`
	Version    int64                `json:"version"`         // number of history entries
	Bytes      int                  `json:"bytes,omitempty"` // total size of their data
	Status     Status               `json:"status"`
	Now        time.Time            `json:"now"` // time of the last event
	StartedAt  time.Time            `json:"started_at"`
	Input      Data                 `json:"input,omitzero"` // as received
	Context    Data                 `json:"context,omitzero"`
	Root       *Node                `json:"root,omitempty"`
	Tasks      int                  `json:"tasks"`    // tasks started so far
	Children   int                  `json:"children"` // child executions started so far
	Parent     string               `json:"parent,omitempty"`
	ParentTask string               `json:"parent_task,omitempty"`
	Depth      int                  `json:"depth,omitempty"`
	Nonce      string               `json:"nonce,omitempty"`          // part of the idempotency keys of its calls
	History    *event.HistoryLimits `json:"history_limits,omitempty"` // nil means the defaults

	Keys            map[string]Data     `json:"keys,omitempty"`             // correlation keys with their values
	Seen            []string            `json:"seen,omitempty"`             // ids of the last events consumed from outside
	Timeout         *event.Timer        `json:"timeout,omitempty"`          // timeout of the whole execution
	CancelledTimers []event.TimerChange `json:"cancelled_timers,omitempty"` // awaited timers that an operator cancelled

	Paused   bool          `json:"suspended,omitempty"` // while suspended, no task starts
	Deferred []event.Event `json:"deferred,omitempty"`  // events that arrived while suspended, in order
	Faulted  *FaultPoint   `json:"faulted,omitempty"`   // once faulted: where a retry continues
	Retried  int           `json:"retried,omitempty"`   // number of retries

	Output Data           `json:"output,omitzero"` // set once completed
	Error  *event.Problem `json:"error,omitempty"` // set once faulted

	open     map[string]*Node // active tasks by id
	inline   []*Node          // tasks that Advance has yet to compute, in order
	expected []event.Event    // during a replay: events of the last decision that the history has not confirmed yet
}

// Node is an active task: one that has started and not ended.
type Node struct {
	Run           event.Run       `json:"run"`
	StartedAt     time.Time       `json:"started_at"`
	Raw           Data            `json:"raw,omitzero"`   // input as received
	Input         Data            `json:"input,omitzero"` // input after input.from
	Timers        []event.Timer   `json:"timers,omitempty"`
	Children      []*Node         `json:"children,omitempty"`
	Vars          map[string]Data `json:"variables,omitempty"`      // variables for the tasks inside
	OwnContext    *ContextValue   `json:"own_context,omitempty"`    // own $context of a fork's branch
	ContextBefore *ContextValue   `json:"context_before,omitempty"` // $context before the task first changed it

	At           int `json:"at,omitempty"`            // index of the current task of a list
	Visit        int `json:"visit,omitempty"`         // number of jumps back in the list
	SkippedLists int `json:"skipped_lists,omitempty"` // enclosing lists without such jumps, see setRun
	SkippedTries int `json:"skipped_tries,omitempty"` // enclosing tries without retries, see setRun

	For    *forState    `json:"for,omitempty"`
	Fork   *forkState   `json:"fork,omitempty"`
	Try    *tryState    `json:"try,omitempty"`
	Listen *listenState `json:"listen,omitempty"`
	Child  string       `json:"child,omitempty"`  // child execution that a run task waits for
	Inline bool         `json:"inline,omitempty"` // the worker computes the task itself, in Advance

	// The history already has the task's own result, which was a failure if failed is set.
	reported, failed bool

	closed bool
	task   *dsl.Task
	parent *Node
	id     string // Run.String()
	cause  *Node  // the inner task whose failure this one propagates; nil if the problem is its own
}

// ContextValue holds a $context. A nil pointer means that there is none, as opposed to a
// $context of null.
type ContextValue struct {
	Context Data `json:"context"`
}

// Restore decodes a Snapshot of an execution of env's definition. For an empty snapshot,
// or one in another format, it returns a state at Version 0, from which Replay rebuilds
// the execution.
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

// adopt links a restored node to its task and parent.
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

// Open returns the active tasks, each before those inside it.
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

// Task returns the definition of the task that the node runs.
func (n *Node) Task() *dsl.Task { return n.task }

// Awaits describes what the execution waits for, one line for each waiting task. requests says by
// task id what is known of requests that executors have not answered.
func (s *State) Awaits(requests map[string]string) []string {
	var out []string
	if s.Paused {
		out = append(out, "the execution is suspended until it is resumed")
	}
	for _, n := range s.Open() {
		switch {
		case n.Listen != nil && !n.Listen.Stopped:
			out = append(out, history.Task(n.id)+" listens for "+wanted(n.task.Listen.To))
		case n.Child != "":
			out = append(out, history.Task(n.id)+" runs execution "+n.Child)
		case n.requested():
			out = append(out, history.Task(n.id)+" "+cmp.Or(requests[n.id], "has no result yet"))
		case len(n.Timers) == 0 && n.requestable():
			out = append(out, history.Task(n.id)+" is being performed")
		}
	}
	return out
}

// ScopeOf returns the scope of the expressions of an active task, or nil if the task is not
// active.
func (s *State) ScopeOf(env *Env, taskID string) *expr.Scope {
	n := s.open[taskID]
	if n == nil {
		return nil
	}
	ev := &evaluator{s, env}
	return ev.scope(n, n.Input.V)
}

// Expects reports whether an event can affect the execution in its current state. An event
// about a task that is not active cannot, unless the state is out of date.
func (s *State) Expects(e event.Event) bool {
	if e.Type != event.TaskCompleted && e.Type != event.TimerFired || e.Task == "" {
		return true
	}
	return s.open[e.Task] != nil
}
