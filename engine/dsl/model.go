package dsl

import (
	"iter"
	"slices"
	"strings"

	"flunq.io/flunq/engine/expr"
	"flunq.io/flunq/engine/schema"
	"flunq.io/flunq/engine/yaml"
)

// Definition is a validated workflow document. It must not be modified.
type Definition struct {
	Document Document
	Input    Input
	Use      Use
	Do       TaskList
	Timeout  *expr.Value // a duration, with a reference to use.timeouts resolved
	Output   Output

	Unsupported []Unsupported  // constructs of the document itself; a task's is in Task.Unsupported
	CannotRun   []yaml.Warning // positions of all unsupported constructs, including those of tasks
	Secrets     []SecretUse    // secrets named in use.secrets, authentications and expressions

	Source []byte // the document as written
	Raw    any    // the document as data, for $workflow.definition
	tasks  map[string]*Task
	refs   []string // references of the tasks, in document order
}

// SecretUse is the first use of a secret in a document.
type SecretUse struct {
	yaml.Pos
	Name string
}

// Unsupported is a construct that is valid, but cannot be run yet.
type Unsupported struct {
	Construct string // such as "schema: resource"
	Ref       string // JSON pointer into the document
}

// ID returns the workflow's namespace and name: "shop.order".
func (d *Definition) ID() string { return d.Document.Namespace + "." + d.Document.Name }

// Task returns the task with a reference (a JSON pointer such as /do/0/first), or nil.
func (d *Definition) Task(ref string) *Task { return d.tasks[ref] }

// Tasks yields all tasks of the document with their references, in document order.
func (d *Definition) Tasks() iter.Seq2[string, *Task] {
	return func(yield func(string, *Task) bool) {
		for _, ref := range d.refs {
			if !yield(ref, d.tasks[ref]) {
				return
			}
		}
	}
}

// Timed reports whether a timeout ends the task at ref: its own, that of its function, of a task or
// of the attempts of a try around it, or that of the workflow.
func (d *Definition) Timed(ref string) bool {
	if t := d.tasks[ref]; d.Timeout != nil || t.Timeout != nil ||
		t.Kind == Call && t.Call.Function != nil && t.Call.Function.Timeout != nil {
		return true
	}
	for above, t := range d.Tasks() {
		if t.Timeout != nil && strings.HasPrefix(ref, above+"/") {
			return true
		}
		if t.Kind == Try && t.Try.Catch.Retry.Timed() && strings.HasPrefix(ref, above+"/try/") {
			return true
		}
	}
	return false
}

// Competes reports whether another branch of a fork around the task at ref may end first, and so
// cancel the task.
func (d *Definition) Competes(ref string) bool {
	for above, t := range d.Tasks() {
		if t.Kind == Fork && t.Fork.Compete && len(t.Fork.Branches) > 1 && strings.HasPrefix(ref, above+"/") {
			return true
		}
	}
	return false
}

// Document identifies a workflow.
type Document struct {
	DSL, Namespace, Name, Version string
	Tags                          map[string]string // only tags that are strings, numbers or booleans
}

// Input describes how input is validated and transformed. Fields that are absent from the document
// are nil.
type Input struct {
	Schema *schema.Schema
	From   *expr.Value
}

// Output describes how output is transformed and validated.
type Output struct {
	As     *expr.Value
	Schema *schema.Schema
}

// Export describes how a task updates $context.
type Export struct {
	As     *expr.Value
	Schema *schema.Schema
}

// Use holds the named components that tasks refer to at run time. Parse resolves
// references to errors, retries, timeouts and authentications.
type Use struct {
	Functions map[string]*Task
	Secrets   []string
}

// TaskList is a list of tasks that run in sequence.
type TaskList []*Task

// Find returns the index of the task with a name, or -1.
func (l TaskList) Find(name string) int {
	return slices.IndexFunc(l, func(t *Task) bool { return t.Name == name })
}

// Kind is the type of a task, as spelled in documents and in the events' task_type.
type Kind string

// The kinds of tasks.
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

// Flow directives, which are not names of tasks.
const (
	Continue = "continue"
	Exit     = "exit"
	End      = "end"
)

// Task is one step of a workflow. In addition to the common fields, the field named after its Kind
// is set; Do is also the body of For.
type Task struct {
	Name string
	Kind Kind
	Ref  string   // JSON pointer into the document, "/do/0/name"
	Pos  yaml.Pos // position of its name

	If      *expr.Program
	Input   Input
	Output  Output
	Export  Export
	Timeout *expr.Value // a duration, with a reference resolved; nil if absent
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
	Wait   *expr.Value // a duration: ParseDuration parses its value

	// Unsupported names a valid construct that cannot be run yet, such as "call: grpc"; "" if
	// there is none.
	Unsupported string
}

// Lists returns the lists of tasks inside the task; some may be empty.
func (t *Task) Lists() []TaskList {
	out := []TaskList{t.Do}
	if t.Fork != nil {
		out = append(out, t.Fork.Branches)
	}
	if t.Try != nil {
		out = append(out, t.Try.Try, t.Try.Catch.Do)
	}
	if t.Listen != nil && t.Listen.Foreach != nil {
		out = append(out, t.Listen.Foreach.Do)
	}
	return out
}

// CallTask calls a service (http, openapi) or a function of use.functions.
type CallTask struct {
	Protocol string      // "http", "openapi", "grpc" …, or "function"
	Function *Task       // for a call of a function in use.functions
	With     *expr.Value // for a function call
	HTTP     *HTTPCall
	OpenAPI  *OpenAPICall
}

// Values returns the data that an executor evaluates to perform the call. It is sent the variables
// that these expressions use. Absent members are nil.
func (c *CallTask) Values() []*expr.Value {
	switch {
	case c.HTTP != nil:
		h := c.HTTP
		return append(h.Endpoint.values(), h.Method, h.Headers, h.Body, h.Query)
	case c.OpenAPI != nil:
		o := c.OpenAPI
		return append(append(o.Document.values(), o.Authentication.values()...), o.OperationID, o.Parameters)
	default:
		return nil
	}
}

// Authentication returns the policy of the call, which $authorization shows, or nil.
func (c *CallTask) Authentication() *Authentication {
	switch {
	case c.HTTP != nil:
		return c.HTTP.Endpoint.Authentication
	case c.OpenAPI != nil:
		return c.OpenAPI.Authentication
	default:
		return nil
	}
}

// HTTPCall is the "with" of call: http.
type HTTPCall struct {
	Method   *expr.Value // a string
	Endpoint Endpoint
	Headers  *expr.Value // an object; nil if absent, as are the members below
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

// Endpoint is the location of a resource. A literal URI may be a template ({name}).
type Endpoint struct {
	URI            *expr.Value
	Authentication *Authentication
}

func (e Endpoint) values() []*expr.Value { return append(e.Authentication.values(), e.URI) }

// Authentication is a resolved policy. For basic and bearer, either the values or Secret is set.
// Calls with any other scheme cannot be run yet.
type Authentication struct {
	Scheme             string // "basic", "bearer", "digest", "oauth2", "oidc"
	Secret             string // name of the secret that holds the scheme's properties
	Username, Password *expr.Value
	Token              *expr.Value
}

func (a *Authentication) values() []*expr.Value {
	if a == nil {
		return nil
	}
	return []*expr.Value{a.Username, a.Password, a.Token}
}

// ForTask is the loop of a for task; the body is Task.Do.
type ForTask struct {
	Each, At string // variable names without $; never empty
	In       *expr.Value
	While    *expr.Program
}

// ForkTask runs branches concurrently.
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

// Consumption describes which events are needed. Mode selects one, any or all of the
// Filters; for "one" there is a single filter.
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

// Correlation assigns events to an execution by a value that they carry.
type Correlation struct {
	Key    string
	From   *expr.Program // evaluated on the event's envelope
	Expect *expr.Value   // if nil, the first event sets the value; a bare string that is a jq path is an expression
}

// Foreach handles the events of a listen task one by one.
type Foreach struct {
	Item, At string // variable names; never empty
	Do       TaskList
	Output   Output
	Export   Export
}

// ErrorTemplate is an error to raise, with references to use.errors resolved. Fields that are
// absent from the document are nil.
type ErrorTemplate struct {
	Type, Status, Title, Detail, Instance *expr.Value
}

// RunTask runs a process. Only workflows can be run yet.
type RunTask struct {
	Workflow *SubWorkflow
	NoWait   bool // await: false
}

// SubWorkflow names the child of a run task.
type SubWorkflow struct {
	Namespace, Name, Version *expr.Value
	Input                    *expr.Value
}

// SwitchCase is one case, in document order. The default case has a nil When.
type SwitchCase struct {
	Name string
	When *expr.Program
	Then string
	Pos  yaml.Pos
}

// TryTask catches errors of its body.
type TryTask struct {
	Try   TaskList
	Catch Catch
}

// Catch describes which errors are caught, and how they are handled.
type Catch struct {
	With             map[string]any // static filter: type, status, instance, title, detail; details is an alias of detail
	As               string         // variable name; "error" by default
	When, ExceptWhen *expr.Program
	Retry            *RetryPolicy
	Do               TaskList // nil if absent
	Then             string
}

// RetryPolicy describes when and how many times a failed try is retried, with references to
// use.retries resolved.
type RetryPolicy struct {
	When, ExceptWhen     *expr.Program
	Delay                *expr.Value // a duration
	Backoff              string      // "constant" (the default), "linear", "exponential"
	AttemptCount         int         // number of retries; 0 means no limit
	AttemptDuration      *expr.Value // timeout of one attempt
	Duration             *expr.Value // timeout of all attempts together
	JitterFrom, JitterTo *expr.Value
}

// Timed reports whether a timeout ends an attempt, or all of them together. A nil policy has none.
func (r *RetryPolicy) Timed() bool {
	return r != nil && (r.AttemptDuration != nil || r.Duration != nil)
}
