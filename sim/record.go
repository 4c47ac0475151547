package sim

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/store"
)

// recordingFormat is the version of the recording's form.
const recordingFormat = 1

// The lines of a recording: a header, what came from outside and the events of
// the histories as they happened, and the result.
type (
	headerLine struct {
		Record   string             `json:"record"` // "header"
		Format   int                `json:"format"`
		Flunq    string             `json:"flunq"`
		Document recordedDocument   `json:"document"`
		With     []recordedDocument `json:"with,omitempty"`
		Input    json.RawMessage    `json:"input"`
		ID       string             `json:"execution"`
		Tenant   string             `json:"tenant"`
		Seed     uint64             `json:"seed"`
		Start    time.Time          `json:"start"`
		Remote   bool               `json:"remote,omitempty"`
		Results  string             `json:"results,omitempty"` // "history": there are no exchanges, see Export
	}
	recordedDocument struct {
		Text   string `json:"text"`
		SHA256 string `json:"sha256"`
	}
	callLine struct {
		Record    string            `json:"record"` // "http"
		At        time.Time         `json:"at"`
		Task      string            `json:"task"`
		Iteration string            `json:"iteration,omitempty"`
		Attempt   string            `json:"attempt,omitempty"`
		Execution string            `json:"execution"`
		Request   recordedRequest   `json:"request"`
		Response  *recordedResponse `json:"response,omitempty"`
		Error     string            `json:"error,omitempty"`
		TookMS    int64             `json:"took_ms"`
	}
	eventLine struct {
		Record string            `json:"record"` // "history", or "event" for one from outside
		Event  map[string]string `json:"event"`
	}
	resultLine struct {
		Record  string          `json:"record"` // "result"
		Status  string          `json:"status"`
		Output  json.RawMessage `json:"output,omitempty"`
		Error   *event.Problem  `json:"error,omitempty"`
		Stop    Stop            `json:"stop,omitempty"`
		Order   string          `json:"order"`
		Outcome string          `json:"outcome"`
	}
)

// recording writes the lines of one run. Secrets never get into it.
type recording struct {
	out  *bufio.Writer
	seal *store.Sealer
	err  error
}

// Record is Run, and writes what is needed to run again to out, a JSON object a line.
func Record(ctx context.Context, cfg Config, out io.Writer) (*Result, error) {
	cfg = cfg.withDefaults()
	rec := &recording{out: bufio.NewWriter(out), seal: store.NewSealer(cfg.Secrets)}
	rec.header(cfg)
	cfg.record = rec
	observe := cfg.Observe
	cfg.Observe = func(events []event.Event) {
		for _, e := range events {
			rec.event("history", e)
		}
		if observe != nil {
			observe(events)
		}
	}
	result, err := Run(ctx, cfg)
	if err != nil {
		return nil, err
	}
	rec.line(resultLine{
		Record: "result", Status: string(result.Status), Output: result.Output, Error: result.Error,
		Stop: result.Stop, Order: result.Order, Outcome: result.Outcome,
	})
	if rec.err == nil {
		rec.err = rec.out.Flush()
	}
	if rec.err != nil {
		return nil, fmt.Errorf("write the recording: %w", rec.err)
	}
	return result, nil
}

func (r *recording) header(cfg Config) {
	h := headerLine{
		Record: "header", Format: recordingFormat, Flunq: cfg.Version, Document: recorded(cfg.Definition),
		Input: cfg.Input, ID: cfg.ID, Tenant: cfg.Tenant, Seed: cfg.Seed, Start: cfg.Start, Remote: cfg.Remote,
	}
	for _, def := range cfg.With {
		h.With = append(h.With, recorded(def))
	}
	r.line(h)
}

func recorded(def *dsl.Definition) recordedDocument {
	sum := sha256.Sum256(def.Source)
	return recordedDocument{Text: string(def.Source), SHA256: hex.EncodeToString(sum[:])}
}

// event writes an event as the attributes that Redis has of it.
func (r *recording) event(kind string, e event.Event) {
	fields := e.Fields()
	attributes := make(map[string]string, len(fields)/2)
	for i := 0; i < len(fields); i += 2 {
		attributes[fields[i]] = fields[i+1]
	}
	r.line(eventLine{Record: kind, Event: attributes})
}

// line writes one object, its secrets sealed.
func (r *recording) line(v any) {
	if r.err != nil {
		return
	}
	text, err := json.Marshal(v)
	if err == nil {
		_, err = r.out.Write(append(r.seal.Seal(text), '\n'))
	}
	r.err = err
}
