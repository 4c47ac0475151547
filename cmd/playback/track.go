package playback

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"

	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/history"
	"flunq.io/flunq/tui"
)

// track is an execution: its frames and its state after each.
type track struct {
	id      string
	index   int // in the order of start
	started event.Started
	begun   event.Event
	def     *dsl.Definition // nil: unknown
	doc     *document

	x        *history.Execution
	frames   []int             // by version, from 0
	states   []tui.State       // by version: the state after it
	decided  []int             // by version: the last version up to it with a complete decision
	open     map[any]*interval // those that have not ended, by key
	children []*track

	head        *decide.State // after the last version; nil: decisions cannot be replayed
	problem     string        // why decisions cannot be replayed
	problemFrom int           // the version of the problem

	cursor *decide.State // the state computed last; a later one continues from it
	at     int           // its version
}

// trackOf returns the execution of an event.
func (pb *Playback) trackOf(e event.Event) *track {
	if r := pb.byID[e.Execution]; r != nil {
		return r
	}
	r := &track{id: e.Execution, index: len(pb.tracks), begun: e, x: history.NewExecution(), open: map[any]*interval{}}
	pb.byID[r.id] = r
	pb.tracks = append(pb.tracks, r)
	if e.Type != event.ExecutionStarted || json.Unmarshal(e.Data, &r.started) != nil {
		r.problem = "its history does not begin with its start"
		return r
	}
	if parent := pb.byID[r.started.Parent]; parent != nil {
		parent.children = append(parent.children, r)
	}
	if r.def = pb.definition(r); r.def == nil {
		r.problem = fmt.Sprintf("workflow %s.%s is unknown here", r.started.Namespace, r.started.Name)
		return r
	}
	r.doc = pb.document(r.def)
	r.head = decide.New()
	return r
}

// definition returns the definition that an execution runs.
func (pb *Playback) definition(r *track) *dsl.Definition {
	id := r.started.Namespace + "." + r.started.Name
	if r.index == 0 || r.started.Parent == "" && pb.opts.Definition.ID() == id {
		return pb.opts.Definition
	}
	var found *dsl.Definition
	for _, def := range append(slices.Clone(pb.opts.With), pb.opts.Definition) {
		if def.ID() != id {
			continue
		}
		sum := sha256.Sum256(def.Source)
		switch {
		case r.started.Definition != "" && r.started.Definition == hex.EncodeToString(sum[:]):
			return def
		case r.started.Version == def.Document.Version, found == nil:
			found = def
		}
	}
	return found
}

// take adds an event.
func (t *track) take(frame int, e event.Event) {
	before := 0
	if n := len(t.decided); n > 0 {
		before = t.decided[n-1]
	}
	t.frames = append(t.frames, frame)
	version := len(t.frames)
	state := t.x.Runs[0].State
	t.decide(e)
	if t.head != nil && t.head.Version == int64(version) {
		state, before = tui.State(t.head.Status), version
	}
	t.states, t.decided = append(t.states, state), append(t.decided, before)
}

// decide replays an event. After a failure it does nothing.
func (t *track) decide(e event.Event) {
	if t.head == nil {
		return
	}
	if err := replay(t.head, t.doc.env, []event.Event{e}); err != nil {
		t.head, t.problem, t.problemFrom = nil, err.Error(), len(t.frames)
	}
}

// replay applies events to a state. It converts a panic of the engine into an error.
func replay(s *decide.State, env *decide.Env, events []event.Event) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("decide: %v", p)
		}
	}()
	return s.Replay(env, events)
}

// version returns the number of events of the execution among the first frames.
func (t *track) version(frames int) int { return before(t.frames, frames) }

// begun returns the executions that have begun by the shown moment.
func (pb *Playback) begun() []*track {
	n, _ := slices.BinarySearchFunc(pb.tracks, pb.playhead.n, func(t *track, n int) int { return cmp.Compare(t.frames[0], n) })
	return pb.tracks[:n]
}

// state returns the state after the last complete decision up to a version, nil if it is
// unknown.
func (pb *Playback) state(r *track, version int) *decide.State {
	if version == 0 || r.doc == nil || r.decided[version-1] == 0 {
		return nil
	}
	want := r.decided[version-1]
	if r.cursor == nil || r.at > want {
		r.cursor, r.at = decide.New(), 0
	}
	events := make([]event.Event, 0, want-r.at)
	for _, frame := range r.frames[r.at:want] {
		events = append(events, pb.frames[frame].Event)
	}
	if err := replay(r.cursor, r.doc.env, events); err != nil {
		r.cursor, r.problem, r.problemFrom = nil, err.Error(), want // a bug: decide has replayed them
		return nil
	}
	r.at = want
	return r.cursor
}

// ended returns the version, up to a given one, that ended the execution; 0 if there is
// none.
func (t *track) ended(version int) int {
	if version == 0 || !t.states[version-1].Ended() {
		return 0
	}
	for version > 1 && t.states[version-2].Ended() { // later events did not change that
		version--
	}
	return version
}
