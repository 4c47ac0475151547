package dsl

import (
	"iter"

	"flunq.io/flunq/engine/expr"
	"flunq.io/flunq/engine/schema"
)

// Pos is a place in a document; both counts begin at 1.
type Pos struct{ Line, Column int }

// Definition is a checked workflow document.
type Definition struct {
	Document Document
	Input    Input
	Use      Use
	Do       TaskList
	Timeout  *expr.Value // a duration, the reference to use.timeouts resolved
	Output   Output
	Schedule *expr.Value // validated, not executed yet; nil where the document has none
	Loose    bool        // evaluate.mode is loose

	Extensions  bool          // use.extensions is not empty: running would leave them out
	Unsupported []Unsupported // of the document itself; that of tasks is in Task.Unsupported
	CannotRun   []Warning     // where it has constructs that are not carried out, those of tasks too
	Secrets     []SecretUse   // that it names, in use.secrets, in authentications and expressions

	Source []byte // the document's text
	Raw    any    // the document as data, for $workflow.definition
	tasks  map[string]*Task
	refs   []string // of tasks, in the order of the document
}

// SecretUse is where a document first names a secret.
type SecretUse struct {
	Pos
	Name string
}

// Unsupported is a construct that validates but is not carried out yet.
type Unsupported struct {
	Construct string // such as "schema: resource"
	Ref       string // JSON pointer into the document
}

// ID is the workflow's name with its namespace: "shop.order".
func (d *Definition) ID() string { return d.Document.Namespace + "." + d.Document.Name }

// Task finds a task by its reference (a JSON pointer such as /do/0/first), or nil.
func (d *Definition) Task(ref string) *Task { return d.tasks[ref] }

// Tasks are all tasks of the document by their references, in its order.
func (d *Definition) Tasks() iter.Seq2[string, *Task] {
	return func(yield func(string, *Task) bool) {
		for _, ref := range d.refs {
			if !yield(ref, d.tasks[ref]) {
				return
			}
		}
	}
}

// Size is how many tasks the document has.
func (d *Definition) Size() int { return len(d.refs) }

// Document identifies a workflow.
type Document struct {
	DSL, Namespace, Name, Version string
	Title, Summary                string
}

// Input says how input is checked and filtered. Nil members were not written.
type Input struct {
	Schema *schema.Schema
	From   *expr.Value
}

// Output says how output is filtered and checked.
type Output struct {
	As     *expr.Value
	Schema *schema.Schema
}

// Export says how a task updates $context.
type Export struct {
	As     *expr.Value
	Schema *schema.Schema
}

// Use holds the named components that tasks refer to at run time.
// References to errors, retries, timeouts and authentications are resolved by Parse.
type Use struct {
	Functions map[string]*Task
	Secrets   []string
}

// TaskList is a list of tasks that run one after the other.
type TaskList []*Task

// Find gives the index of the task called name, or -1.
func (l TaskList) Find(name string) int {
	for i, t := range l {
		if t.Name == name {
			return i
		}
	}
	return -1
}

// Kind names what a task does, as the document and the events' task_type spell it.
type Kind string

// The kinds of tasks. A call's kind is its protocol's construct: "call http" and so on.
const (
	Call   Kind = "call"
	Do     Kind = "do"
	Emit   Kind = "emit"
	For    Kind = "for"
	Fork   Kind = "fork"
	Inject Kind = "inject"
	Listen Kind = "listen"
	Raise  Kind = "raise"
	Run    Kind = "run"
	Set    Kind = "set"
	Switch Kind = "switch"
	Try    Kind = "try"
	Wait   Kind = "wait"
)

// Flow directives that are not the name of a task.
const (
	Continue = "continue"
	Exit     = "exit"
	End      = "end"
)

// Task is one step of a workflow. Besides the common members, the one named
// like its Kind is set; Do is also the body of For.
type Task struct {
	Name string
	Kind Kind
	Ref  string // JSON pointer into the document, "/do/0/name"
	Pos  Pos    // of its name

	If      *expr.Program
	Input   Input
	Output  Output
	Export  Export
	Timeout *expr.Value // a duration, reference resolved; nil where none
	Then    string      // a flow directive or the name of a task in the same list; "" means continue
	Raw     any         // the task as data, for $task.definition

	Call   *CallTask
	Do     TaskList
	Emit   *expr.Value // the event's attributes, an object
	For    *ForTask
	Fork   *ForkTask
	Inject *expr.Value
	Listen *ListenTask
	Raise  *ErrorTemplate
	Run    *RunTask
	Set    *expr.Value
	Switch []SwitchCase
	Try    *TryTask
	Wait   *expr.Value // a duration: ParseDuration reads what it yields

	// Unsupported names the construct that validates but cannot be run yet,
	// such as "call: grpc", or is empty.
	Unsupported string
}

// CallTask calls a service (http, openapi) or a function of use.functions.
type CallTask struct {
	Protocol string      // "http", "openapi", "grpc" …, or "function"
	Function *Task       // of a call to a function in use.functions
	With     *expr.Value // of a function call and of protocols that cannot run yet
	HTTP     *HTTPCall
	OpenAPI  *OpenAPICall
}

// HTTPCall is the "with" of call: http.
type HTTPCall struct {
	Method   *expr.Value // a string
	Endpoint Endpoint
	Headers  *expr.Value // an object; nil where none, likewise below
	Body     *expr.Value
	Query    *expr.Value
	Output   string // "content", "response" or "raw"
	Redirect bool
}

// OpenAPICall is the "with" of call: openapi.
type OpenAPICall struct {
	Document       Endpoint
	OperationID    *expr.Value
	Parameters     *expr.Value
	Authentication *Authentication
	Output         string
	Redirect       bool
}

// Endpoint is where a resource is found. A URI that is a literal may be a
// template ({name}); one that is an expression is not.
type Endpoint struct {
	URI            *expr.Value
	Authentication *Authentication
}

// Authentication is a resolved policy. For basic and bearer either the values
// or Secret is set. Unsupported names a scheme that cannot be used yet (oauth2, oidc, digest).
type Authentication struct {
	Scheme             string // "basic", "bearer", "digest", "oauth2", "oidc"
	Secret             string // name of the secret that holds the scheme's properties
	Username, Password *expr.Value
	Token              *expr.Value
}

// ForTask is the loop of a for task; the body is Task.Do.
type ForTask struct {
	Each, At string // variable names without $; never empty
	In       *expr.Value
	While    *expr.Program
}

// ForkTask runs branches side by side.
type ForkTask struct {
	Branches TaskList
	Compete  bool
}

// ListenTask waits for events.
type ListenTask struct {
	To      Consumption
	Read    string // "data", "envelope" or "raw"
	Foreach *Foreach
}

// Consumption says which events are needed. Exactly one of One, Any, All holds:
// Mode says which; Filters has one entry for "one".
type Consumption struct {
	Mode       string // "one", "any", "all"
	Filters    []EventFilter
	Until      *expr.Program // of any: a condition …
	UntilEvent *Consumption  // … or events
}

// EventFilter matches events by their attributes.
type EventFilter struct {
	With      []expr.Field // attribute name → literal, regular expression or expression
	Correlate []Correlation
}

// Correlation ties events to an execution by a value they carry.
type Correlation struct {
	Key    string
	From   *expr.Program // on the event's envelope
	Expect *expr.Value   // nil: the first event sets the value; a bare string that is a jq path is an expression
}

// Foreach handles the events of a listen task one by one.
type Foreach struct {
	Item, At string // variable names; never empty
	Do       TaskList
	Output   Output
	Export   Export
}

// ErrorTemplate is an error to raise, its reference to use.errors resolved. Nil members were not written.
type ErrorTemplate struct {
	Type, Status, Title, Detail, Instance *expr.Value
}

// RunTask runs a process. Only workflows can be run yet.
type RunTask struct {
	Workflow *SubWorkflow
	NoWait   bool   // await: false
	Return   string // "stdout" …
}

// SubWorkflow names the child of a run task.
type SubWorkflow struct {
	Namespace, Name, Version *expr.Value
	Input                    *expr.Value
}

// SwitchCase is one case, in the order of the document. Nil When is the default.
type SwitchCase struct {
	Name string
	When *expr.Program
	Then string
	Pos  Pos
}

// TryTask catches errors of its body.
type TryTask struct {
	Try   TaskList
	Catch Catch
}

// Catch says which errors are caught and what is done about them.
type Catch struct {
	With             map[string]any // static filter: type, status, instance, title, detail; details is folded into detail
	As               string         // variable name; "error" by default
	When, ExceptWhen *expr.Program
	Retry            *RetryPolicy
	Do               TaskList // nil where not written
	Then             string
}

// RetryPolicy says when and how often a failed try is repeated; a reference to use.retries is resolved.
type RetryPolicy struct {
	When, ExceptWhen     *expr.Program
	Delay                *expr.Value // a duration
	Backoff              string      // "constant" (also when none), "linear", "exponential"
	AttemptCount         int         // retries allowed; 0 means no limit
	AttemptDuration      *expr.Value // of one attempt
	Duration             *expr.Value // of all attempts together
	JitterFrom, JitterTo *expr.Value
}
