package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/history"
	"flunq.io/flunq/sim/recording"
)

// Recording collects the content of a recording while its lines are written to it. The
// lines are those of 'flunq run --record', which contain no secrets. It keeps no more data
// than a page shows.
type Recording struct {
	Name  string // distinguishes it from other runs of the report
	Notes []string

	Faults     []string    // descriptions of the faults, in order
	Difference *Difference // nil: none

	head    recording.HeaderLine
	docs    []*document
	partial []byte // the beginning of an incomplete line
	err     error

	seq    int // number of lines so far, which orders events
	last   time.Time
	size   int // bytes of data kept
	events []*eventEntry
	runs   []*run          // in the order of their start, including executions
	byKey  map[string]*run // by execution and task id
	roots  []*run

	executions map[string]*history.Execution
	replays    map[string]*historyReplay
	faults     []*fault
	tasks      int
	result     *recording.ResultLine
}

// NewRecording returns an empty recording with a name.
func NewRecording(name string) *Recording {
	return &Recording{Name: name, executions: map[string]*history.Execution{}, byKey: map[string]*run{}, replays: map[string]*historyReplay{}}
}

// fault is a line of a recording about a fault, of any version.
type fault struct {
	At    time.Time `json:"at"`
	Fault struct {
		Kind    string `json:"kind"`
		Service string `json:"service"`
		Command uint64 `json:"command"`
		Amount  string `json:"amount"`
	} `json:"fault"`
	Doing string `json:"doing"`

	seq int
}

func (f *fault) moment() history.Moment { return history.Moment{At: f.At, Version: int64(f.seq)} }

// document is a workflow of the recording.
type document struct {
	def   *dsl.Definition
	hash  string
	index int
}

// Write adds lines. It never fails: the page reports lines that cannot be parsed.
func (r *Recording) Write(p []byte) (int, error) {
	r.partial = append(r.partial, p...)
	for line, rest, whole := bytes.Cut(r.partial, []byte("\n")); whole; line, rest, whole = bytes.Cut(rest, []byte("\n")) {
		r.take(line)
		r.partial = rest
	}
	return len(p), nil
}

// finish adds a last line without a line break.
func (r *Recording) finish() {
	if len(bytes.TrimSpace(r.partial)) > 0 {
		r.take(r.partial)
	}
	r.partial = nil
}

// take parses one line. After one that cannot be parsed it does nothing.
func (r *Recording) take(line []byte) {
	line = bytes.TrimSpace(redacted(line))
	if len(line) == 0 || r.err != nil {
		return
	}
	r.seq++
	var kind struct {
		Record string `json:"record"`
		event.Recorded
	}
	err := json.Unmarshal(line, &kind)
	switch {
	case err != nil:
	case kind.Record == "header":
		err = r.takeHead(line)
	case kind.Record == "history":
		kind.Base64 = redacted(kind.Base64)
		err = r.takeEvent(kind.Recorded)
	case kind.Record == "http":
		err = r.takeCall(line)
	case kind.Record == "fault":
		f := &fault{seq: r.seq}
		err = json.Unmarshal(line, f)
		r.faults = append(r.faults, f)
		r.see(f.At)
	case kind.Record == "result":
		r.result = new(recording.ResultLine)
		err = json.Unmarshal(line, r.result)
	default: // other lines are not needed
	}
	if err != nil {
		r.err = fmt.Errorf("line %d: %w", r.seq, err)
	}
}

func (r *Recording) takeHead(line []byte) error {
	if err := json.Unmarshal(line, &r.head); err != nil {
		return fmt.Errorf("header: %w", err)
	}
	r.last = r.head.Start
	for i, doc := range append([]recording.DocumentText{r.head.Document}, r.head.With...) {
		def, _, err := dsl.Parse("document", []byte(doc.Text))
		if err != nil {
			return errors.New("the document is not valid in this version of flunq")
		}
		r.docs = append(r.docs, &document{def, doc.SHA256, i})
	}
	return nil
}

// see records the latest time.
func (r *Recording) see(at time.Time) {
	if at.After(r.last) {
		r.last = at
	}
}

// end is after everything.
func (r *Recording) end() history.Moment { return history.Moment{At: r.last, Version: int64(r.seq)} }

// Definition returns a document by name, nil if the recording does not contain it.
func (r *Recording) Definition(name string) *dsl.Definition {
	for _, d := range r.docs {
		if d.def.Document.Name == name {
			return d.def
		}
	}
	return nil
}

// Empty reports whether there is nothing to show.
func (r *Recording) Empty() bool { return len(r.docs) == 0 || len(r.runs) == 0 }
