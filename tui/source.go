package tui

import (
	"context"
	"errors"
	"time"

	"flunq.io/flunq/engine/history"
)

// ErrLost is wrapped by the errors of a Source that is currently unreachable. A later request may
// succeed.
var ErrLost = errors.New("the connection is lost")

// Source is the engine, the run or the recording that the screen shows. Its methods may
// block: the screen calls them outside its own loop, with a deadline, and concurrently.
type Source interface {
	// Overview returns the counts, the rates, and the most urgent rows.
	Overview(ctx context.Context) (Overview, error)
	// Page returns some rows of a table.
	Page(ctx context.Context, q Query) (Page, error)
	// Activities returns what executions are doing, in the order of the ids.
	Activities(ctx context.Context, ids []string) ([]Activity, error)
	// Detail returns everything about a row of a table other than Executions.
	Detail(ctx context.Context, table Table, id string) (Detail, error)
	// Execution returns an execution without its history.
	Execution(ctx context.Context, id string) (Execution, error)
	// History returns the events of an execution after a version, at most one page.
	History(ctx context.Context, id string, after int64) ([]Event, error)
	// Data returns the JSON data of an event of a history.
	Data(ctx context.Context, id string, version int64) (string, error)
	// Plan describes what an action would do. It changes nothing.
	Plan(ctx context.Context, a Action) (Plan, error)
	// Do carries out an action and describes the result.
	Do(ctx context.Context, a Action) (said string, err error)
}

// Restricted is a Source that supports only some actions. The screen does not offer the keys of
// the others.
type Restricted interface {
	Can(v Verb) bool
}

// can reports whether a source supports an action.
func can(s Source, v Verb) bool {
	choosy, ok := s.(Restricted)
	return !ok || choosy.Can(v)
}

// TimeMover is a Source whose time can be moved. Its Overview returns a Clock.
type TimeMover interface {
	Move(ctx context.Context, m Move) error
}

// State is the state of an execution, task, timer, service or worker.
type State = history.State

// The states.
const (
	Pending   = history.Pending
	Running   = history.Running
	Waiting   = history.Waiting
	Suspended = history.Suspended
	Completed = history.Completed
	Faulted   = history.Faulted
	Cancelled = history.Cancelled
	Skipped   = history.Skipped
	Retrying  = history.Retrying

	Overdue State = "overdue"
	Broken  State = "unreadable"
	Dead    State = "dead"
	Alive   State = "alive"
	Silent  State = "silent"
)

// Overview is a snapshot of the state of an engine.
type Overview struct {
	Now    time.Time
	Place  string // describes the source, in a few words
	Tenant string
	Clock  Clock

	Counts   Counts
	Events   float64 // events per second, recently
	Fires    float64 // timers fired per second, recently
	Services []Service

	// The first rows of each list; Of has their total numbers.
	Due     []Row // timers, the next one first
	Running []Row // tasks in progress, the oldest first
	Failed  []Row // executions and dead letters, the latest first
	Of      Totals
	Notes   []string
}

// Counts are the numbers of executions, timers and dead letters.
type Counts struct {
	Open, Completed, Faulted, Cancelled int64
	Timers, Overdue, Dead               int64
	Scheduled                           int64 // events of the scheduler, of all tenants

	Shared bool // the timers are those of all tenants
}

// Totals are the total numbers of the rows that an overview lists; 0 if unknown.
type Totals struct{ Due, Running, Failed int64 }

// Service is one of the engine's services, in all its processes.
type Service struct {
	Name         string
	Alive, Busy  int // workers; those that have messages in progress
	Lag, Pending int64
	Workers      []Worker
	Note         string // a problem, such as a stream that could not be read, or a group that has not read yet
}

// Worker is one instance of a service.
type Worker struct {
	Name    string
	State   State // Alive or Silent
	Pending int64 // messages in progress
	Idle    time.Duration
}

// Table is one of the lists, which tables describes.
type Table int

// The tables.
const (
	Executions Table = iota
	Timers
	DeadLetters
	Events
	tableCount
)

// Row is a row of a table. Fields that do not apply to the table are empty.
type Row struct {
	ID     string
	Cursor string // its position in the table, for Query.After
	State  State

	Kind, Workflow, Execution, Task string
	Note                            string
	At, Until                       time.Time // created, due, died, began or happened; ended
	Count                           int64     // events, attempts

	Activity *Activity // of an execution; nil if it was not requested
}

// Last returns when a row ended, or else its time.
func (r Row) Last() time.Time {
	if r.Until.IsZero() {
		return r.At
	}
	return r.Until
}

// Activity says what an execution is doing, or why it failed. It is empty for a completed one.
type Activity struct {
	Open []Row  // its open tasks, the last one first; Until is when a wait ends
	Note string // why it failed
}

// Query selects rows of a table.
type Query struct {
	Table  Table
	Filter Filter
	After  string // a Cursor; "" for the beginning
	Limit  int

	// Back selects the rows just before After, in the order of the table, or the last rows
	// of the table if After is "".
	Back bool
}

// Page is the result of a Query. It may have fewer rows than Limit although there are more, since a
// query examines a bounded number of rows. Next is the position to continue from in the same
// direction; "" if there are no more rows.
type Page struct {
	Rows    []Row
	Next    string
	Scanned int // number of rows examined
}

// Detail is everything about a row.
type Detail struct {
	Facts [][2]string // name and value
	Data  []Data
}

// Data is a value with its name: JSON, or any text.
type Data struct{ Name, Text string }

// Execution is an execution without its history.
type Execution struct {
	Row
	Detail

	Version  int64 // entries in the history
	Document *Document
	Waits    []string
	Timers   []Row
	Children []Row           // child executions; Task is the task that runs them
	Problem  string          // what could not be read
	Breaks   map[string]bool // the references of tasks with a breakpoint; nil: none can be set
}

// Document is the source of a workflow, and its tasks in order.
type Document struct {
	Name, Text string
	Tasks      []Task
	Roots      []int // the tasks that run first, by index
}

// Task is a task of a document.
type Task struct {
	Ref, Name, Kind, Detail string
	Line                    int
	Children                []int // by index; a function is called from several places
}

// Event is an event of a history.
type Event = history.Entry

// Action is something to do with rows of a table.
type Action struct {
	Verb  Verb
	Table Table
	IDs   []string
	Text  string // an argument: a duration, an event, a file
	Force bool   // in spite of warnings of the Plan
}

// Verb is a kind of action.
type Verb string

// The verbs.
const (
	Fire       Verb = "fire"
	Cancel     Verb = "cancel"
	Reschedule Verb = "reschedule"
	Suspend    Verb = "suspend"
	Resume     Verb = "resume"
	Retry      Verb = "retry"
	Replay     Verb = "replay"
	Drop       Verb = "drop"
	Emit       Verb = "emit"
	Record     Verb = "record"
)

// Plan describes what an action would do.
type Plan struct {
	Lines   []string
	Warning string // of a loss; Enter alone does not confirm the action. "" if there is none
}

// Clock is the state of a Source's clock. It is zero if the source runs on real time.
type Clock struct {
	Moves  bool // it can be paused and advanced
	Seeks  bool // it can also go back
	Paused bool
	Speed  float64 // 0 and 1 are real pace
	Start  time.Time
	End    time.Time   // time of the last event so far
	Marks  []time.Time // times of timers, for the time bar
	At, Of int         // number of events shown, and of all; 0 if unknown
	Before string      // the task run before which it has stopped
}

// Move is a change of a Source's time.
type Move struct {
	Verb  MoveVerb
	By    time.Duration // how far to advance
	To    time.Time     // the time to seek
	Event int           // the number of events to seek, if not 0
	Task  string        // the reference of the task whose breakpoint is set or cleared
	Speed float64
}

// MoveVerb is a kind of Move.
type MoveVerb string

// The ways to move time.
const (
	Play      MoveVerb = "play"
	Pause     MoveVerb = "pause"
	Advance   MoveVerb = "advance"
	Seek      MoveVerb = "seek"
	NextEvent MoveVerb = "next event"
	LastEvent MoveVerb = "event before"
	NextTimer MoveVerb = "next timer"
	LastTimer MoveVerb = "timer before"
	NextTask  MoveVerb = "next task"
	NextBreak MoveVerb = "next breakpoint"
	Break     MoveVerb = "breakpoint"
	Pace      MoveVerb = "speed"
)
