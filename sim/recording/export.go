package recording

import (
	"bufio"
	"encoding/json"
	"io"
	"time"

	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/sim"
)

// Exported describes an execution that ran elsewhere; it becomes the header of its
// recording.
type Exported struct {
	Version    string // the flunq version
	Definition *dsl.Definition
	With       []*dsl.Definition // the definitions that it has run
	Input      json.RawMessage
	ID, Tenant string
	Start      time.Time
	Secrets    map[string]any // sealed in the recording; a history that was read without its secrets has them sealed already

	// Document returns the document with a hash, which the execution ran before a migration;
	// nil if it is unknown.
	Document func(hash string) (*dsl.Definition, error)
}

// Exporting is the Stop of a recording that was taken before its execution ended.
const Exporting sim.Stop = "exported"

// Export writes a recording of an execution whose calls were not recorded. Their results are
// in the history, in its task.completed events, and the header says "results": "history".
type Export struct {
	rec      *recording
	trace    *sim.Trace
	document func(hash string) (*dsl.Definition, error)
}

// documentLine records a document that the execution ran before the migration that
// follows.
type documentLine struct {
	Record   string       `json:"record"` // "document"
	Document DocumentText `json:"document"`
}

// NewExport writes the header of a recording to out. Call Add and End afterwards.
func NewExport(out io.Writer, x Exported) *Export {
	rec := &recording{out: bufio.NewWriter(out), seal: store.NewSealer(withEncodings(x.Secrets))}
	rec.header(HeaderLine{
		Flunq: x.Version, Document: recorded(x.Definition), Input: x.Input, ID: x.ID, Tenant: x.Tenant,
		Start: x.Start, Results: "history",
	}, x.With)
	return &Export{rec: rec, trace: sim.NewTrace(), document: x.Document}
}

// before writes the document that the execution was migrated from.
func (e *Export) before(migrated event.Event) error {
	var m event.Migrated
	if err := decide.DecodeData(migrated, &m); err != nil || e.document == nil {
		return err
	}
	def, err := e.document(m.From)
	if def != nil {
		e.rec.line(documentLine{Record: "document", Document: recorded(def)})
	}
	return err
}

// Add writes the next events of the history. An event from outside is written before the
// history event that records it.
func (e *Export) Add(history []event.Event) error {
	for _, one := range history {
		e.trace.Add(one)
		if one.Type == event.EventReceived {
			e.rec.arrived(decide.Arrived(one), time.Time{})
		}
		if one.Type == event.ExecutionMigrated {
			if err := e.before(one); err != nil {
				return err
			}
		}
		e.rec.event(one)
	}
	return e.rec.flush()
}

// End writes the result: how the execution has ended, if it has.
func (e *Export) End(status decide.Status, output json.RawMessage, problem *event.Problem) error {
	r := &sim.Result{Status: status, Output: output, Error: problem, Order: e.trace.Sum()}
	if !status.Ended() {
		r.Stop = Exporting
	}
	r.Outcome = sim.OutcomeOf(r)
	e.rec.result(r)
	return e.rec.flush()
}
