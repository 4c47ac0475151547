package timers

import (
	"cmp"
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
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/wire"
)

// Due is a timer whose time has come.
type Due struct {
	event.Timer
	Member      string            // as it stands in the ZSET
	Err         error             // why it cannot fire, if so
	Now         time.Time         // of Redis, when it was read
	redelivered map[string]string // of a delivery: the fields of the entry
	by          string            // the operator who fires it before its time; "" if none does
	canonical   bool              // the member is the JSON of the timer as we write it
}

// Look says what was due at a moment.
type Look struct {
	Due  []Due     // those that have been due for longest first
	Next time.Time // when the next one is due after them; zero if there is none
	Now  time.Time // by Redis' clock
	More bool      // more are due than were asked for

	// Misplaced are timers that stand before others which are due though they are not due
	// themselves: another program gave them a score before their fire_at. They have the
	// scores here that they should have, for Place.
	Misplaced []redis.Z

	// Group, if the caller sets it, is the group of the service that fires them. Their events
	// mean nothing to it, so it skips them where it has read everything before.
	Group string
}

// Due returns up to limit timers that are due by Redis' clock, those that have been due for
// longest first, and when the next one is due; zero if there is none.
func (s Timers) Due(ctx context.Context, tenant string, limit int) (due []Due, next, now time.Time, err error) {
	look, err := s.Look(ctx, tenant, limit)
	return look.Due, look.Next, look.Now, err
}

// Look finds up to limit timers that are due by Redis' clock, those that have been due for
// longest first.
func (s Timers) Look(ctx context.Context, tenant string, limit int) (Look, error) {
	if err := store.CheckTenant(tenant); err != nil {
		return Look{}, err
	}
	trip := s.rdb.Trip()
	defer trip.End()
	l := s.look(ctx, trip, tenant, limit)
	if err := trip.Send(ctx); err != nil {
		return Look{}, store.Failed("look for due timers", err)
	}
	return l.read(), nil
}

// pendingLook is a look whose commands are on their way.
type pendingLook struct {
	first   int              // how many of those that have been due for longest are asked for
	latest  *redis.ZSliceCmd // those that have just become due, the last one first; nil: not asked for
	entries *redis.ZSliceCmd
	clock   *redis.TimeCmd
}

// look asks for the timers that have been due for longest.
func (s Timers) look(ctx context.Context, trip *wire.Trip, tenant string, limit int) pendingLook {
	entries := redis.NewZSliceCmd(ctx, trip.Args("zrange", &s.store.TenantKeys(tenant).Timers, 0, limit, "withscores")...)
	trip.Add(entries)
	return pendingLook{first: limit, entries: entries, clock: trip.Time(ctx)}
}

// lookAround asks for these and also for those that have just become due, which would otherwise
// wait for all others where many are due at once.
func (s Timers) lookAround(ctx context.Context, trip *wire.Trip, tenant string, limit int, now time.Time) pendingLook {
	latest := redis.NewZSliceCmd(ctx, trip.Args(
		"zrevrangebyscore", &s.store.TenantKeys(tenant).Timers, FormatScore(now), "-inf", "withscores", "limit", 0, limit/2)...)
	trip.Add(latest)
	l := s.look(ctx, trip, tenant, limit-limit/2)
	l.latest = latest
	return l
}

// lookAfter asks for the one or the other, by what was seen before.
func (s Timers) lookAfter(ctx context.Context, trip *wire.Trip, tenant string, seen Look, limit int) pendingLook {
	if seen.More && limit > 1 && len(seen.Due) >= limit {
		return s.lookAround(ctx, trip, tenant, limit, seen.Now)
	}
	return s.look(ctx, trip, tenant, limit)
}

// read reads the replies.
func (l pendingLook) read() Look {
	out := Look{Now: l.clock.Val().UTC()}
	soon := score(out.Now.Add(time.Second))
	entries := l.entries.Val()
	out.Due = make([]Due, 0, min(len(entries), l.first))
	for _, entry := range entries {
		if !out.Next.IsZero() && entry.Score > soon {
			break // those behind the next one are no earlier
		}
		d := DueOf(entry, out.Now)
		if at := d.dueAt(); at.After(out.Now) {
			if before(entry.Score, d.Due()) && !ScoreTime(entry.Score).After(out.Now) {
				out.Misplaced = append(out.Misplaced, redis.Z{Score: score(d.Due()), Member: d.Member})
			}
			out.Next = earliest(out.Next, at)
			continue
		}
		if len(out.Due) == l.first {
			out.Next, out.More = out.Now, true
			l.addLatest(&out, entry)
			break
		}
		out.Due = append(out.Due, d)
	}
	return out
}

// CorrectScores gives timers the scores that they should have. It does not add any that are gone.
func (s Timers) CorrectScores(ctx context.Context, tenant string, timers []redis.Z) error {
	return store.Failed("place timers", s.rdb.ZAddXX(ctx, s.store.TenantKeys(tenant).Timers, timers...).Err())
}

// earliest is the earlier of two times; a zero known time is ignored.
func earliest(known, at time.Time) time.Time {
	if known.IsZero() || at.Before(known) {
		return at
	}
	return known
}

// addLatest adds those that have just become due, unless they come before the first one that is left
// out.
func (l pendingLook) addLatest(out *Look, left redis.Z) {
	if l.latest == nil {
		return
	}
	for _, entry := range slices.Backward(l.latest.Val()) {
		if d := DueOf(entry, out.Now); !precedes(entry, left) && !d.dueAt().After(out.Now) {
			out.Due = append(out.Due, d)
		}
	}
}

// precedes reports whether an entry of a ZSET stands before another.
func precedes(a, b redis.Z) bool {
	one, _ := a.Member.(string) // go-redis reads nothing else
	other, _ := b.Member.(string)
	return cmp.Or(cmp.Compare(a.Score, b.Score), strings.Compare(one, other)) < 0
}

// dueAt is the first microsecond of Redis' clock at which the timer is due.
func (d Due) dueAt() time.Time { return time.UnixMicro(micros(d.Due())).UTC() }

// DueOf reads a timer as it stands in the sorted set, at a moment of Redis' clock.
func DueOf(entry redis.Z, now time.Time) Due {
	text, _ := entry.Member.(string) // go-redis reads nothing else
	d := Due{Member: text, Now: now}
	d.Err = d.decode(text)
	if d.FireAt.IsZero() {
		d.FireAt = ScoreTime(entry.Score)
	}
	if d.Kind == "" {
		d.Kind = event.WaitTimer
	}
	return d
}

// decode reads the timer, and says why it cannot be one.
func (d *Due) decode(text string) (err error) {
	timer, ok := event.ScanTimer(text)
	if ok {
		d.Timer, d.canonical = timer, timer.Kind != "" && !timer.FireAt.IsZero()
	} else if err := json.Unmarshal([]byte(text), &d.Timer); err != nil {
		return fmt.Errorf("read the timer: %w", err)
	}
	if err := store.CheckTenant(d.Tenant); err != nil || d.Kind != event.DeliveryTimer {
		return err
	}
	if err := json.Unmarshal(d.Event, &d.redelivered); err != nil || len(d.redelivered) == 0 || len(d.redelivered) > store.MostFields {
		return errors.New("read the timer: its event is none")
	}
	return nil
}

// ScoreTime is the moment that a score says.
func ScoreTime(seconds float64) time.Time {
	const end = 1 << 37 // the year 6325; beyond, and below, a number is as good as another
	whole, fraction := math.Modf(max(-end, min(end, seconds)))
	return time.Unix(int64(whole), int64(fraction*1e9)).UTC()
}

// Fire publishes the events of due timers and removes the timers, each completely or not at all.
// It skips those that are gone, and does nothing if one is not due by Redis' clock after all. What
// is not a timer goes to the dead letters of tenant. After an error some may have fired.
func (s Timers) Fire(ctx context.Context, tenant string, due []Due) (fired int, err error) {
	if err := store.CheckTenant(tenant); err != nil || len(due) == 0 {
		return 0, err
	}
	return s.fire(ctx, tenant, due, dueMicros)
}

func dueMicros(d *Due) int64 { return micros(d.Due()) }

// FireAndLook does what Fire and then Look do, in one round trip. If more than limit timers were
// due at the last look, half of those that this one returns have just become due, so that many
// late timers do not delay the others.
func (s Timers) FireAndLook(ctx context.Context, tenant string, seen Look, limit int) (fired int, next Look, err error) {
	if err := store.CheckTenant(tenant); err != nil {
		return 0, next, err
	}
	keys, list := s.fireCall(tenant, seen.Group, seen.Due, dueMicros)
	for known := false; ; known = true {
		trip := s.rdb.Trip()
		defer trip.End() // there are two of them at most
		reply := wire.ScriptCmd(ctx, fireScript, keys, list)
		trip.Add(reply)
		l := s.lookAfter(ctx, trip, tenant, seen, limit)
		err := trip.Send(ctx)
		if !known && err != nil && redis.HasErrorPrefix(reply.Err(), "NOSCRIPT") {
			err = fireScript.Load(ctx, s.rdb).Err()
			if err == nil {
				continue
			}
		}
		if err != nil {
			return 0, next, store.Failed("fire", err)
		}
		fired, err = firedOf(reply)
		return fired, l.read(), err
	}
}

// fire publishes timers from a microsecond on that each has.
func (s Timers) fire(ctx context.Context, tenant string, due []Due, from func(*Due) int64) (fired int, err error) {
	keys, list := s.fireCall(tenant, "", due, from)
	return firedOf(s.rdb.Call(ctx, fireScript, keys, list))
}

// firedOf reads what fireScript replies.
func firedOf(cmd *redis.Cmd) (fired int, err error) {
	reply, err := cmd.Slice()
	if err != nil || len(reply) != 2 {
		return 0, store.Failed("fire", err)
	}
	n, _ := reply[0].(int64)
	if wrong, _ := reply[1].(string); wrong != "" {
		err = store.Failed("fire", errors.New(wrong))
	}
	return int(n), err
}

// fireCall is the call of fireScript for timers which are due from a microsecond on that
// each has: how many keys it has, and these with the arguments.
func (s Timers) fireCall(tenant, group string, due []Due, from func(*Due) int64) (keys int, list []any) {
	const own, reported, each = 3, 4, 6 // keys, and arguments of all timers and of most
	f := &fireArgs{store: s.store, streams: map[string]int{}}
	f.List, f.Texts = make([]any, 0, each*len(due)), make([]string, 0, 2+2*len(due))
	latest := int64(math.MinInt64)
	for i := range due {
		d := &due[i]
		latest = max(latest, from(d))
		if d.Err != nil {
			f.entry(s.keys.DeadLetters(tenant), "", "", s.deadLetter(d))
		} else {
			f.timer(d)
		}
	}
	h, keys, all := s.store.TenantKeys(tenant), own+len(f.to), f.List
	f.List = append(make([]any, wire.BeforeKeys, wire.BeforeKeys+keys+reported+len(f.to)+len(due)+len(all)), &h.Timers, &h.TimerKeys, &h.ForgottenKeys)
	for i := range f.to {
		f.List = append(f.List, &f.to[i].key)
	}
	at := ""
	if len(due) > 0 {
		at = due[0].Now.Format(time.RFC3339Nano)
	}
	f.Add(at)
	f.List = append(f.List, latest, len(due))
	f.Add(group)
	for i := range f.to {
		f.List = append(f.List, &f.to[i].tenant)
	}
	for i := range due {
		f.List = append(f.List, &due[i].Member)
	}
	return keys, append(f.List, all...)
}

// fireArgs is what fireScript is told of each timer.
type fireArgs struct {
	wire.TextList

	store   *store.Store
	streams map[string]int // their numbers
	to      []target

	last       string // tenant of the timer before …
	lastStream int    // … and the number of its stream
}

// target is a stream that is published to.
type target struct{ key, tenant string }

// stream is the number of a stream.
func (f *fireArgs) stream(key, tenant string) int {
	n, known := f.streams[key]
	if !known {
		f.to = append(f.to, target{key, tenant})
		n = len(f.to)
		f.streams[key] = n
	}
	return n
}

// of is the number of a tenant's stream.
func (f *fireArgs) of(tenant string) int {
	if f.lastStream == 0 || tenant != f.last {
		f.last, f.lastStream = tenant, f.stream(f.store.TenantKeys(tenant).Stream, tenant)
	}
	return f.lastStream
}

// entry adds a timer that publishes just these fields.
func (f *fireArgs) entry(key, tenant, name string, fields []string) {
	f.List = append(f.List, -f.stream(key, tenant), name, len(fields))
	f.Add(fields...)
}

// timer adds a timer: a delivery publishes the entry that is to be delivered again,
// all others TimerFired.
func (f *fireArgs) timer(d *Due) {
	name := storedIdentity(d.Timer)
	switch {
	case d.redelivered != nil:
		f.entry(f.store.TenantKeys(d.Tenant).Stream, d.Tenant, name, wire.FieldList(d.redelivered))
	case name != "" || d.Workflow == "" || d.Execution == "" || d.TaskID == "":
		f.entry(f.store.TenantKeys(d.Tenant).Stream, d.Tenant, name, f.store.Fields(event.Event{
			ID: d.eventID(), Source: "/flunq/timer", Type: event.TimerFired, Time: d.Now,
			Tenant: d.Tenant, Workflow: d.Workflow, Execution: d.Execution, Task: d.TaskID, Data: json.RawMessage(d.firedText()),
		}))
	default:
		data := f.store.SealText(d.firedText())
		f.List = append(f.List, f.of(d.Tenant))
		f.Add(d.eventID())
		f.List = append(f.List, &d.Workflow, &d.Execution, &d.TaskID)
		f.Add(data)
	}
}

// eventID is that of the event that the timer publishes.
func (d *Due) eventID() string {
	out := make([]byte, 0, 128)
	out = append(append(append(append(append(append(out, d.Execution...), d.TaskID...), '/'), d.Kind...), d.Key...), '/')
	return string(strconv.AppendInt(out, d.FireAt.UnixNano(), 10))
}

// firedText is the data of TimerFired.
func (d *Due) firedText() string {
	if !d.canonical || d.by != "" {
		return event.FiredText(&event.Fired{Timer: d.Timer, ScheduledFor: d.Due(), FiredAt: d.Now, By: d.by})
	}
	const layout = time.RFC3339Nano
	out := append(make([]byte, 0, 384), d.Member[:len(d.Member)-1]...)
	out = d.Due().AppendFormat(append(out, `,"scheduled_for":"`...), layout)
	out = d.Now.AppendFormat(append(out, `","fired_at":"`...), layout)
	return string(append(out, `"}`...))
}

// deadLetter is the dead letter of what cannot be a timer.
func (s Timers) deadLetter(d *Due) []string {
	at := d.Now.Format(time.RFC3339Nano)
	return []string{
		"timer", d.Member, "reason", d.Err.Error(), "attempts", "1", "service", store.TimerGroup,
		"first_failure", at, "last_failure", at,
	}
}
