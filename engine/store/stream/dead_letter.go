package stream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/timers"
	"flunq.io/flunq/engine/store/wire"
)

// DeadLetter is an event or a timer that was dead-lettered.
type DeadLetter struct {
	Tenant string
	Stream string // key of its stream
	ID     string // id of its entry in that stream
	Died   time.Time

	Event  event.Event // as far as it is readable
	Fields []string    // field names and values of the dead-lettered entry
	Timer  string      // for a timer that could not fire: its member, instead of Event and Fields
	Err    error       // why it cannot be replayed; nil if it can
	// Unreadable is why the event cannot be read, so that a replay makes another dead letter; nil if it can.
	Unreadable error

	Reason, Service           string
	Attempts                  int
	Replayed                  int // number of earlier replays
	SourceStream, SourceID    string
	FirstFailure, LastFailure time.Time
}

// deadLetterFields are the fields that a dead letter has besides those of the original entry.
func deadLetterFields() []string {
	return []string{"reason", "attempts", "service", "source_stream", "source_id", "first_failure", "last_failure"}
}

// maxReplayed is the maximum number of fields of an entry that a script writes: Lua limits the
// arguments of a command.
const maxReplayed = 3900

// DeadLetterQuery selects the dead letters of a tenant, or of a stream that OtherStreams found.
type DeadLetterQuery struct {
	store.Range

	Tenant, Stream string
}

// DeadLetters reads a page of dead letters, newest first unless the Range says otherwise. The page may
// have fewer than Count, because other events of the stream are left out. next is the id at which the
// next page begins, "" at the end.
func (s Streams) DeadLetters(ctx context.Context, q DeadLetterQuery) (deadLetters []DeadLetter, next string, err error) {
	if err := store.CheckTenant(q.Tenant); err != nil {
		return nil, "", err
	}
	stream := cmp.Or(q.Stream, s.keys.DeadLetters(q.Tenant))
	entries, err := s.store.Entries(ctx, stream, q.Range)
	if err != nil {
		return nil, "", store.Failed("read the dead letters", err)
	}
	for _, entry := range entries {
		read := s.deadLetterOf
		if q.Stream != "" {
			read = s.deadLetterOfEvent
		}
		if l, ok := read(entry); ok {
			l.Tenant, l.Stream, l.ID, l.Died = q.Tenant, stream, entry.ID, store.IDTime(entry.ID)
			deadLetters = append(deadLetters, l)
		}
	}
	return deadLetters, q.Next(entries), nil
}

// FindDeadLetter returns the dead letter with an id, or ErrNotFound.
func (s Streams) FindDeadLetter(ctx context.Context, tenant, stream, id string) (DeadLetter, error) {
	ms, seq, _ := strings.Cut(id, "-")
	_, err := strconv.ParseUint(ms, 10, 64)
	if _, otherErr := strconv.ParseUint(seq, 10, 64); err != nil || otherErr != nil {
		return DeadLetter{}, fmt.Errorf("%w: dead letter %q, want an id such as 1767225600000-0", store.ErrName, id)
	}
	deadLetters, _, err := s.DeadLetters(ctx, DeadLetterQuery{Range: store.Range{From: id, To: id, Count: 1}, Tenant: tenant, Stream: stream})
	if err != nil {
		return DeadLetter{}, err
	}
	if len(deadLetters) == 0 {
		return DeadLetter{}, fmt.Errorf("dead letter %s of tenant %s: %w: it was replayed or dropped, or belongs to another tenant", id, tenant, store.ErrNotFound)
	}
	return deadLetters[0], nil
}

// deadLetterOf separates the original event from the fields that the dead letter adds. If the event
// has attributes with the same names, these come first.
func (s Streams) deadLetterOf(e store.Entry) (DeadLetter, bool) {
	own, names := map[string]string{}, deadLetterFields()
	var fields []string
	for i := len(e.Fields) - 2; i >= 0; i -= 2 {
		name, value := e.Fields[i], e.Fields[i+1]
		if _, seen := own[name]; !seen && slices.Contains(names, name) {
			own[name] = value
			continue
		}
		fields = append(fields, value, name)
	}
	slices.Reverse(fields)
	l := DeadLetter{
		Reason: own["reason"], Service: own["service"], SourceStream: own["source_stream"], SourceID: own["source_id"],
		FirstFailure: wire.Time(own["first_failure"]), LastFailure: wire.Time(own["last_failure"]),
	}
	l.Attempts, _ = strconv.Atoi(own["attempts"]) // 0 if unknown
	if len(fields) == 2 && fields[0] == "timer" {
		l.Timer = fields[1]
		d := timers.DueOf(redis.Z{Member: l.Timer}, l.LastFailure)
		l.Err = d.Err
		l.Event = event.Event{Type: event.TimerFired, Tenant: d.Tenant, Workflow: d.Workflow, Execution: d.Execution, Task: d.TaskID}
		return l, true
	}
	l.Fields = store.Unpack(fields)
	l.read(s.store)
	return l, true
}

// read decodes the original event from its fields.
func (l *DeadLetter) read(s *store.Store) {
	l.Event, l.Unreadable = s.Decode(l.Fields)
	l.Replayed, _ = strconv.Atoi(l.Event.Ext[event.ReplayAttribute])
	delete(l.Event.Ext, event.ReplayAttribute)
	if l.Event.Type == "" && len(l.Fields) > 0 {
		l.Err = errors.New("it is not an event: it has no type")
	}
	if n := len(l.Fields) / 2; n > maxReplayed {
		l.Err = fmt.Errorf("it has %d fields, more than the %d that one command can write", n, maxReplayed)
	}
}

// Replay publishes the event of a dead letter again, byte for byte and with the number of its
// replays, or sets its timer again, and deletes the dead letter. It does so once, even if several
// callers try; it returns false if the dead letter is gone.
func (s Streams) Replay(ctx context.Context, l DeadLetter) (bool, error) {
	if l.Err != nil {
		return false, fmt.Errorf("dead letter %s cannot be replayed: %w", l.ID, l.Err)
	}
	if l.Timer != "" {
		d := timers.DueOf(redis.Z{Member: l.Timer}, l.LastFailure)
		keys := []string{l.Stream, s.keys.Timers(d.Tenant), s.keys.Stream(d.Tenant)}
		n, err := replayTimerScript().Run(ctx, s.rdb, keys, append([]any{l.ID, timers.FormatScore(d.Timer.Due()), l.Timer}, timers.New(s.store).SetEvent(d.Timer)...)...).Int()
		return n == 1, store.Failed("replay", err)
	}
	fields := make([]string, 0, len(l.Fields)+2)
	for i := 0; i+1 < len(l.Fields); i += 2 {
		if l.Fields[i] != event.ReplayAttribute {
			fields = append(fields, l.Fields[i], l.Fields[i+1])
		}
	}
	fields = append(fields, event.ReplayAttribute, strconv.Itoa(l.Replayed+1))
	n, err := replayScript().Run(ctx, s.rdb, []string{l.Stream, s.keys.Stream(l.Tenant)}, append([]any{l.ID}, wire.Args(fields)...)...).Int()
	return n == 1, store.Failed("replay", err)
}

// Drop deletes dead letters and returns how many still existed.
func (s Streams) Drop(ctx context.Context, deadLetters ...DeadLetter) (int, error) {
	n := 0
	for _, l := range deadLetters {
		gone, err := s.rdb.XDel(ctx, l.Stream, l.ID).Result()
		if err != nil {
			return n, store.Failed("drop", err)
		}
		n += int(gone)
	}
	return n, nil
}

// DeadLetter moves a message to the dead letters and publishes events about it. It does nothing and
// returns false if the consumer no longer owns the message.
func (s Streams) DeadLetter(ctx context.Context, m store.Message, d event.Dead, publish []event.Event) (mine bool, err error) {
	now, err := s.store.NowOf(ctx, m.Tenant)
	if err != nil {
		return false, err
	}
	deadLetter := s.store.DeadLetterArgs(m, d, now)
	args := append([]any{m.Group, m.ID, m.Consumer, len(deadLetter)}, deadLetter...)
	for _, e := range publish {
		args = s.store.AppendFields(args, e)
	}
	keys := []string{s.keys.Stream(m.Tenant), s.keys.DeadLetters(m.Tenant)}
	n, err := deadLetterScript().Run(ctx, s.rdb, keys, args...).Int()
	return n == 1, store.Failed("dead-letter a message", err)
}

// deadLetterOfEvent reads a dead letter from an event that reports it; false for other events.
func (s Streams) deadLetterOfEvent(e store.Entry) (DeadLetter, bool) {
	reported, err := s.store.AnyEvent(e)
	switch reported.Type {
	case event.EventDead, event.TaskDead, event.TimerDead:
	default:
		return DeadLetter{}, false
	}
	data := store.FieldsOfJSON(reported.Data)
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
	l.Attempts, _ = strconv.Atoi(first("attempts")) // 0 if unknown
	l.Fields = wire.FieldList(store.FieldsOfJSON([]byte(first("original", "original_event", "event"))))
	l.read(s.store)
	if l.Err == nil && l.Event.Type == "" {
		l.Err = errors.New("the original event is not in it")
	}
	if l.Event.Execution == "" {
		l.Event.Execution, l.Event.Workflow, l.Event.Task = reported.Execution, reported.Workflow, reported.Task
	}
	return l, true
}
