package recording

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/history"
	"flunq.io/flunq/sim"
)

// Recording is a recorded run: an execution, its child executions, and what came from
// outside. It does not change once it is read.
type Recording struct {
	Name  string   // of the file
	Notes []string // remarks about the file, for users

	header   HeaderLine
	entries  []entry
	arrivals []arrivedEntry         // events from outside
	known    map[string]int         // index of each arrival by its source and id
	calls    map[string][]*CallLine // by execution and run, in their order
	earlier  []DocumentText         // documents that the execution ran before it was migrated
	exchange int                    // number of calls
	faults   int                    // number of faults
	result   *ResultLine            // nil: the recording ends before the execution did

	secrets map[string]any
	sealed  bool // some secrets are unknown: placeholders replace them
	marked  bool // there were tokens of secrets, known or unknown
	order   string
}

// entry is an event and its line in the recording, counted from 1.
type entry struct {
	event.Event

	line int
}

// arrivedEntry is an event from outside and the time when it arrived.
type arrivedEntry struct {
	entry

	at time.Time
}

// Read parses a recording. The given secrets replace their tokens; other tokens become
// placeholders. version is that of the running flunq. An error begins with the name and the line.
func Read(name string, src []byte, secrets map[string]any, version string) (*Recording, error) {
	p := &parser{
		Recording: &Recording{Name: name, calls: map[string][]*CallLine{}, known: map[string]int{}},
		seal:      newUnsealer(secrets), order: sim.NewTrace(),
	}
	if len(bytes.TrimSpace(src)) == 0 {
		return nil, fmt.Errorf("%s: empty, want a recording", name)
	}
	for line := range bytes.Lines(src) {
		p.at++
		text := bytes.TrimSpace(line)
		if len(text) == 0 {
			continue
		}
		if err := p.take(text); err != nil {
			if errors.Is(err, errNoLine) && p.at > 1 && !bytes.HasSuffix(line, []byte("\n")) {
				err = errors.New("the recording is cut off in the middle of this line")
			}
			return nil, fmt.Errorf("%s:%d: %w", name, p.at, err)
		}
	}
	if len(p.entries) == 0 {
		return nil, fmt.Errorf("%s: the recording has no history: it ends after line %d", name, p.at)
	}
	p.finish(secrets, version)
	return p.Recording, nil
}

// parser is the state of a parse.
type parser struct {
	*Recording

	seal    *unsealer
	at      int    // current line number
	skipped int    // lines of unknown kinds
	unknown string // the first of them
	fault   int    // the first line with a fault
	order   *sim.Trace
}

// take parses one line.
func (p *parser) take(text []byte) error {
	raw := text
	text = p.seal.open(text)
	if p.header.Record == "" {
		return p.takeHeader(text)
	}
	line, err := lineOf(text)
	if err != nil {
		return err
	}
	switch {
	case p.result != nil && line.Record != "":
		return fmt.Errorf("a line of kind %q after the result, which is the last line of a recording", line.Record)
	case line.Record == "history":
		return p.takeHistory(line, raw)
	case line.Record == "event":
		return p.takeArrival(line)
	case line.Record == "http":
		return p.takeCall(text)
	case line.Record == "result":
		p.result = new(ResultLine)
		return describe("result", json.Unmarshal(text, p.result))
	case line.Record == "document":
		return p.takeDocument(text)
	case line.Record == "fault":
		p.takeFault()
	case line.Record == "header":
		return errors.New("a second header: want one recording per file")
	default:
		return p.skip(line.Record, text)
	}
	return nil
}

// lineOf parses the members that most lines have.
func lineOf(text []byte) (line eventLine, err error) {
	if err = json.Unmarshal(text, &line); err != nil {
		err = fmt.Errorf("%w: %w", errNoLine, event.Readable(err))
	}
	return line, err
}

// errNoLine means that a line cannot be parsed at all.
var errNoLine = errors.New("not a line of a recording")

// takeHeader parses the first line, and rejects a format that this version does not know.
func (p *parser) takeHeader(text []byte) error {
	h := &p.header
	err := json.Unmarshal(text, h)
	if h.Record != "header" || h.Format < 1 {
		return errors.New("not a recording: want a header such as 'flunq run --record FILE' writes")
	}
	if h.Format > recordingFormat {
		return fmt.Errorf("format %d, written by flunq %s: this flunq reads formats up to %d; use a newer flunq",
			h.Format, h.Flunq, recordingFormat)
	}
	if err != nil {
		return describe("header", err)
	}
	for _, doc := range append([]DocumentText{h.Document}, h.With...) {
		if err := doc.check(); err != nil {
			return err
		}
	}
	return nil
}

// check verifies the hash of a document.
func (doc DocumentText) check() error {
	if sum := sha256.Sum256([]byte(doc.Text)); doc.SHA256 != hex.EncodeToString(sum[:]) {
		return errors.New("the source of a document does not match its hash: the file was changed or damaged")
	}
	return nil
}

// takeDocument parses a document from before a migration.
func (p *parser) takeDocument(text []byte) error {
	var line documentLine
	if err := json.Unmarshal(text, &line); err != nil {
		return describe("document", err)
	}
	p.earlier = append(p.earlier, line.Document)
	return line.Document.check()
}

func (p *parser) takeHistory(line eventLine, raw []byte) error {
	e, err := p.eventOf(line)
	if err != nil {
		return err
	}
	if e.Execution == "" {
		return errors.New("a history event without executionid")
	}
	p.entries = append(p.entries, entry{e, p.at})
	// The hash of an export covers the tokens of secrets, that of a run the secrets
	// themselves.
	if p.header.Results == "history" && (bytes.Contains(raw, []byte(tokenMark)) || line.Base64 != nil) {
		if line, err = lineOf(raw); err == nil {
			e, err = line.Event()
		}
		if err != nil {
			return err
		}
	}
	p.order.Add(e)
	return nil
}

func (p *parser) takeArrival(line eventLine) error {
	e, err := p.eventOf(line)
	if err != nil {
		return err
	}
	at := e.Time
	if line.At != "" {
		if at, err = time.Parse(time.RFC3339Nano, line.At); err != nil {
			return fmt.Errorf("at: %w", err)
		}
	}
	if _, ok := p.known[arrivalKey(e.Source, e.ID)]; !ok {
		p.known[arrivalKey(e.Source, e.ID)] = len(p.arrivals)
	}
	p.arrivals = append(p.arrivals, arrivedEntry{entry{e, p.at}, at})
	return nil
}

func (p *parser) eventOf(line eventLine) (event.Event, error) {
	line.Base64 = p.seal.open(line.Base64)
	e, err := line.Event()
	if err != nil {
		return e, fmt.Errorf("not an event: %w", err)
	}
	return e, nil
}

func (p *parser) takeCall(text []byte) error {
	call := new(CallLine)
	if err := json.Unmarshal(text, call); err != nil {
		return describe("http", err)
	}
	call.line = p.at
	key := call.Execution + " " + event.Run{Ref: call.Task, Iteration: call.Iteration, Attempt: call.Attempt}.String()
	p.calls[key] = append(p.calls[key], call)
	p.exchange++
	return nil
}

// takeFault counts a fault; its effects are in the history.
func (p *parser) takeFault() {
	if p.faults++; p.faults == 1 {
		p.fault = p.at
	}
}

// skip counts a line of an unknown kind.
func (p *parser) skip(kind string, text []byte) error {
	if kind == "" {
		var members map[string]json.RawMessage
		if err := json.Unmarshal(text, &members); err != nil || members == nil {
			return errors.New("not a line of a recording: want an object")
		}
		for name := range members {
			if kind == "" || name < kind {
				kind = name
			}
		}
		if _, ok := members["fault"]; ok {
			p.takeFault()
			return nil
		}
	}
	if p.skipped++; p.skipped == 1 {
		p.unknown = fmt.Sprintf("kind %q (line %d)", kind, p.at)
	}
	return nil
}

func describe(kind string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", kind, event.Readable(err))
}

// finish evaluates the file as a whole.
func (p *parser) finish(secrets map[string]any, version string) {
	p.sealed, p.marked = p.seal.tokens, p.seal.seen
	p.secrets = p.seal.secrets(secrets, p.header.Secrets)
	p.Recording.order = p.order.Sum()
	switch {
	case p.faults == 1:
		p.note("1 fault was injected when this was recorded (line %d)", p.fault)
	case p.faults > 1:
		p.note("%s were injected when this was recorded (the first in line %d)", history.Count(p.faults, "fault"), p.fault)
	}
	switch {
	case p.skipped == 1:
		p.note("skipped a line of %s", p.unknown)
	case p.skipped > 1:
		p.note("skipped %s of unknown kinds, the first of %s", history.Count(p.skipped, "line"), p.unknown)
	}
	if newerVersion(p.header.Flunq, version) {
		p.note("recorded by flunq %s, which is newer than this one (%s)", p.header.Flunq, version)
	}
	if p.result == nil {
		p.note("the recording has no result: it ends at line %d", p.at)
	}
}

func (r *Recording) note(format string, args ...any) {
	r.Notes = append(r.Notes, fmt.Sprintf(format, args...))
}

// newerVersion reports whether version a is newer than b; false unless both are releases.
func newerVersion(a, b string) bool {
	x, y := release(a), release(b)
	return x != nil && y != nil && slices.Compare(x, y) > 0
}

// release returns the numbers of a version, nil if it is not a release.
func release(version string) []int {
	parts := strings.Split(strings.TrimPrefix(version, "v"), ".")
	if len(parts) != 3 {
		return nil
	}
	numbers := make([]int, 0, len(parts))
	for _, part := range parts {
		n, err := strconv.Atoi(part)
		if err != nil {
			return nil
		}
		numbers = append(numbers, n)
	}
	return numbers
}

// finished reports whether the execution ended within the recording.
func (r *Recording) finished() bool {
	return r.result != nil && decide.Status(r.result.Status).Ended()
}

// Events returns the number of history events.
func (r *Recording) Events() int { return len(r.entries) }

// fromHistory reports whether this is an export, which has no recorded calls.
func (r *Recording) fromHistory() bool { return r.header.Results == "history" }

// limits returns the limits with which the execution ran.
func (r *Recording) limits() decide.Limits {
	if r.header.Limits == nil {
		return decide.DefaultLimits()
	}
	return decide.Limits(*r.header.Limits)
}

// end returns the time of the last recorded event.
func (r *Recording) end() time.Time { return r.entries[len(r.entries)-1].Time }

// Histories returns the events of all histories in the recording, in their order.
func (r *Recording) Histories() []event.Event {
	out := make([]event.Event, len(r.entries))
	for i, e := range r.entries {
		out[i] = e.Event
	}
	return out
}

// History returns the history of the recorded execution, without those of its children.
func (r *Recording) History() []event.Event {
	return r.history(r.entries[0].Execution, len(r.entries))
}

// history returns the events of an execution before entry end.
func (r *Recording) history(execution string, end int) (out []event.Event) {
	for _, e := range r.entries[:end] {
		if e.Execution == execution {
			out = append(out, e.Event)
		}
	}
	return out
}
