// Package playback shows a run or a recording as a film: all that has happened with its
// times, and a moment on it that can be moved back and forth. What tui.Source asks
// for is answered as it stood at that moment.
package playback

import (
	"slices"
	"sync"
	"time"

	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/tui"
)

// Options say what is shown, and how.
type Options struct {
	Definition *dsl.Definition   // of the execution that everything began with
	With       []*dsl.Definition // that it may run
	Decide     decide.Options    // of those who decided
	Tenant     string
	Start      time.Time // of the clock
	Place      string    // what is shown, in a few words
	Still      string    // why nothing can be changed in it

	Pace   float64                  // virtual seconds for each real one at which it is being made; 0: it is made at once
	Redact func(text []byte) []byte // puts something else in the place of secrets; nil: there are none
	Record func(file string) error  // writes a recording to a file; nil: there is none to write
	Now    func() time.Time         // real time
}

// Playback is what has happened so far, and the moment that is shown of it. It may grow
// while it is watched.
type Playback struct {
	opts Options

	mu     sync.Mutex
	frames []frame
	reels  []*track // executions, as they began
	byID   map[string]*track
	spans  map[string]*span // by the id of the event that began them
	fired  []int            // frames in which a timer fired
	failed []int            // frames in which something failed
	dead   []int            // frames that tell of dead letters
	docs   map[*dsl.Definition]*document
	marks  []time.Time // of timers, as the timeline has room for them
	marked int         // fired frames that those are of

	came     time.Time // when the last frame came, in real time
	over     bool      // nothing more will come
	notes    []string
	differs  difference
	playhead playhead
	stage    stage
}

// document is a definition, as decisions and the screen need it.
type document struct {
	env   *decide.Env
	shown *tui.Document
}

// New is a film with nothing on it yet, which begins to play at once.
func New(opts Options) *Playback {
	if opts.Pace < 0 {
		opts.Pace = 0
	}
	f := &Playback{
		opts: opts, byID: map[string]*track{}, spans: map[string]*span{}, docs: map[*dsl.Definition]*document{},
		came: opts.Now(),
	}
	speed := opts.Pace
	if speed == 0 {
		speed = 1
	}
	f.playhead = playhead{at: opts.Start, speed: speed, real: f.came}
	f.stage = stage{timers: map[*span]bool{}, tasks: map[*span]bool{}}
	return f
}

// Append adds what has happened, in its order.
func (f *Playback) Append(events []event.Event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.came = f.opts.Now()
	for _, e := range events {
		f.add(e)
	}
}

// End says that nothing more will come, and what there is to say about that.
func (f *Playback) End(notes ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.over = true
	f.notes = append(f.notes, notes...)
}

// difference is why a film ends where it does.
type difference struct{ execution, text string }

// Differs says that what an execution has done last is not what it would do again.
func (f *Playback) Differs(execution, text string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.differs = difference{execution, text}
}

// document is a definition as it is needed, prepared once.
func (f *Playback) document(def *dsl.Definition) *document {
	d := f.docs[def]
	if d == nil {
		d = newDocument(def, f.opts.Decide)
		f.docs[def] = d
	}
	return d
}

// edge is how far time has come: the end of what is known, or as far as the clock
// must have gone meanwhile where it is still being made.
func (f *Playback) edge(now time.Time) time.Time {
	end := f.opts.Start
	if n := len(f.frames); n > 0 {
		end = f.frames[n-1].at
	}
	if f.over {
		return end
	}
	pace := f.opts.Pace
	if pace == 0 {
		pace = 1 // the calls that it waits for take the time that they take
	}
	return end.Add(scaled(now.Sub(f.came), pace))
}

// until is the number of frames that there are at a moment.
func (f *Playback) until(at time.Time) int {
	n, _ := slices.BinarySearchFunc(f.frames, at, func(fr frame, at time.Time) int {
		if fr.at.After(at) {
			return 1
		}
		return -1
	})
	return n
}

// scaled is a duration so many times as long, as long as there are any at most.
func scaled(d time.Duration, times float64) time.Duration {
	const most = float64(1<<63 - 1)
	long := float64(d) * times
	if long >= most {
		return 1<<63 - 1
	}
	return time.Duration(long)
}
