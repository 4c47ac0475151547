package recording

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/expr/canonical"
	"flunq.io/flunq/engine/history"
	"flunq.io/flunq/sim"
)

// Replayer replays recordings: it repeats every decision, takes events and responses from the
// recording, and reports the first difference. It runs a simulation only for
// ReplayOptions.Full, and parses each document once. It is safe for concurrent use.
type Replayer struct {
	opts ReplayOptions

	mu   sync.Mutex
	defs map[string]*parsed // by hash
}

// ReplayOptions says how recordings are replayed.
type ReplayOptions struct {
	Workflow    *dsl.Definition // replaces the recorded document of the same name; nil: none
	StrictOrder bool            // a different order of independent events is a difference, too
	Full        bool            // also repeat the simulation with the whole engine
	At          *Moment         // the replay stops there; nil: at the end
}

// Moment is a point in a recording, given by the first of these fields that is set.
type Moment struct {
	Event int // after this many events
	Time  time.Time
	After dsl.Duration // after the start
}

// parsed is a document, or the reason why it is invalid.
type parsed struct {
	def *dsl.Definition
	err error
}

// Verdict is the result of a replay.
type Verdict struct {
	File       string      `json:"file"`
	Agrees     bool        `json:"agrees"`
	Execution  string      `json:"execution"`
	Workflow   string      `json:"workflow"`
	Status     string      `json:"status"`   // at the end of the recording
	Finished   bool        `json:"finished"` // it ended within the recording
	Events     int         `json:"events"`
	Calls      int         `json:"calls"`
	Arrivals   int         `json:"arrivals"` // events from outside
	Order      string      `json:"order"`    // same, different, or unknown
	Difference *Difference `json:"difference,omitempty"`
	Migration  *Migration  `json:"migration,omitempty"` // to the changed document, if the execution has not ended
	Notes      []string    `json:"notes,omitempty"`
	States     []State     `json:"states,omitempty"` // at ReplayOptions.At
}

// Migration says whether a running execution can be migrated to a changed document: its whole
// history must follow from that document.
type Migration struct {
	MayBe  bool   `json:"may_be_migrated"`
	Reason string `json:"reason,omitempty"` // why it cannot
}

// The values of Verdict.Order.
const (
	SameOrder    = "same"
	OtherOrder   = "different"
	UnknownOrder = "unknown" // the hash cannot be computed, because it covers unknown secrets
)

// NewReplayer returns a Replayer with an empty cache of documents.
func NewReplayer(opts ReplayOptions) *Replayer {
	return &Replayer{opts: opts, defs: map[string]*parsed{}}
}

// ErrOtherWorkflow means that ReplayOptions.Workflow is not part of the recording.
var ErrOtherWorkflow = errors.New("the recording is not of this workflow")

// Replay replays one recording.
func (r *Replayer) Replay(ctx context.Context, rec *Recording) (*Verdict, error) {
	p := &replay{
		Recording: rec, by: r, ctx: ctx, executions: map[string]*executionReplay{},
		starts: map[string]event.Event{}, ends: map[string]event.Event{}, emitted: map[string]bool{},
		notes: slices.Clone(rec.Notes),
	}
	if err := p.read(); err != nil {
		return nil, err
	}
	if p.diff == nil {
		p.run()
	}
	v := p.verdict()
	if r.opts.Full && v.Agrees && r.opts.At == nil {
		if err := p.simulate(ctx, v); err != nil {
			return nil, err
		}
	}
	return v, ctx.Err()
}

// replay is the replay of one recording.
type replay struct {
	*Recording

	by   *Replayer
	ctx  context.Context //nolint:containedctx // of the Replay call
	main *document
	docs []*document // documents that may run, the main one first

	earlier map[string]*document // documents from before a migration, by hash

	executions map[string]*executionReplay // by execution
	order      []*executionReplay          // in the order in which they began
	starts     map[string]event.Event
	ends       map[string]event.Event // results that children send to their parents
	emitted    map[string]bool        // events that tasks have emitted

	at        int // index of the current entry
	diff      *Difference
	tolerated *Difference // the first difference that a running execution tolerates, because it keeps its recorded result
	notes     []string
	loose     bool // independent branches had a different order
	differ    int  // index of the first entry that was out of order
}

// document is a workflow as recorded and as replayed.
type document struct {
	was, now *dsl.Definition
	hash     string
}

// changed reports whether the replay uses a different document than the recorded one.
func (d *document) changed() bool { return d.was != d.now }

// read parses the documents.
func (rp *replay) read() error {
	replaced := false
	for _, recorded := range append([]DocumentText{rp.header.Document}, rp.header.With...) {
		d := rp.document(recorded)
		if d == nil {
			return nil
		}
		replaced = replaced || d.changed()
		rp.docs = append(rp.docs, d)
	}
	rp.main, rp.earlier = rp.docs[0], map[string]*document{rp.docs[0].hash: rp.docs[0]}
	for _, recorded := range rp.Recording.earlier {
		d := rp.document(recorded)
		if d == nil {
			return nil
		}
		if rp.earlier[d.hash] == nil {
			rp.earlier[d.hash] = d
		}
	}
	if w := rp.by.opts.Workflow; w != nil && !replaced {
		return fmt.Errorf("%s: %w: it is of %s, the document is %s", rp.Name, ErrOtherWorkflow, rp.main.was.ID(), w.ID())
	}
	return nil
}

// document parses a recorded document and finds the one to replay with; nil if it is
// invalid.
func (rp *replay) document(recorded DocumentText) *document {
	got := rp.by.parse(recorded)
	if got.err != nil {
		rp.diff = &Difference{
			What: "document", Line: 1, Recorded: "a valid document",
			Replayed: "it is no longer valid: " + history.Cut(got.err.Error()),
		}
		return nil
	}
	d := &document{was: got.def, now: got.def, hash: recorded.SHA256}
	if w := rp.by.opts.Workflow; w != nil && w.ID() == d.was.ID() {
		d.now = w
	}
	return d
}

// parse parses a document and caches the result.
func (r *Replayer) parse(doc DocumentText) *parsed {
	r.mu.Lock()
	defer r.mu.Unlock()
	if known := r.defs[doc.SHA256]; known != nil {
		return known
	}
	def, _, err := dsl.Parse("document", []byte(doc.Text))
	got := &parsed{def, err}
	r.defs[doc.SHA256] = got
	return got
}

// Config returns the configuration of the recorded run, as far as decisions depend on it.
// If workflow is not nil, it replaces the recorded document of the same name.
func (r *Recording) Config(workflow *dsl.Definition) (sim.Config, error) {
	p := &replay{Recording: r, by: NewReplayer(ReplayOptions{Workflow: workflow})}
	if err := p.read(); err != nil {
		return sim.Config{}, err
	}
	if p.diff != nil {
		return sim.Config{}, fmt.Errorf("%s:%d: %s", r.Name, p.diff.Line, p.diff.Replayed)
	}
	return p.config(func(d *document) *dsl.Definition { return d.now }), nil
}

// config returns the configuration of the recorded run with one definition of each document.
func (rp *replay) config(of func(*document) *dsl.Definition) sim.Config {
	h := rp.header
	cfg := sim.Config{
		Definition: of(rp.main), Input: h.Input, ID: h.ID, Tenant: h.Tenant, Seed: h.Seed, Start: h.Start,
		Version: h.Flunq, Secrets: rp.secrets, Limits: rp.limits(), Executions: h.Executions,
	}
	for _, d := range rp.docs[1:] {
		cfg.With = append(cfg.With, of(d))
	}
	return cfg
}

// env returns the environment for decisions about a document.
func (rp *replay) env(d *document) *decide.Env {
	return decide.NewEnv(d.now, decide.Options{Secrets: rp.secrets, Version: rp.header.Flunq, Remote: true, Limits: rp.limits()})
}

// run follows the history to its end, or to the first difference.
func (rp *replay) run() {
	for i, e := range rp.entries {
		if rp.ctx.Err() != nil || rp.reached(i, e) {
			return
		}
		rp.at = i
		if i == 0 {
			rp.checkInput(e)
		}
		rp.take(e)
		if rp.diff != nil {
			return
		}
	}
	if rp.by.opts.At == nil {
		rp.finish()
	}
}

// reached reports whether the replay is to stop before an entry.
func (rp *replay) reached(index int, e entry) bool {
	at := rp.by.opts.At
	switch {
	case at == nil:
		return false
	case at.Event > 0:
		return index >= at.Event
	case !at.Time.IsZero():
		return e.Time.After(at.Time)
	default:
		return e.Time.After(at.After.From(rp.header.Start))
	}
}

// checkInput compares the input of the header with that of the start event.
func (rp *replay) checkInput(e entry) {
	var started event.Started
	if e.Type != event.ExecutionStarted || canonical.DecodeOrText(rp.header.Input) == nil || decide.DecodeData(e.Event, &started) != nil {
		return
	}
	if where := (comparison{}).between(started.Input, rp.header.Input); where != nil {
		rp.differs(&Difference{What: "input", Recorded: history.Describe(e.Event), Replayed: "the header has the input " + history.Excerpt(rp.header.Input)}, where)
	}
}

// take passes one event to its execution.
func (rp *replay) take(e entry) {
	w := rp.executions[e.Execution]
	if w == nil && e.Type != event.ExecutionStarted {
		rp.unexpected(e.Event, "nothing: execution "+e.Execution+" has not started")
		return
	}
	if w != nil {
		w.take(e.Event)
		return
	}
	w = &executionReplay{replay: rp, asked: map[string]event.Event{}}
	rp.executions[e.Execution] = w
	rp.order = append(rp.order, w)
	w.begin(e.Event)
}

// finish checks what is left at the end.
func (rp *replay) finish() {
	rp.at = len(rp.entries) - 1
	for _, w := range rp.order {
		if rp.diff == nil {
			w.leftover()
		}
	}
	if rp.diff == nil {
		rp.children()
	}
	if rp.diff == nil && rp.result != nil {
		rp.compareResult()
	}
	if rp.diff == nil {
		rp.checkOrder()
	}
}

// children compares the executions that were started with those that are recorded.
func (rp *replay) children() {
	roots := sim.Config{ID: rp.header.ID, Executions: rp.header.Executions}.IDs()
	for _, w := range rp.order {
		if slices.Contains(roots, w.started.Execution) {
			continue
		}
		rp.at = w.from
		start, known := rp.starts[w.started.Execution]
		if !known {
			rp.unexpected(w.started, "nothing: no task has started it")
			return
		}
		if rp.compareData(w.started, start); rp.diff != nil {
			return
		}
	}
	if rp.fromHistory() || !rp.finished() {
		return
	}
	for _, id := range slices.Sorted(maps.Keys(rp.starts)) {
		if rp.executions[id] == nil {
			rp.differs(&Difference{What: "missing", Recorded: "nothing", Replayed: history.Describe(rp.starts[id])}, nil)
			return
		}
	}
}

// comparison returns how to compare data. If a document's version changed, the sources of
// its emitted events may differ accordingly.
func (rp *replay) comparison(ignore ...string) comparison {
	l := comparison{ignore: ignore}
	for _, d := range rp.docs {
		if d.changed() {
			l.alias = [2]string{sourceOf(d.was), sourceOf(d.now)}
		}
	}
	return l
}

// sourceOf returns the source of the events that a workflow emits.
func sourceOf(def *dsl.Definition) string {
	doc := def.Document
	return "/" + strings.Join([]string{doc.Namespace, doc.Name, doc.Version}, "/")
}

// verdict returns the result.
func (rp *replay) verdict() *Verdict {
	v := &Verdict{
		File: rp.Name, Agrees: rp.diff == nil, Execution: rp.header.ID, Finished: rp.finished(), Events: len(rp.entries),
		Calls: rp.exchange, Arrivals: len(rp.arrivals), Difference: rp.diff, Notes: rp.notes, Order: rp.ordered(),
	}
	if rp.main != nil {
		v.Workflow = rp.main.was.ID()
	}
	if w := rp.executions[rp.header.ID]; w != nil && w.state != nil {
		v.Status = string(w.state.Status)
	}
	if v.Agrees && rp.tolerated != nil {
		v.Agrees, v.Difference = false, rp.tolerated
	}
	if rp.main != nil && rp.main.changed() && !v.Finished {
		v.Migration = rp.migration()
	}
	if rp.by.opts.At != nil && rp.diff == nil {
		v.States = rp.states()
	}
	return v
}
