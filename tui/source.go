package tui

import (
	"context"
	"errors"
	"time"
)

// ErrLost is wrapped by the errors of a Source that cannot be reached at the
// moment, and that is worth asking again.
var ErrLost = errors.New("the connection is lost")

// Source is what the screen sees of an engine, of a run or of a recording. Its
// methods may wait; the screen calls them outside of its own loop, with a deadline,
// and several at once.
type Source interface {
	// Overview is how all of it stands.
	Overview(ctx context.Context) (Overview, error)
	// Page is a part of a table, however long that is.
	Page(ctx context.Context, q Query) (Page, error)
	// Standings are where executions stand, in the order of their ids.
	Standings(ctx context.Context, ids []string) ([]Standing, error)
	// Detail is all that is known of a row that is no execution.
	Detail(ctx context.Context, table Table, id string) (Detail, error)
	// Execution is one execution, without its history.
	Execution(ctx context.Context, id string) (Execution, error)
	// History is what has happened to an execution after a version, at most a page of it.
	History(ctx context.Context, id string, after int64) ([]Event, error)
	// Data is the JSON that came with an event of a history.
	Data(ctx context.Context, id string, version int64) (string, error)
	// Plan says what an action will do, and changes nothing.
	Plan(ctx context.Context, a Action) (Plan, error)
	// Do carries an action out and says what became of it.
	Do(ctx context.Context, a Action) (said string, err error)
}

// Choosy is a Source that cannot do everything; the keys for what it cannot are not
// offered.
type Choosy interface {
	Can(v Verb) bool
}

// can reports whether a source does such actions at all.
func can(s Source, v Verb) bool {
	choosy, ok := s.(Choosy)
	return !ok || choosy.Can(v)
}

// Timekeeper is a Source whose time can be moved.
type Timekeeper interface {
	Move(ctx context.Context, m Move) (Clock, error)
}

// State is how something stands, in a word.
type State string

// The states of executions, tasks, timers and services.
const (
	Pending   State = "pending"
	Running   State = "running"
	Waiting   State = "waiting"
	Suspended State = "suspended"
	Completed State = "completed"
	Faulted   State = "faulted"
	Cancelled State = "cancelled"
	Skipped   State = "skipped"
	Retrying  State = "retrying"
	Overdue   State = "overdue"
	Broken    State = "unreadable"
	Dead      State = "dead"
	Alive     State = "alive"
	Silent    State = "silent"
)

// Ended reports whether nothing follows any more.
func (s State) Ended() bool {
	return s == Completed || s == Faulted || s == Cancelled || s == Skipped
}

// Overview is how an engine stands at a moment.
type Overview struct {
	Now    time.Time
	Place  string // where it is, in a few words
	Tenant string
	Clock  Clock

	Counts   Counts
	Events   float64 // a second, lately
	Fires    float64 // timers fired a second, lately
	Services []Service

	// Of each of these there may be more than are listed.
	Due     []Row // timers, the next one first
	Running []Row // tasks that are being performed, the oldest first
	Failed  []Row // executions and dead letters, the latest first
	Of      Totals
	Notes   []string
}

// Counts are how many there are.
type Counts struct {
	Open, Completed, Faulted, Cancelled int64
	Timers, Overdue, Dead               int64

	Shared bool // timers are counted over all tenants
}

// Totals are how many there are of what an overview lists; 0 where that is not known.
type Totals struct{ Due, Running, Failed int64 }

// Service is one of the engine's services, in all its processes.
type Service struct {
	Name         string
	Alive, Busy  int
	Lag, Pending int64
	Workers      []Worker
	Note         string // what is not known of it
}

// Worker is one instance of a service.
type Worker struct {
	Name  string
	State State // Alive or Silent
	Busy  int64 // what it has at hand
	Idle  time.Duration
}

// Table is one of the lists.
type Table int

// The tables.
const (
	Executions Table = iota
	Timers
	DeadLetters
	Events
	tableCount
)

// Row is what everything that is listed has in common; what does not apply is empty.
type Row struct {
	ID     string
	Cursor string // its place in the table, to go on behind
	State  State

	Kind, Workflow, Execution, Task string
	Note                            string
	At, Until                       time.Time // created, due, died, began or happened; ended
	Count                           int64     // events, attempts

	Stands *Standing // of an execution; nil if it was not looked up
}

// Standing is where an execution stands. Of one that has ended well there is nothing to say.
type Standing struct {
	Open []Row  // its tasks that are under way, as far as they are known, the last first; Until is when a wait ends
	Note string // why it failed
}

// Query says which rows are wanted.
type Query struct {
	Table  Table
	Filter Filter
	After  string // a Cursor; "" for the beginning
	Limit  int

	// Back asks for the rows before After that are next to it, in the order of the
	// table; for the last ones of all if After is "".
	Back bool
}

// Page is the answer to a Query. It may hold fewer rows than there are, since one
// look takes in a bounded number: Next is where to go on in the same direction, "" at
// the end, or at the beginning.
type Page struct {
	Rows   []Row
	Next   string
	Looked int       // rows that were looked at …
	Until  time.Time // … up to those of this moment; zero if that is not known
}

// Detail is all that is known of something.
type Detail struct {
	Facts [][2]string // name and value
	Data  []Data
}

// Data is a value with its name: JSON, or any text.
type Data struct{ Name, Text string }

// Execution is all that is known of an execution but for its history.
type Execution struct {
	Row
	Detail

	Version  int64 // entries in the history
	Document *Document
	Waits    []string
	Timers   []Row
	Children []Row  // their Task is the one that runs them
	Problem  string // what could not be found out
}

// Document is the text of a workflow, and its tasks in order.
type Document struct {
	Name, Text string
	Tasks      []Task
	Roots      []int // the tasks that run first, by index
}

// Task is one of a document.
type Task struct {
	Ref, Name, Kind, Detail string
	Line                    int
	Children                []int // by index; a function is called from several places
}

// Event is one of a history.
type Event struct {
	Version        int64
	At             time.Time
	Type           string // without the engine's prefix
	Task           string // the run of a task, as text
	Ref, Iteration string // of that run …
	Attempt        string
	State          State  // … and what it is by this event; "" if nothing
	Call           string // of a call that has ended: what was sent, and the status of the answer
	Text           string
	Until          time.Time // of a timer
}

// Action is something to be done. What it is about are rows of a table.
type Action struct {
	Verb  Verb
	Table Table
	IDs   []string
	Text  string // what was typed: a duration, an event, a file
	Force bool   // also if a Plan has warned
}

// Verb is what an action does.
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

// Plan is what an action will do.
type Plan struct {
	Lines  []string
	Danger bool // something is lost that cannot be brought back
}

// Clock is how the time of a Source stands; it is zero where that is real time.
type Clock struct {
	Moves  bool // it can be paused and moved on …
	Seeks  bool // … and back, too
	Paused bool
	Speed  float64 // 0 and 1 are real pace
	Start  time.Time
	End    time.Time   // of what is known
	Marks  []time.Time // of timers, to be seen on the timeline
	At, Of int         // events that are shown, and that there are; 0 if that is not known
}

// Move moves the time of a Source.
type Move struct {
	Verb  MoveVerb
	By    time.Duration // to advance
	To    time.Time     // to seek …
	Event int           // … or behind so many events, if that is not 0
	Speed float64
}

// MoveVerb is how time is moved.
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
	Pace      MoveVerb = "speed"
)
