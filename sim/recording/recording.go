// Package recording writes runs of the simulator and histories from Redis as recordings, reads
// recordings and replays them.
package recording

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
	"unicode/utf8"

	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/sim"
)

// recordingFormat is the format version of a recording. In format 1 the data of an event
// was a string among its attributes.
const recordingFormat = 2

// The lines of a recording: a header, then events from outside, calls and history events
// as they happened, then the result.
type (
	// HeaderLine begins a recording.
	HeaderLine struct {
		Record   string          `json:"record"` // "header"
		Format   int             `json:"format"`
		Flunq    string          `json:"flunq"`
		Document DocumentText    `json:"document"`
		With     []DocumentText  `json:"with,omitempty"`
		Input    json.RawMessage `json:"input"`
		ID       string          `json:"execution"`
		Tenant   string          `json:"tenant"`
		Seed     uint64          `json:"seed"`
		Start    time.Time       `json:"start"`
		Remote   bool            `json:"remote,omitempty"`
		Results  string          `json:"results,omitempty"` // "history": calls were not recorded, see Export
		recordedFlags
	}
	// recordedFlags holds the settings that influence the run and differ from the defaults.
	recordedFlags struct {
		Calls      string          `json:"calls,omitempty"`   // "real": they took real time
		Secrets    any             `json:"secrets,omitempty"` // the shape of the secrets: names and kinds of values
		Limits     *recordedLimits `json:"limits,omitempty"`
		MaxTimeMS  int64           `json:"max_time_ms,omitempty"`
		MaxTasks   int             `json:"max_tasks,omitempty"`
		Executors  int             `json:"executors,omitempty"`
		Processes  int             `json:"processes,omitempty"`
		Executions int             `json:"executions,omitempty"`
	}
	recordedLimits struct {
		Tasks int `json:"tasks"`
		Depth int `json:"depth"`
		Data  int `json:"data"`

		History, HistoryBytes int `json:"-"` // the start event records what differs from the defaults
	}
	// DocumentText is a workflow document.
	DocumentText struct {
		Text   string `json:"text"`
		SHA256 string `json:"sha256"`
	}
	// CallLine is a call of a task and its answer.
	CallLine struct {
		Record    string            `json:"record"` // "http"
		At        time.Time         `json:"at"`
		Task      string            `json:"task"`
		Iteration string            `json:"iteration,omitempty"`
		Attempt   string            `json:"attempt,omitempty"`
		Execution string            `json:"execution"`
		Request   recordedRequest   `json:"request"`
		Response  *recordedResponse `json:"response,omitempty"`
		Error     string            `json:"error,omitempty"`
		TookMS    float64           `json:"took_ms"`
		Open      bool              `json:"open,omitempty"` // it had no response when the run ended

		line int // in the recording that was read
	}
	eventLine struct {
		Record string `json:"record"` // "history", or "event" for one from outside
		At     string `json:"at"`     // when an event from outside arrived, whatever its own time is
		event.Recorded
	}
	// ResultLine ends a recording.
	ResultLine struct {
		Record  string          `json:"record"` // "result"
		Status  string          `json:"status"`
		Output  json.RawMessage `json:"output,omitempty"`
		Error   *event.Problem  `json:"error,omitempty"`
		Stop    sim.Stop        `json:"stop,omitempty"`
		Order   string          `json:"order"`
		Effects string          `json:"effects,omitempty"`
		Outcome string          `json:"outcome"`
	}
)

// recording writes the lines of one run. It never writes secrets.
type recording struct {
	out      *bufio.Writer
	seal     *store.Sealer
	redactor *event.Redactor
	err      error
}

// Record is like sim.Run, and also writes everything that a replay needs to out, one JSON
// object per line.
func Record(ctx context.Context, cfg sim.Config, out io.Writer) (*sim.Result, error) {
	cfg = cfg.WithDefaults()
	rec := &recording{out: bufio.NewWriter(out), seal: store.NewSealer(withEncodings(cfg.Secrets)), redactor: event.NewRedactor(cfg.Secrets)}
	rec.header(HeaderLine{
		Flunq: cfg.Version, Document: recorded(cfg.Definition), Input: cfg.Input, ID: cfg.ID, Tenant: cfg.Tenant,
		Seed: cfg.Seed, Start: cfg.Start, Remote: cfg.Remote, recordedFlags: flagsOf(cfg),
	}, cfg.With)
	cfg.Arrived, cfg.Injected = rec.arrived, rec.fault
	cfg.Wrap = func(next http.RoundTripper, now func() time.Time) http.RoundTripper {
		return &callRecorder{next: next, rec: rec, now: now}
	}
	observe := cfg.Observe
	cfg.Observe = func(events []event.Event) {
		for _, e := range events {
			rec.event(e)
		}
		if observe != nil {
			observe(events)
		}
	}
	result, err := sim.Run(ctx, cfg)
	if err == nil {
		rec.result(result)
	}
	// Even after an error, the events before it help to find its cause.
	return result, errors.Join(err, rec.flush())
}

func (r *recording) flush() error {
	if r.err == nil {
		r.err = r.out.Flush()
	}
	if r.err != nil {
		return fmt.Errorf("write the recording: %w", r.err)
	}
	return nil
}

// header writes the first line. with lists the documents of child workflows.
func (r *recording) header(h HeaderLine, with []*dsl.Definition) {
	h.Record, h.Format = "header", recordingFormat
	for _, def := range with {
		h.With = append(h.With, recorded(def))
	}
	r.line(h)
}

func flagsOf(cfg sim.Config) recordedFlags {
	f := recordedFlags{MaxTimeMS: cfg.MaxTime.Milliseconds(), MaxTasks: cfg.MaxTasks}
	if cfg.Mocks == nil || cfg.Onward {
		f.Calls = realCalls
	}
	if len(cfg.Secrets) > 0 {
		f.Secrets = shapeOf(cfg.Secrets)
	}
	if cfg.Limits != decide.DefaultLimits() {
		f.Limits = (*recordedLimits)(&cfg.Limits)
	}
	if cfg.Executors != defaultExecutors {
		f.Executors = cfg.Executors
	}
	if cfg.Processes > 1 {
		f.Processes = cfg.Processes
	}
	if cfg.Executions > 1 {
		f.Executions = cfg.Executions
	}
	return f
}

// realCalls marks a run whose calls took real time, so the times of a replay differ
// slightly.
const realCalls = "real"

// defaultExecutors is the default number of concurrent calls.
const defaultExecutors = 64

func recorded(def *dsl.Definition) DocumentText {
	sum := sha256.Sum256(def.Source)
	return DocumentText{Text: string(def.Source), SHA256: hex.EncodeToString(sum[:])}
}

// event writes an event of a history.
func (r *recording) event(e event.Event) { r.eventLine(`{"record":"history",`, e) }

// arrived writes an event from outside; at is zero if it is the event's own time.
func (r *recording) arrived(e event.Event, at time.Time) {
	head := `{"record":"event",`
	if !at.IsZero() {
		head += `"at":` + string(event.Encode(at)) + ","
	}
	r.eventLine(head, e)
}

// eventLine writes a line that begins with head and continues with an event.
func (r *recording) eventLine(head string, e event.Event) {
	if !utf8.Valid(e.Data) {
		e.Data = r.seal.Seal(e.Data) // while the secrets are still readable, before base64
	}
	line := r.seal.Seal(append(e.AppendRecorded([]byte(head), true), '}'))
	if r.seal != nil && !json.Valid(line) {
		// A secret made of digits can be part of a number, where a token is not allowed.
		line = r.seal.Seal(append(e.AppendRecorded([]byte(head), false), '}'))
	}
	r.write(line)
}

// line writes one object with its secrets sealed.
func (r *recording) line(v any) {
	text, err := json.Marshal(v)
	if err != nil {
		r.err = errors.Join(r.err, err)
		return
	}
	r.write(r.seal.Seal(text))
}

// result writes the last line.
func (r *recording) result(result *sim.Result) {
	r.line(ResultLine{
		Record: "result", Status: string(result.Status), Output: result.Output, Error: result.Error,
		Stop: result.Stop, Order: result.Order, Effects: result.Effects, Outcome: result.Outcome,
	})
}

// write ends a line. It writes nothing after an error.
func (r *recording) write(line []byte) {
	if r.err == nil {
		_, r.err = r.out.Write(append(line, '\n'))
	}
}

// faultLine is a fault in a recording.
type faultLine struct {
	Record  string    `json:"record"` // "fault"
	At      time.Time `json:"at"`
	Fault   sim.Fault `json:"fault"`
	Doing   string    `json:"doing,omitempty"`
	Process int       `json:"process"`
}

// fault writes a fault.
func (r *recording) fault(s sim.InjectedFault) {
	r.line(faultLine{"fault", s.At, s.Fault, s.Doing, s.Process})
}
