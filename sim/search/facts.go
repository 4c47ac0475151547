package search

import (
	"regexp"
	"strings"
	"time"

	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/sim/invariant"
)

// historyFacts holds when things happened in a history, and in which order.
type historyFacts struct {
	start     time.Time
	steps     []stepFact
	place     map[string]int // index of a step by its key
	begun     map[string]time.Time
	ended     map[string]time.Time
	failed    map[string]bool
	succeeded map[string]bool          // by task run, without the attempt
	fired     map[string]time.Duration // durations of the timeouts that fired, by task run
	cancelled map[string]time.Duration // how long after its due time each timeout was cancelled; negative: before
	received  map[string]bool          // ids of the events from outside
	retries   map[string]int           // of tries, by their runs
	givenUp   map[string]givenUp       // tries that gave up because of a time limit
	input     string                   // of the execution
	above     string                   // the task run of the parent that started the execution
	calls     *historyFacts            // see callsOf; nil: calls do not matter
}

// givenUp is how long a try ran before it gave up, and how much of its time limit remained.
type givenUp struct{ after, remaining time.Duration }

// stepFact is one step: a task run that ended, a timer that fired, or an event that was received.
type stepFact struct {
	key  string // the same in all histories
	task string // its task run, if it has one
	of   string // the execution, if several are shown together
	what string
	at   time.Time
}

// What happened to a task.
const (
	stepEnds      = "ends"
	stepFails     = "fails"
	stepSkipped   = "is skipped"
	stepCancelled = "is cancelled"
	stepWaited    = "has waited"
	stepTimeout   = "times out"
	stepRetries   = "is retried"
)

// stepEvent is the key prefix of steps that are events from outside.
const stepEvent = "event "

func factsOf(history []event.Event) *historyFacts {
	f := &historyFacts{
		place: map[string]int{}, begun: map[string]time.Time{}, ended: map[string]time.Time{},
		failed: map[string]bool{}, succeeded: map[string]bool{}, fired: map[string]time.Duration{}, cancelled: map[string]time.Duration{}, received: map[string]bool{},
		retries: map[string]int{}, givenUp: map[string]givenUp{},
	}
	for _, e := range history {
		if f.start.IsZero() {
			var begun event.Started
			_ = decide.DecodeData(e, &begun) // other events have no input
			f.start, f.input, f.above = e.Time, string(begun.Input), begun.ParentTask
		}
		f.take(e)
	}
	return f
}

// lasted returns how long a task run took; for "" the whole execution.
func (f *historyFacts) lasted(task string) time.Duration {
	if task == "" && len(f.steps) > 0 {
		return f.steps[len(f.steps)-1].at.Sub(f.start)
	}
	begun, ok := f.begun[task]
	if !ok {
		return 0
	}
	return f.ended[task].Sub(begun)
}

func (f *historyFacts) take(e event.Event) {
	switch e.Type {
	case event.TaskRequested:
		f.begun[e.Task] = e.Time
	case event.TaskCompleted:
		var c event.Completed
		_ = decide.DecodeData(e, &c) // the engine's own data is always readable
		f.ended[e.Task] = e.Time
		f.failed[e.Task] = c.Error != nil
		if c.Error == nil && c.Status == "" {
			f.succeeded[withoutAttempt(e.Task)] = true
		}
		f.add(stepFact{key: "task " + e.Task, task: e.Task, what: completion(c), at: e.Time})
	case event.TimerFired:
		var t event.Fired
		_ = decide.DecodeData(e, &t)
		what := stepWaited
		switch t.Kind {
		case event.TimeoutTimer:
			what = stepTimeout
			f.fired[t.TaskID] = time.Duration(t.DurationMS) * time.Millisecond
		case event.RetryTimer:
			what = stepRetries
			f.retries[t.TaskID]++
		default:
		}
		f.add(stepFact{key: "timer " + string(t.Kind) + t.Key + " " + t.TaskID, task: t.TaskID, what: what, at: e.Time})
	case event.TimerCancelled:
		var t event.Timer
		_ = decide.DecodeData(e, &t)
		if t.Kind == event.TimeoutTimer {
			late := e.Time.Sub(t.Due())
			if known, ok := f.cancelled[t.TaskID]; ok {
				late = max(late, known)
			}
			f.cancelled[t.TaskID] = late
			// The last step was a failure inside that no retry follows.
			if n := len(f.steps); t.Key == invariant.TryLimit && n > 0 && f.steps[n-1].what == stepFails && strings.HasPrefix(f.steps[n-1].task, event.ParseRun(t.TaskID).Ref+"/try/") {
				f.givenUp[t.TaskID] = givenUp{e.Time.Sub(f.begun[t.TaskID]), t.Due().Sub(e.Time)}
			}
		}
	case event.EventReceived:
		came := decide.Arrived(e)
		f.received[came.Source+" "+came.ID] = true
		f.add(stepFact{key: stepEvent + came.Source + " " + came.ID, what: "event " + string(came.Type), at: e.Time})
	default:
	}
}

// succeeded reports whether a completion is a success.
func succeeded(e event.Event) bool {
	var c event.Completed
	return decide.DecodeData(e, &c) == nil && completion(c) == stepEnds
}

func completion(c event.Completed) string {
	switch {
	case c.Status == "skipped":
		return stepSkipped
	case c.Status == "cancelled":
		return stepCancelled
	case c.Error != nil:
		return stepFails
	default:
		return stepEnds
	}
}

func (f *historyFacts) add(step stepFact) {
	if _, ok := f.place[step.key]; !ok {
		f.place[step.key] = len(f.steps)
	}
	f.steps = append(f.steps, step)
}

// readsClock reports whether the outcome of a document can depend on durations because
// its expressions read the clock.
func readsClock(def *dsl.Definition) bool {
	return clockWords.Match(def.Source)
}

var clockWords = regexp.MustCompile(`\bnow\b|startedAt|\blocaltime\b|\bgmtime\b`)
