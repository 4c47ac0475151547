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

// Due is a timer that is due.
type Due struct {
	event.Timer
	Member      string            // its member in the sorted set
	Err         error             // why it cannot fire; nil if it can
	Now         time.Time         // Redis' time when it was read
	redelivered map[string]string // of a delivery: the fields of the entry
	by          string            // the operator who fires it; "" if it fires by itself
}

// Poll is the result of reading the due timers.
type Poll struct {
	Due  []Due     // those due longest first
	Next time.Time // when the next timer is due; zero if there is none
	Now  time.Time // by Redis' clock
	More bool      // more are due than were requested

	// Misplaced are timers that precede due ones in the sorted set although they are not due:
	// another program has given them a score before their fire_at. Their scores here are the
	// correct ones, for CorrectScores.
	Misplaced []redis.Z
}

// Poll finds up to limit timers that are due by Redis' clock, those that have been due longest first.
func (ts Timers) Poll(ctx context.Context, tenant string, limit int) (Poll, error) {
	if err := store.CheckTenant(tenant); err != nil {
		return Poll{}, err
	}
	pipe := ts.rdb.Pipeline()
	l := ts.poll(ctx, pipe, tenant, limit, Poll{})
	if _, err := pipe.Exec(ctx); err != nil {
		return Poll{}, store.Failed("read the due timers", err)
	}
	return l.read(), nil
}

// PollAll is Poll for the tenants of a cluster, in one round trip to each node. A failed poll
// is zero. now is the time that Store.Now would return, zero if it is unknown.
func (ts Timers) PollAll(ctx context.Context, tenants []string, limit int) (all []Poll, now time.Time) {
	pipe := ts.rdb.Pipeline()
	polls, clock := make([]pendingPoll, len(tenants)), ts.rdb.TimeOf(ctx, pipe, ts.store.ClockKey())
	for i, tenant := range tenants {
		polls[i] = ts.poll(ctx, pipe, tenant, limit, Poll{})
	}
	_, _ = pipe.Exec(ctx) // each command has its own error
	all = make([]Poll, len(tenants))
	for i := range polls {
		if polls[i].entries.Err() == nil && polls[i].clock.Err() == nil {
			all[i] = polls[i].read()
		}
	}
	if clock.Err() == nil {
		now = clock.Val().UTC()
	}
	return all, now
}

// pendingPoll is a poll whose commands have been queued or sent.
type pendingPoll struct {
	first   int              // requested number of those that have been due longest
	latest  *redis.ZSliceCmd // those that became due most recently, the last one first; nil: not requested
	entries *redis.ZSliceCmd
	clock   *redis.TimeCmd
}

// poll queues the commands that read due timers: those that have been due longest and, if the last poll,
// seen, found more than it asked for, half of them those that have become due most recently. Otherwise
// these would wait for all others when many are due at the same time.
func (ts Timers) poll(ctx context.Context, pipe redis.Pipeliner, tenant string, limit int, seen Poll) pendingPoll {
	timers, l := ts.keys.Timers(tenant), pendingPoll{first: limit}
	if seen.More && limit > 1 && len(seen.Due) >= limit {
		l.first = limit - limit/2
		l.latest = pipe.ZRevRangeByScoreWithScores(ctx, timers, &redis.ZRangeBy{Min: "-inf", Max: FormatScore(seen.Now), Count: int64(limit / 2)})
	}
	l.entries = pipe.ZRangeWithScores(ctx, timers, 0, int64(l.first))
	l.clock = ts.rdb.TimeOf(ctx, pipe, timers) // each tenant's master has its own clock
	return l
}

// read reads the replies.
func (l pendingPoll) read() Poll {
	out := Poll{Now: l.clock.Val().UTC()}
	soon := score(out.Now.Add(time.Second))
	entries := l.entries.Val()
	out.Due = make([]Due, 0, min(len(entries), l.first))
	for _, entry := range entries {
		if !out.Next.IsZero() && entry.Score > soon {
			break // later entries are not due earlier
		}
		d := DueOf(entry, out.Now)
		if at := d.dueAt(); at.After(out.Now) {
			if before(entry.Score, d.Due()) && !ScoreTime(entry.Score).After(out.Now) {
				out.Misplaced = append(out.Misplaced, redis.Z{Score: score(d.Due()), Member: d.Member})
			}
			out.Next = event.Earlier(out.Next, at)
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

// CorrectScores gives timers their correct scores. It does not add timers that are gone.
func (ts Timers) CorrectScores(ctx context.Context, tenant string, timers []redis.Z) error {
	return store.Failed("place timers", ts.rdb.ZAddXX(ctx, ts.keys.Timers(tenant), timers...).Err())
}

// addLatest adds the timers that became due most recently, unless they precede the first one left out.
func (l pendingPoll) addLatest(out *Poll, left redis.Z) {
	if l.latest == nil {
		return
	}
	for _, entry := range slices.Backward(l.latest.Val()) {
		if d := DueOf(entry, out.Now); !precedes(entry, left) && !d.dueAt().After(out.Now) {
			out.Due = append(out.Due, d)
		}
	}
}

// precedes reports whether an entry of a sorted set precedes another.
func precedes(a, b redis.Z) bool {
	one, _ := a.Member.(string) // go-redis always reads a string
	other, _ := b.Member.(string)
	return cmp.Or(cmp.Compare(a.Score, b.Score), strings.Compare(one, other)) < 0
}

// dueAt returns the first microsecond of Redis' clock at which the timer is due.
func (d Due) dueAt() time.Time { return time.UnixMicro(micros(d.Due())).UTC() }

// DueOf decodes an entry of the sorted set that was read at now by Redis' clock.
func DueOf(entry redis.Z, now time.Time) Due {
	text, _ := entry.Member.(string) // go-redis always reads a string
	d := Due{Member: text, Now: now}
	d.Err = d.decode(text)
	if d.FireAt.IsZero() {
		d.FireAt = ScoreTime(entry.Score)
	}
	d.Kind = cmp.Or(d.Kind, event.WaitTimer)
	return d
}

// decode decodes the timer. The error says why the member is not a valid timer.
func (d *Due) decode(text string) (err error) {
	var usual bool
	if d.Timer, usual = event.ScanTimer(text); !usual {
		var timer event.Timer // what json.Unmarshal fills is allocated
		err := json.Unmarshal([]byte(text), &timer)
		if d.Timer = timer; err != nil {
			return fmt.Errorf("read the timer: %w", err)
		}
	}
	if err := store.CheckTenant(d.Tenant); err != nil {
		return err
	}
	switch d.Kind {
	case event.DeliveryTimer:
	case event.InputTimer, event.StartTimer:
		if _, err := d.ReadInput(); err != nil {
			return fmt.Errorf("read the timer: it %w", err)
		}
		if d.Kind == event.StartTimer {
			return store.CheckIDs(d.Tenant, d.Execution)
		}
		return nil
	default:
		return nil
	}
	var fields map[string]string
	if err := json.Unmarshal(d.Event, &fields); err != nil || len(fields) == 0 || len(fields) > store.MaxFields {
		return errors.New("read the timer: its event is invalid")
	}
	d.redelivered = fields
	return nil
}

// ScoreTime returns the time that a score stands for.
func ScoreTime(seconds float64) time.Time {
	const end = 1 << 37 // the year 6325; scores beyond it are clamped
	whole, fraction := math.Modf(max(-end, min(end, seconds)))
	return time.Unix(int64(whole), int64(fraction*1e9)).UTC()
}

// Fire publishes the events of the due timers of a poll, which must have some, removes these timers, and
// polls again in the same round trip. Each fires completely or not at all. Fire skips timers that are gone,
// and does nothing if one of them is not due by Redis' clock. It dead-letters invalid timers for tenant.
// After an error some timers may have fired.
//
// If more than limit timers were due at that poll, half of the returned timers are those that became
// due most recently so that a backlog does not delay new ones.
func (ts Timers) Fire(ctx context.Context, tenant string, seen Poll, limit int) (fired int, next Poll, err error) {
	if err := store.CheckTenant(tenant); err != nil {
		return 0, next, err
	}
	from := int64(math.MinInt64) // the first microsecond of Redis' clock at which all are due
	for i := range seen.Due {
		from = max(from, micros(seen.Due[i].Due()))
	}
	keys, args := ts.fireCall(tenant, seen.Due, from)
	for known := false; ; known = true {
		pipe := ts.rdb.Pipeline()
		reply := fireScript().EvalSha(ctx, pipe, keys, args...)
		l := ts.poll(ctx, pipe, tenant, limit, seen)
		_, err := pipe.Exec(ctx)
		if !known && err != nil && redis.HasErrorPrefix(reply.Err(), "NOSCRIPT") {
			err = fireScript().Load(ctx, ts.rdb).Err()
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

// firedOf decodes the reply of fireScript.
func firedOf(cmd *redis.Cmd) (fired int, err error) {
	reply, err := cmd.Slice()
	if err == nil && len(reply) != 2 {
		err = wire.ErrReply
	}
	if wrong := wire.List(reply).Text(1); wrong != "" {
		err = errors.New(wrong)
	}
	return int(wire.List(reply).Number(0)), store.Failed("fire", err)
}

// fireCall returns the keys and arguments of a call of fireScript for one timer or more, which all are due
// from a microsecond of Redis' clock on.
func (ts Timers) fireCall(tenant string, due []Due, from int64) (keys []string, args []any) {
	f := &fireArgs{store: ts.store, numbers: map[string]int{}}
	members := make([]any, len(due))
	for i := range due {
		d := &due[i]
		members[i] = d.Member
		if d.Err == nil && d.Tenant != tenant && ts.keys.Clustered() {
			d.Err = fmt.Errorf("read the timer: it is of tenant %s, whose timers are elsewhere", d.Tenant)
		}
		if d.Err != nil {
			f.entry(ts.keys.DeadLetters(tenant), "", "", ts.deadLetter(d))
		} else {
			f.timer(d)
		}
	}
	keys = append([]string{ts.keys.Timers(tenant), ts.keys.TimerKeys(tenant), ts.keys.ForgottenKeys(tenant)}, f.streams...)
	args = []any{due[0].Now.Format(time.RFC3339Nano), from, len(due), !ts.rdb.Embedded}
	return keys, slices.Concat(args, f.tenants, members, f.args)
}

// fireArgs collects the arguments of fireScript for each timer.
type fireArgs struct {
	store   *store.Store
	args    []any
	streams []string       // keys of those that events are published to
	tenants []any          // of these streams
	numbers map[string]int // of these streams, by key
}

// stream returns the number of a stream, and assigns it on first use.
func (f *fireArgs) stream(key, tenant string) int {
	if f.numbers[key] == 0 {
		f.streams, f.tenants = append(f.streams, key), append(f.tenants, tenant)
		f.numbers[key] = len(f.streams)
	}
	return f.numbers[key]
}

// entry adds a timer that publishes exactly these fields.
func (f *fireArgs) entry(key, tenant, name string, fields []string) {
	f.args = append(append(f.args, -f.stream(key, tenant), name, len(fields)), wire.Args(fields)...)
}

// timer adds a timer. A delivery timer publishes the postponed entry again, a start timer an
// ExecutionStarted, and all others a TimerFired.
func (f *fireArgs) timer(d *Due) {
	name := storedIdentity(d.Timer)
	if d.Input != nil { // the event that carries it seals it again
		plain := *d
		plain.Input, d = f.store.Unseal(string(d.Input)), &plain
	}
	switch {
	case d.Kind == event.StartTimer:
		starts, _ := d.ReadInput() // decode has checked it
		starts.Time = d.Now
		f.entry(f.store.Keys().Stream(d.Tenant), d.Tenant, name, f.store.Fields(starts))
	case d.redelivered != nil:
		f.entry(f.store.Keys().Stream(d.Tenant), d.Tenant, name, wire.FieldList(d.redelivered))
	case name != "" || d.Workflow == "" || d.Execution == "" || d.TaskID == "":
		f.entry(f.store.Keys().Stream(d.Tenant), d.Tenant, name, f.store.Fields(event.Event{
			ID: d.eventID(), Source: "/flunq/timer", Type: event.TimerFired, Time: d.Now,
			Tenant: d.Tenant, Workflow: d.Workflow, Execution: d.Execution, Task: d.TaskID, Data: json.RawMessage(d.firedText()),
		}))
	default:
		f.args = append(f.args, f.stream(f.store.Keys().Stream(d.Tenant), d.Tenant), d.eventID(), d.Workflow, d.Execution, d.TaskID, f.store.SealText(d.firedText()))
	}
}

// eventID returns the id of the event that the timer publishes.
func (d *Due) eventID() string {
	switch {
	case d.Kind != event.InputTimer:
		return d.Execution + d.TaskID + "/" + string(d.Kind) + d.Key + "/" + strconv.FormatInt(d.FireAt.UnixNano(), 10)
	case d.ParkedUntil.IsZero():
		return d.InputID()
	default: // it has fired before
		return d.InputID() + "/parked"
	}
}

// firedText returns the data of TimerFired.
func (d *Due) firedText() string {
	return event.FiredText(&event.Fired{Timer: d.Timer, ScheduledFor: d.Due(), FiredAt: d.Now, By: d.by})
}

// deadLetter returns the dead letter of an invalid timer.
func (ts Timers) deadLetter(d *Due) []string {
	at := d.Now.Format(time.RFC3339Nano)
	return []string{
		"timer", d.Member, "reason", d.Err.Error(), "attempts", "1", "service", store.TimerGroup,
		"first_failure", at, "last_failure", at,
	}
}
