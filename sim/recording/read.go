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

// arrivedEntry is an event from outside and the time when it came.
type arrivedEntry struct {
	entry

	at time.Time
}

// Read parses a recording. The given secrets replace their tokens; other tokens become
// placeholders. version is that of the running flunq. An error begins with the name and the line.
func Read(name string, src []byte, secrets map[string]any, version string) (*Recording, error) {
	r := &parser{
		Recording: &Recording{Name: name, calls: map[string][]*CallLine{}, known: map[string]int{}},
		seal:      newUnsealer(secrets), skipped: map[string]int{}, first: map[string]int{}, order: sim.NewTrace(),
	}
	if len(bytes.TrimSpace(src)) == 0 {
		return nil, fmt.Errorf("%s: empty, want a recording", name)
	}
	for line := range bytes.Lines(src) {
		r.at++
		text := bytes.TrimSpace(line)
		if len(text) == 0 {
			continue
		}
		if err := r.take(text); err != nil {
			if errors.Is(err, errNoLine) && r.at > 1 && !bytes.HasSuffix(line, []byte("\n")) {
				err = errors.New("the recording is cut off in the middle of this line")
			}
			return nil, fmt.Errorf("%s:%d: %w", name, r.at, err)
		}
	}
	if len(r.entries) == 0 {
		return nil, fmt.Errorf("%s: the recording has no history: it ends after line %d", name, r.at)
	}
	r.finish(secrets, version)
	return r.Recording, nil
}

// parser is the state of a parse.
type parser struct {
	*Recording

	seal    *unsealer
	at      int // current line number
	skipped map[string]int
	first   map[string]int // the first line of each kind that was skipped
	kinds   []string       // the skipped kinds in their order
	order   *sim.Trace
}

// take parses one line.
func (r *parser) take(text []byte) error {
	raw := text
	text = r.seal.open(text)
	if r.header.Record == "" {
		return r.takeHeader(text)
	}
	line, err := lineOf(text)
	if err != nil {
		return err
	}
	switch {
	case r.result != nil && line.Record != "":
		return fmt.Errorf("a line of kind %q after the result, which is the last line of a recording", line.Record)
	case line.Record == "history":
		return r.takeHistory(line, raw)
	case line.Record == "event":
		return r.takeArrival(line)
	case line.Record == "http":
		return r.takeCall(text)
	case line.Record == "result":
		r.result = new(ResultLine)
		return describe("result", json.Unmarshal(text, r.result))
	case line.Record == "document":
		return r.takeDocument(text)
	case line.Record == "fault":
		r.takeFault()
	case line.Record == "header":
		return errors.New("a second header: want one recording in a file")
	default:
		return r.skip(line.Record, text)
	}
	return nil
}

// lineOf parses the members that most lines have.
func lineOf(text []byte) (line eventLine, err error) {
	if err = json.Unmarshal(text, &line); err != nil {
		err = fmt.Errorf("%w: %w", errNoLine, err)
	}
	return line, err
}

// errNoLine means that a line cannot be parsed at all.
var errNoLine = errors.New("not a line of a recording")

// takeHeader parses the first line, and rejects a format that this version does not know.
func (r *parser) takeHeader(text []byte) error {
	h := &r.header
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

// check compares a document with its hash.
func (doc DocumentText) check() error {
	if sum := sha256.Sum256([]byte(doc.Text)); doc.SHA256 != hex.EncodeToString(sum[:]) {
		return errors.New("the text of a document does not match its hash: the file was changed or damaged")
	}
	return nil
}

// takeDocument parses a document from before a migration.
func (r *parser) takeDocument(text []byte) error {
	var line documentLine
	if err := json.Unmarshal(text, &line); err != nil {
		return describe("document", err)
	}
	r.earlier = append(r.earlier, line.Document)
	return line.Document.check()
}

func (r *parser) takeHistory(line eventLine, raw []byte) error {
	e, err := r.eventOf(line)
	if err != nil {
		return err
	}
	if e.Execution == "" {
		return errors.New("a history event without executionid")
	}
	r.entries = append(r.entries, entry{e, r.at})
	// The hash of an export covers the tokens of secrets, that of a run the secrets
	// themselves.
	if r.header.Results == "history" && (bytes.Contains(raw, []byte(tokenMark)) || line.Base64 != nil) {
		if line, err = lineOf(raw); err == nil {
			e, err = line.Event()
		}
		if err != nil {
			return err
		}
	}
	r.order.Add(e)
	return nil
}

func (r *parser) takeArrival(line eventLine) error {
	e, err := r.eventOf(line)
	if err != nil {
		return err
	}
	at := e.Time
	if line.At != "" {
		if at, err = time.Parse(time.RFC3339Nano, line.At); err != nil {
			return fmt.Errorf("at: %w", err)
		}
	}
	if _, ok := r.known[arrivalKey(e.Source, e.ID)]; !ok {
		r.known[arrivalKey(e.Source, e.ID)] = len(r.arrivals)
	}
	r.arrivals = append(r.arrivals, arrivedEntry{entry{e, r.at}, at})
	return nil
}

func (r *parser) eventOf(line eventLine) (event.Event, error) {
	line.Base64 = r.seal.open(line.Base64)
	e, err := line.Event()
	if err != nil {
		return e, fmt.Errorf("not an event: %w", err)
	}
	return e, nil
}

func (r *parser) takeCall(text []byte) error {
	call := new(CallLine)
	if err := json.Unmarshal(text, call); err != nil {
		return describe("http", err)
	}
	call.line = r.at
	key := call.key()
	r.calls[key] = append(r.calls[key], call)
	r.exchange++
	return nil
}

// takeFault counts a fault; its effects are in the history.
func (r *parser) takeFault() {
	if r.faults++; r.faults == 1 {
		r.first["fault"] = r.at
	}
}

// key identifies the task run that made the call.
func (c *CallLine) key() string {
	return c.Execution + " " + event.Run{Ref: c.Task, Iteration: c.Iteration, Attempt: c.Attempt}.String()
}

// skip counts a line of an unknown kind.
func (r *parser) skip(kind string, text []byte) error {
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
			r.takeFault()
			return nil
		}
	}
	if r.skipped[kind]++; r.skipped[kind] == 1 {
		r.kinds = append(r.kinds, kind)
		r.first[kind] = r.at
	}
	return nil
}

func describe(kind string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", kind, err)
}

// finish evaluates the file as a whole.
func (r *parser) finish(secrets map[string]any, version string) {
	r.sealed, r.marked = r.seal.tokens, r.seal.seen
	r.secrets = r.seal.secrets(secrets, r.header.Secrets)
	r.Recording.order = r.order.Sum()
	switch r.faults {
	case 0:
	case 1:
		r.note("1 fault was injected when this was recorded (line %d)", r.first["fault"])
	default:
		r.note("%s were injected when this was recorded (the first in line %d)", history.Count(r.faults, "fault"), r.first["fault"])
	}
	for _, kind := range r.kinds {
		text := fmt.Sprintf("%s of kind %q", history.Count(r.skipped[kind], "line"), kind)
		if r.skipped[kind] == 1 {
			text = fmt.Sprintf("a line of kind %q", kind)
		}
		r.note("%s skipped (line %d)", text, r.first[kind])
	}
	if newerVersion(r.header.Flunq, version) {
		r.note("recorded by flunq %s, which is newer than this one (%s)", r.header.Flunq, version)
	}
	if r.result == nil {
		r.note("the recording has no result: it ends at line %d", r.at)
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
