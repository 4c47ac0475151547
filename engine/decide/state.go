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
// gives the same. Its JSON form is what Redis keeps as a snapshot.
type State struct {
	Tenant     string
	Workflow   string
	Execution  string
	Version    int64 // entries in the history
	Status     Status
	Now        time.Time // of the last event
	StartedAt  time.Time
	Input      Data   `json:",omitzero"` // as it came
	Context    Data   `json:",omitzero"`
	Root       *Node  `json:",omitempty"`
	Tasks      int    // started so far
	Children   int    // executions started so far
	Parent     string `json:",omitempty"`
	ParentTask string `json:",omitempty"`
	Depth      int    `json:",omitempty"`
	Nonce      string `json:",omitempty"` // in the idempotency keys of its calls

	Keys    map[string]Data     `json:",omitempty"` // values of correlation keys
	Seen    []string            `json:",omitempty"` // the last events consumed from outside
	Timeout *event.Timer        `json:",omitempty"` // of the whole execution
	Unset   []event.TimerChange `json:",omitempty"` // those it waits for that an operator has cancelled

	Paused bool          `json:",omitempty"` // suspended: nothing begins
	Held   []event.Event `json:",omitempty"` // what came meanwhile, in order
	Fallen *Fallen       `json:",omitempty"` // once faulted: where it goes on if it is retried
	Again  int           `json:",omitempty"` // how often it was

	Output Data           `json:",omitzero"`  // once completed
	Error  *event.Problem `json:",omitempty"` // once faulted

	open   map[string]*Node // active tasks by task id
	inline []*Node          // to be computed, in order
	made   []event.Event    // by the last decision of a replay, not compared yet
	idle   *machine         // between transitions
}

// Node is an active task: one that has begun and not ended.
type Node struct {
	Run       event.Run
	StartedAt time.Time
	Raw       Data          `json:",omitzero"` // input as it came
	Input     Data          `json:",omitzero"` // input after input.from
	Timers    []event.Timer `json:",omitempty"`
	Children  []*Node       `json:",omitempty"`
	Vars      bindings      `json:",omitempty"` // bound for the tasks inside
	Own       *Scoped       `json:",omitempty"` // $context of a branch of a fork
	Before    *Scoped       `json:",omitempty"` // $context as the task found it, once it has changed

	At    int `json:",omitempty"` // index of the current task in a list, of the branch in a fork
	Lap   int `json:",omitempty"` // jumps back in a list
	Gap   int `json:",omitempty"` // lists without laps above, see Run
	Spare int `json:",omitempty"` // tries without retries above, see Run

	For    *forState    `json:",omitempty"`
	Fork   *forkState   `json:",omitempty"`
	Try    *tryState    `json:",omitempty"`
	Listen *listenState `json:",omitempty"`
	Child  string       `json:",omitempty"` // execution that a run task waits for
	Inline bool         `json:",omitempty"` // to be computed by the worker itself

	// The history has the task's own result, and whether it was a failure.
	reported, failed bool

	closed bool
	task   *dsl.Task
	parent *Node
	id     string // Run as text
	cause  *Node  // the task inside that it failed of, nil if the problem was its own
}

// Scoped is a $context where there may be none: null is one, too.
type Scoped struct{ Context Data }

// Restore reads a Snapshot of an execution of env's definition.
func Restore(env *Env, snapshot []byte) (*State, error) {
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
	if s.Fallen != nil {
		s.Fallen.Root.task = env.root
		for _, n := range s.Fallen.Chain {
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
		case n.Listen != nil && !n.Listen.Deaf:
			out = append(out, n.id+" listens for "+wanted(n.task.Listen.To))
		case n.Child != "":
			out = append(out, n.id+" runs execution "+n.Child)
		case len(n.Timers) == 0 && n.requestable():
			out = append(out, n.id+" is being performed")
		}
	}
	return out
}
