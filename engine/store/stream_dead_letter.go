package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"flunq.io/flunq/engine/event"
)

// DeadLetter is a dead letter: an event, or a timer, that was given up.
type DeadLetter struct {
	Tenant string
	Stream string // that it stands in
	ID     string // there
	Died   time.Time

	Event  event.Event // as far as it can be read
	Fields []string    // of the entry that was given up, name after name with its value
	Timer  string      // instead, of a timer that could not fire: its text
	Err    error       // why it cannot be brought back, if so

	Reason, Service           string
	Attempts                  int
	Replayed                  int // times that it was brought back before
	SourceStream, SourceID    string
	FirstFailure, LastFailure time.Time
}

// deadLetterFields are the fields that a letter has besides those of the original.
func deadLetterFields() []string {
	return []string{"reason", "attempts", "service", "source_stream", "source_id", "first_failure", "last_failure"}
}

// mostReplayed is how many fields an entry may have that a script writes at once.
const mostReplayed = 3900

// DeadLetterQuery says which dead letters to read: of a tenant, or of a stream that
// OtherStreams has found.
type DeadLetterQuery struct {
	Tenant, Stream string
	From, To       string // ids, both included; "" for the ends
	Oldest         bool   // the oldest first
	Brief          bool   // data that is long is left out
	Count          int
}

// At is the query that goes on at an id.
func (q DeadLetterQuery) At(next string) DeadLetterQuery {
	if q.Oldest {
		q.From = next
	} else {
		q.To = next
	}
	return q
}

// DeadLetters reads a page of dead letters, the newest first. Of a stream that holds
// other events too these are left out, so that there may be fewer than Count. The
// id at which to go on comes with them, "" at the end.
func (s Streams) DeadLetters(ctx context.Context, q DeadLetterQuery) (deadLetters []DeadLetter, next string, err error) {
	if err := CheckTenant(q.Tenant); err != nil {
		return nil, "", err
	}
	stream := q.Stream
	if stream == "" {
		stream = s.store.keys.DeadLetters(q.Tenant)
	}
	entries, err := s.entries(ctx, stream, q)
	if err != nil {
		return nil, "", failed("read the dead letters", err)
	}
	for _, entry := range entries {
		read := s.deadLetterOf
		if q.Stream != "" {
			read = s.deadLetterOfEvent
		}
		if l, ok := read(entry); ok {
			l.Tenant, l.Stream, l.ID, l.Died = q.Tenant, stream, entry.id, idTime(entry.id)
			deadLetters = append(deadLetters, l)
		}
	}
	if n := len(entries); n > 0 && n == q.Count {
		next = neighbour(entries[n-1].id, q.Oldest)
	}
	return deadLetters, next, nil
}

// FindDeadLetter returns the dead letter with an id, or ErrNotFound.
func (s Streams) FindDeadLetter(ctx context.Context, tenant, stream, id string) (DeadLetter, error) {
	ms, seq, _ := strings.Cut(id, "-")
	_, err := strconv.ParseUint(ms, 10, 64)
	if _, wrong := strconv.ParseUint(seq, 10, 64); err != nil || wrong != nil {
		return DeadLetter{}, fmt.Errorf("%w: dead letter %q, want an id such as 1767225600000-0", ErrName, id)
	}
	deadLetters, _, err := s.DeadLetters(ctx, DeadLetterQuery{Tenant: tenant, Stream: stream, From: id, To: id, Count: 1})
	if err != nil {
		return DeadLetter{}, err
	}
	if len(deadLetters) == 0 {
		return DeadLetter{}, fmt.Errorf("dead letter %s of tenant %s: %w: it was replayed or dropped, or belongs to another tenant", id, tenant, ErrNotFound)
	}
	return deadLetters[0], nil
}

// entry is one of a stream, with its fields in their order.
type entry struct {
	id     string
	fields []string
}

// entries reads entries as they stand: go-redis' own form has no order.
func (s Streams) entries(ctx context.Context, stream string, q DeadLetterQuery) ([]entry, error) {
	from, to := q.From, q.To
	if from == "" {
		from = "-"
	}
	if to == "" {
		to = "+"
	}
	args := []any{"XREVRANGE", stream, to, from, "COUNT", q.Count}
	if q.Oldest {
		args = []any{"XRANGE", stream, from, to, "COUNT", q.Count}
	}
	var ask *redis.Cmd
	if q.Brief {
		ask = briefScript.Run(ctx, s.store.rdb, []string{stream}, append([]any{longData}, args...)...)
	} else {
		ask = s.store.rdb.Do(ctx, args...)
	}
	reply, err := ask.Slice()
	if err != nil && !errors.Is(err, redis.Nil) {
		return nil, err
	}
	out := make([]entry, 0, len(reply))
	for _, item := range reply {
		parts, _ := item.([]any)
		if len(parts) != 2 {
			continue // an entry that was deleted while it was read
		}
		var e entry
		e.id, _ = parts[0].(string)
		fields, _ := parts[1].([]any)
		for _, field := range fields {
			text, _ := field.(string)
			e.fields = append(e.fields, text)
		}
		out = append(out, e)
	}
	return out, nil
}

// deadLetterOf separates the original event from the fields that the dead letter adds. An event
// may have attributes of the same names: these come first.
func (s Streams) deadLetterOf(e entry) (DeadLetter, bool) {
	own, names := map[string]string{}, deadLetterFields()
	var fields []string
	for i := len(e.fields) - 2; i >= 0; i -= 2 {
		name, value := e.fields[i], e.fields[i+1]
		if _, seen := own[name]; !seen && slices.Contains(names, name) {
			own[name] = value
			continue
		}
		fields = append(fields, value, name)
	}
	slices.Reverse(fields)
	l := DeadLetter{
		Reason: own["reason"], Service: own["service"], SourceStream: own["source_stream"], SourceID: own["source_id"],
		FirstFailure: moment(own["first_failure"]), LastFailure: moment(own["last_failure"]),
	}
	l.Attempts, _ = strconv.Atoi(own["attempts"]) // 0 says that it is not known
	if len(fields) == 2 && fields[0] == "timer" {
		l.Timer = fields[1]
		d := dueOf(redis.Z{Member: l.Timer}, l.LastFailure)
		l.Err = d.Err
		l.Event = event.Event{Type: event.TimerFired, Tenant: d.Tenant, Workflow: d.Workflow, Execution: d.Execution, Task: d.TaskID}
		return l, true
	}
	l.Fields = unpacked(fields)
	l.read(s.store)
	return l, true
}

// unpacked are the fields of an entry that had too many.
func unpacked(fields []string) []string {
	all := object(fields)
	text, packed := all[packedField]
	var inner map[string]string
	if !packed || json.Unmarshal([]byte(text), &inner) != nil {
		return fields
	}
	delete(all, packedField)
	return append(listed(inner), listed(all)...)
}

// read makes the original's event of its fields.
func (l *DeadLetter) read(s *Store) {
	// What is wrong with it is the reason for which it is here.
	l.Event, _ = s.decode(l.Fields)
	l.Replayed, _ = strconv.Atoi(l.Event.Ext[event.ReplayAttribute])
	delete(l.Event.Ext, event.ReplayAttribute)
	if n := len(l.Fields) / 2; n > mostReplayed {
		l.Err = fmt.Errorf("it has %d fields, more than %d, which nobody takes at once", n, mostReplayed)
	}
}

// Replay publishes the event of a dead letter again, byte for byte and with the count of
// its replays, or sets its timer again, and deletes the dead letter. It happens once, even if
// several callers try; Replay reports false if the dead letter is gone.
func (s Streams) Replay(ctx context.Context, l DeadLetter) (bool, error) {
	if l.Err != nil {
		return false, fmt.Errorf("dead letter %s cannot be replayed: %w", l.ID, l.Err)
	}
	if l.Timer != "" {
		d := dueOf(redis.Z{Member: l.Timer}, l.LastFailure)
		keys := []string{l.Stream, s.store.keys.Timers(d.Tenant), s.store.keys.Stream(d.Tenant)}
		n, err := replayTimerScript.Run(ctx, s.store.rdb, keys, append([]any{l.ID, formatScore(d.Timer.Due()), l.Timer}, NewTimers(s.store).news(d.Timer)...)...).Int()
		return n == 1, failed("replay", err)
	}
	fields := make([]string, 0, len(l.Fields)+2)
	for i := 0; i+1 < len(l.Fields); i += 2 {
		if l.Fields[i] != event.ReplayAttribute {
			fields = append(fields, l.Fields[i], l.Fields[i+1])
		}
	}
	fields = append(fields, event.ReplayAttribute, strconv.Itoa(l.Replayed+1))
	n, err := replayScript.Run(ctx, s.store.rdb, []string{l.Stream, s.store.keys.Stream(l.Tenant)}, append([]any{l.ID}, anys(fields)...)...).Int()
	return n == 1, failed("replay", err)
}

// Drop deletes dead letters and returns how many still existed.
func (s Streams) Drop(ctx context.Context, deadLetters ...DeadLetter) (int, error) {
	n := 0
	for _, l := range deadLetters {
		gone, err := s.store.rdb.XDel(ctx, l.Stream, l.ID).Result()
		if err != nil {
			return n, failed("drop", err)
		}
		n += int(gone)
	}
	return n, nil
}

// DeadLetter moves a message to the dead letters and publishes events about it. It reports
// false, and does nothing, if the message is not the consumer's any more.
func (s Streams) DeadLetter(ctx context.Context, m Message, d event.Dead, publish []event.Event) (mine bool, err error) {
	now, err := s.store.Now(ctx)
	if err != nil {
		return false, err
	}
	deadLetter := s.store.deadLetterArgs(m, d, now)
	args := append([]any{m.Group, m.ID, m.Consumer, len(deadLetter)}, deadLetter...)
	for _, e := range publish {
		args = s.store.appendEvent(args, &e, "", false)
	}
	keys := []string{s.store.keys.Stream(m.Tenant), s.store.keys.DeadLetters(m.Tenant)}
	n, err := deadLetterScript.Run(ctx, s.store.rdb, keys, args...).Int()
	return n == 1, failed("bury", err)
}

// eventOf reads an entry as an event, also one that stands in a single field as
// JSON, as some producers write it.
func (s Streams) eventOf(e entry) (event.Event, error) {
	fields := object(e.fields)
	if fields["type"] == "" {
		for _, name := range []string{"event", "data", "payload"} {
			if inner := attributes([]byte(fields[name])); inner["type"] != "" {
				fields = inner
				break
			}
		}
	}
	out, err := event.FromFields(listed(fields))
	s.store.sealer.unsealEvent(&out)
	return out, err
}

// deadLetterOfEvent reads an event that tells of a dead letter; false if it tells of
// something else.
func (s Streams) deadLetterOfEvent(e entry) (DeadLetter, bool) {
	reported, err := s.eventOf(e)
	switch reported.Type {
	case event.EventDead, event.TaskDead, event.TimerDead:
	default:
		return DeadLetter{}, false
	}
	data := attributes(reported.Data)
	first := func(names ...string) string {
		for _, name := range names {
			if data[name] != "" {
				return data[name]
			}
		}
		return ""
	}
	l := DeadLetter{
		Reason: first("reason", "error"), Service: first("service"), LastFailure: reported.Time, FirstFailure: reported.Time,
		Err: err,
	}
	l.Attempts, _ = strconv.Atoi(first("attempts")) // 0 says that it is not known
	l.Fields = listed(attributes([]byte(first("original", "original_event", "event"))))
	l.read(s.store)
	if l.Err == nil && l.Event.Type == "" {
		l.Err = errors.New("the original event is not in it")
	}
	if l.Event.Execution == "" {
		l.Event.Execution, l.Event.Workflow, l.Event.Task = reported.Execution, reported.Workflow, reported.Task
	}
	return l, true
}

// attributes are the members of a JSON object as the fields of an entry: texts
// as they are, all else as JSON. It is empty if the text is no object.
func attributes(text []byte) map[string]string {
	var members map[string]json.RawMessage
	if json.Unmarshal(text, &members) != nil {
		return nil
	}
	out := make(map[string]string, len(members))
	for name, value := range members {
		var plain string
		if json.Unmarshal(value, &plain) != nil {
			plain = string(value)
		}
		out[name] = plain
	}
	return out
}

// neighbour is the id next to one of an entry, behind it or before it.
func neighbour(id string, behind bool) string {
	ms, seq, _ := strings.Cut(id, "-")
	m, err := strconv.ParseUint(ms, 10, 64)
	n, wrong := strconv.ParseUint(seq, 10, 64)
	if err != nil || wrong != nil {
		return id
	}
	switch {
	case behind && n == math.MaxUint64:
		m, n = m+1, 0
	case behind:
		n++
	case n > 0:
		n--
	case m > 0:
		m, n = m-1, math.MaxUint64
	}
	return fmt.Sprintf("%d-%d", m, n)
}
