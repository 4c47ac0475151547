package playback

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"

	"flunq.io/flunq/cmd/describe"
	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/tui"
)

// track is one execution: where its frames are, and how it stands behind each.
type track struct {
	id      string
	index   int // among all executions, as they began
	started event.Started
	begun   event.Event
	def     *dsl.Definition // nil: it is not known
	doc     *document

	frames   []int            // by version, from 0 on
	states   []tui.State      // … what it is by then
	whole    []int            // … the last version by then at which a decision was complete
	ends     []int            // versions that ended it
	open     map[string]*span // that nothing has ended, by their keys
	children []*track

	head    *decide.State // of the last version; nil: it cannot be decided about …
	problem string        // … because of this …
	broken  int           // … from this version on
	keeps   []keep
	rested  int // the version of the last keep

	cursor *decide.State // as it was looked at last
	at     int           // its version
}

// keep is a state that others can be worked out from.
type keep struct {
	version int
	text    []byte
}

// A state is kept after so many events, and more rarely where it is large.
const (
	keepEvery = 500
	keepBytes = 100 // for each event since the last one
)

func newDocument(def *dsl.Definition, opts decide.Options) *document {
	return &document{env: decide.NewEnv(def, opts), shown: describe.Document(def)}
}

// trackOf is the execution that an event is about.
func (f *Playback) trackOf(e event.Event) *track {
	if r := f.byID[e.Execution]; r != nil {
		return r
	}
	r := &track{id: e.Execution, index: len(f.reels), begun: e, open: map[string]*span{}}
	f.byID[r.id] = r
	f.reels = append(f.reels, r)
	if e.Type != event.ExecutionStarted || json.Unmarshal(e.Data, &r.started) != nil {
		r.problem = "its history does not begin with its start"
		return r
	}
	if parent := f.byID[r.started.Parent]; parent != nil {
		parent.children = append(parent.children, r)
	}
	if r.def = f.definition(r); r.def == nil {
		r.problem = fmt.Sprintf("the workflow %s.%s is not known here", r.started.Namespace, r.started.Name)
		return r
	}
	r.doc = f.document(r.def)
	r.head = decide.New()
	return r
}

// definition finds what an execution runs.
func (f *Playback) definition(r *track) *dsl.Definition {
	id := r.started.Namespace + "." + r.started.Name
	if r.index == 0 || r.started.Parent == "" && f.opts.Definition.ID() == id {
		return f.opts.Definition
	}
	var found *dsl.Definition
	for _, def := range append(slices.Clone(f.opts.With), f.opts.Definition) {
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

// take takes in an event, and says what the execution was before.
func (r *track) take(frame int, e event.Event) (was tui.State) {
	before := 0
	if n := len(r.states); n > 0 {
		was, before = r.states[n-1], r.whole[n-1]
	}
	r.frames = append(r.frames, frame)
	version := len(r.frames)
	switch e.Type {
	case event.WorkflowCompleted, event.WorkflowFailed, event.WorkflowCancelled:
		r.ends = append(r.ends, version)
	default:
	}
	state := stateBy(was, e.Type)
	r.decide(e)
	if r.head != nil && r.head.Version == int64(version) {
		state, before = tui.State(r.head.Status), version
		r.keep(version)
	}
	r.states, r.whole = append(r.states, state), append(r.whole, before)
	return was
}

// stateBy is what an execution is by an event alone, until its decision is complete.
func stateBy(was tui.State, typ event.Type) tui.State {
	switch typ {
	case event.WorkflowCompleted:
		return tui.Completed
	case event.WorkflowFailed:
		return tui.Faulted
	case event.WorkflowCancelled:
		return tui.Cancelled
	case event.ExecutionSuspended:
		return tui.Suspended
	case event.ExecutionResumed, event.ExecutionRetried:
		return tui.Running
	default:
		if was == "" || was == tui.Waiting { // something has come that it waited for
			return tui.Running
		}
		return was
	}
}

// decide follows an event. What cannot be followed is told, and not tried again.
func (r *track) decide(e event.Event) {
	if r.head == nil {
		return
	}
	if err := replay(r.head, r.doc.env, []event.Event{e}); err != nil {
		r.head, r.problem, r.broken = nil, err.Error(), len(r.frames)
	}
}

// replay lets a state take in events. An engine that gives up on them has an error.
func replay(s *decide.State, env *decide.Env, events []event.Event) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("decide: %v", p)
		}
	}()
	return s.Replay(env, events)
}

// keep keeps the state of a version from time to time.
func (r *track) keep(version int) {
	if version < r.rested {
		return
	}
	text, err := r.head.Snapshot()
	if err != nil {
		return
	}
	r.keeps = append(r.keeps, keep{version, text})
	r.rested = version + max(keepEvery, len(text)/keepBytes)
}

// version is how many of its events there are in so many frames of all.
func (r *track) version(frames int) int {
	n, _ := slices.BinarySearch(r.frames, frames)
	return n
}

// state is where it stood when the last decision up to a version was complete; nil
// if that is not known.
func (f *Playback) state(r *track, version int) *decide.State {
	if version == 0 || r.doc == nil || r.whole[version-1] == 0 {
		return nil
	}
	want := r.whole[version-1]
	if r.cursor == nil || r.at > want || r.nearer(want) {
		r.rewind(want)
	}
	events := make([]event.Event, 0, want-r.at)
	for _, frame := range r.frames[r.at:want] {
		events = append(events, f.frames[frame].Event)
	}
	if err := replay(r.cursor, r.doc.env, events); err != nil {
		r.cursor, r.problem, r.broken = nil, err.Error(), want // it could be followed before: our mistake
		return nil
	}
	r.at = want
	return r.cursor
}

// lastKeep is the index of the last state that is kept up to a version; -1 if none.
func (r *track) lastKeep(version int) int {
	n, exact := slices.BinarySearchFunc(r.keeps, version, func(k keep, v int) int { return k.version - v })
	if exact {
		return n
	}
	return n - 1
}

// nearer reports whether a kept state is nearer to a version than the cursor.
func (r *track) nearer(version int) bool {
	i := r.lastKeep(version)
	return i >= 0 && r.keeps[i].version > r.at
}

// rewind puts the cursor on the last state that is kept up to a version.
func (r *track) rewind(version int) {
	r.cursor, r.at = decide.New(), 0
	i := r.lastKeep(version)
	if i < 0 {
		return
	}
	if s, err := decide.Restore(r.doc.env, r.keeps[i].text); err == nil {
		r.cursor, r.at = s, r.keeps[i].version
	}
}

// ended is the version that has ended it by another one; 0 if none has.
func (r *track) ended(version int) int {
	if version == 0 || !r.states[version-1].Ended() {
		return 0
	}
	n, exact := slices.BinarySearch(r.ends, version)
	switch {
	case exact:
		return version
	case n > 0:
		return r.ends[n-1]
	default:
		return 0
	}
}
