// Package playback plays a run or a recording. It implements tui.Source for a moment that
// can be moved back and forth.
package playback

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"flunq.io/flunq/cmd/describe"
	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/tui"
)

// Options select what is played and how.
type Options struct {
	Definition *dsl.Definition   // of the first execution
	With       []*dsl.Definition // workflows that it may run
	Decide     decide.Options    // the options with which decisions were made
	Tenant     string
	Start      time.Time // the start of the clock
	Place      string    // a short description of the source
	Still      string    // the error for actions that would change something

	Pace   float64                  // virtual seconds per real second of a run in progress; 0: as fast as possible
	Redact func(text []byte) []byte // redacts secrets; nil: there are none
	Record func(file string) error  // writes a recording to a file; nil: not possible
	Now    func() time.Time         // real time
}

// Playback contains the events so far and the shown moment. Events may be added meanwhile.
type Playback struct {
	opts Options
	mu   sync.Mutex // guards all that follows

	frames    []frame
	tracks    []*track // executions in the order of their start
	byID      map[string]*track
	intervals []*interval // in the order in which they began
	fired     []int       // frames in which a timer fired
	failed    []int       // frames in which an execution failed
	dead      []int       // frames with dead letters
	docs      map[*dsl.Definition]*document
	notes     []string

	added    time.Time // when the last frame was added, in real time
	over     bool      // no more events will be added
	differs  difference
	breaks   map[string]bool // the references of tasks with a breakpoint
	playhead playhead
}

// document is a definition prepared for decisions and for the screen.
type document struct {
	env   *decide.Env
	shown *tui.Document
}

// New returns an empty playback that plays from the start.
func New(opts Options) *Playback {
	opts.Pace = max(opts.Pace, 0)
	pb := &Playback{
		opts: opts, byID: map[string]*track{}, docs: map[*dsl.Definition]*document{},
		added: opts.Now(), breaks: map[string]bool{},
	}
	speed := cmp.Or(opts.Pace, 1)
	pb.playhead = playhead{at: opts.Start, speed: speed, real: pb.added}
	return pb
}

// Append adds events in order.
func (pb *Playback) Append(events []event.Event) {
	pb.mu.Lock()
	defer pb.mu.Unlock()
	pb.added = pb.opts.Now()
	for _, e := range events {
		pb.add(e)
	}
}

// End marks the playback as complete, with notes about how it ended.
func (pb *Playback) End(notes ...string) {
	pb.mu.Lock()
	defer pb.mu.Unlock()
	pb.over = true
	pb.notes = append(pb.notes, notes...)
}

// difference describes where a replay differs, which ends the playback.
type difference struct{ execution, text string }

// Differs sets the text shown for an execution at the end of the playback, where its replay
// differs.
func (pb *Playback) Differs(execution, text string) {
	pb.mu.Lock()
	defer pb.mu.Unlock()
	pb.differs = difference{execution, text}
}

// document returns a prepared definition.
func (pb *Playback) document(def *dsl.Definition) *document {
	d := pb.docs[def]
	if d == nil {
		d = &document{env: decide.NewEnv(def, pb.opts.Decide), shown: describe.Document(def)}
		pb.docs[def] = d
	}
	return d
}

// edge returns the time up to which events are known: that of the last event or, while the
// run is in progress, the current time of its clock.
func (pb *Playback) edge(now time.Time) time.Time {
	end := pb.opts.Start
	if n := len(pb.frames); n > 0 {
		end = pb.frames[n-1].at
	}
	if pb.over {
		return end
	}
	pace := cmp.Or(pb.opts.Pace, 1) // pending calls take real time
	return end.Add(scaled(now.Sub(pb.added), pace))
}

// until returns the number of frames up to a moment.
func (pb *Playback) until(at time.Time) int {
	n, _ := slices.BinarySearchFunc(pb.frames, at, func(fr frame, at time.Time) int {
		if fr.at.After(at) {
			return 1
		}
		return -1
	})
	return n
}

// scaled multiplies a duration without overflow.
func scaled(d time.Duration, times float64) time.Duration {
	const most = float64(1<<63 - 1)
	long := float64(d) * times
	if long >= most {
		return 1<<63 - 1
	}
	return time.Duration(long)
}
