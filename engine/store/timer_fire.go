package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"flunq.io/flunq/engine/event"
)

// Due is a timer whose time has come.
type Due struct {
	event.Timer
	Member string // as it stands in the ZSET
	Err    error  // why it cannot fire, if so
	now    time.Time
	again  map[string]string // of a delivery: the fields of the entry
}

// Look is what was due at a moment.
type Look struct {
	Due  []Due     // the longest due first
	Next time.Time // when the next one is due after them; zero if there is none
	Now  time.Time // by Redis' clock
	More bool      // more are due than were asked for
}

// Due finds up to limit timers whose time has come by Redis' clock, the longest
// due first, and when the next one is due after them; zero if there is none.
//
//nolint:revive // function-result-limit: what is due, and when, is one reading of one clock
func (s *Store) Due(ctx context.Context, tenant string, limit int) (due []Due, next, now time.Time, err error) {
	look, err := s.Look(ctx, tenant, limit)
	return look.Due, look.Next, look.Now, err
}

// Look finds up to limit timers whose time has come by Redis' clock, the longest
// due first.
func (s *Store) Look(ctx context.Context, tenant string, limit int) (Look, error) {
	if err := CheckTenant(tenant); err != nil {
		return Look{}, err
	}
	pipe := s.rdb.Pipeline()
	l := s.look(ctx, pipe, tenant, limit)
	if _, err := pipe.Exec(ctx); err != nil {
		return Look{}, failed("look for due timers", err)
	}
	return l.read(), nil
}

// looking is a look whose commands are on their way.
type looking struct {
	limit   int
	entries *redis.ZSliceCmd // those due first
	latest  *redis.ZSliceCmd // those due last of all that are, the last one first; nil: not asked for
	clock   *redis.TimeCmd
}

func (s *Store) look(ctx context.Context, pipe redis.Pipeliner, tenant string, limit int) *looking {
	return &looking{
		limit:   limit,
		entries: pipe.ZRangeWithScores(ctx, s.keys.timers(tenant), 0, int64(limit)),
		clock:   pipe.Time(ctx),
	}
}

// around also asks for those that have become due only just. Where many are due at
// once they would wait for all that have been for longer.
func (l *looking) around(ctx context.Context, pipe redis.Pipeliner, timers string, now time.Time) {
	by := &redis.ZRangeBy{Min: "-inf", Max: formatScore(now), Count: int64(l.limit / 2)}
	l.latest = pipe.ZRevRangeByScoreWithScores(ctx, timers, by)
}

// read reads the replies.
func (l *looking) read() Look {
	out := Look{Now: l.clock.Val().UTC()}
	soon := score(out.Now.Add(time.Second))
	entries := l.entries.Val()
	out.Due = make([]Due, 0, min(len(entries), l.limit))
	for _, entry := range entries {
		d := dueOf(entry, out.Now)
		if at := d.dueAt(); at.After(out.Now) {
			if out.Next.IsZero() || at.Before(out.Next) {
				out.Next = at
			}
			if entry.Score > soon {
				break // those behind it are no earlier
			}
			continue
		}
		if len(out.Due) == l.limit {
			out.Next, out.More = out.Now, true
			break
		}
		out.Due = append(out.Due, d)
	}
	if out.More && l.latest != nil {
		l.mix(&out)
	}
	return out
}

// mix puts those that have become due last in the place of as many others.
func (l *looking) mix(out *Look) {
	first := out.Due[:l.limit-l.limit/2]
	out.Due = first
	for _, entry := range slices.Backward(l.latest.Val()) {
		d := dueOf(entry, out.Now)
		known := slices.ContainsFunc(first, func(f Due) bool { return f.Member == d.Member })
		if !known && !d.dueAt().After(out.Now) {
			out.Due = append(out.Due, d)
		}
	}
}

// dueAt is the first microsecond of Redis' clock at which the timer is due.
func (d Due) dueAt() time.Time { return time.UnixMicro(micros(d.Due())).UTC() }

func dueOf(entry redis.Z, now time.Time) Due {
	text, _ := entry.Member.(string) // go-redis reads nothing else
	d := Due{Member: text, now: now}
	d.Err = d.decode(text)
	if d.FireAt.IsZero() {
		d.FireAt = scored(entry.Score)
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
		d.Timer = timer
	} else if err := json.Unmarshal([]byte(text), &d.Timer); err != nil {
		return fmt.Errorf("read the timer: %w", err)
	}
	if err := CheckTenant(d.Tenant); err != nil || d.Kind != event.DeliveryTimer {
		return err
	}
	if err := json.Unmarshal(d.Event, &d.again); err != nil || len(d.again) == 0 || len(d.again) > mostFields {
		return errors.New("read the timer: its event is none")
	}
	return nil
}

// scored is the moment that a score says.
func scored(seconds float64) time.Time {
	const end = 1 << 37 // the year 6325; beyond, and below, a number is as good as another
	whole, fraction := math.Modf(max(-end, min(end, seconds)))
	return time.Unix(int64(whole), int64(fraction*1e9)).UTC()
}

// Fire publishes what is due and takes it out, each timer all or nothing. What
// is gone meanwhile, or not due by Redis' clock after all, stays as it is; what
// cannot be a timer goes to the dead letters of tenant. With an error some of
// them may have fired.
func (s *Store) Fire(ctx context.Context, tenant string, due []Due) (fired int, err error) {
	if err := CheckTenant(tenant); err != nil || len(due) == 0 {
		return 0, err
	}
	return s.fire(ctx, tenant, due, dueMicros)
}

func dueMicros(d Due) int64 { return micros(d.Due()) }

// FireAndLook does what Fire does, and in the same round trip what Look does. If
// more than limit were due at the last look, half of what this one shows are those
// that have become due last: a crowd keeps nobody else waiting.
func (s *Store) FireAndLook(ctx context.Context, tenant string, seen Look, limit int) (fired int, next Look, err error) {
	if err := CheckTenant(tenant); err != nil {
		return 0, next, err
	}
	keys, args := s.firing(tenant, seen.Due, dueMicros)
	for known := false; ; known = true {
		pipe := s.rdb.Pipeline()
		reply := fireScript.EvalSha(ctx, pipe, keys, args...)
		l := s.look(ctx, pipe, tenant, limit)
		if seen.More && limit > 1 && len(seen.Due) >= limit {
			l.around(ctx, pipe, s.keys.timers(tenant), seen.Now)
		}
		_, err := pipe.Exec(ctx)
		if redis.HasErrorPrefix(reply.Err(), "NOSCRIPT") && !known {
			err = fireScript.Load(ctx, s.rdb).Err()
			if err == nil {
				continue
			}
		}
		if err != nil {
			return 0, next, failed("fire", err)
		}
		fired, err = firedOf(reply)
		return fired, l.read(), err
	}
}

// fire publishes timers from a microsecond on that each has.
func (s *Store) fire(ctx context.Context, tenant string, due []Due, from func(Due) int64) (fired int, err error) {
	keys, args := s.firing(tenant, due, from)
	return firedOf(fireScript.Run(ctx, s.rdb, keys, args...))
}

// firedOf reads what fireScript replies.
func firedOf(cmd *redis.Cmd) (fired int, err error) {
	reply, err := cmd.Slice()
	if err != nil || len(reply) != 2 {
		return 0, failed("fire", err)
	}
	n, _ := reply[0].(int64)
	if wrong, _ := reply[1].(string); wrong != "" {
		err = failed("fire", errors.New(wrong))
	}
	return int(n), err
}

// firing are the keys and the arguments of fireScript.
func (s *Store) firing(tenant string, due []Due, from func(Due) int64) (keys []string, args []any) {
	const each = 10 // arguments of most timers
	keys = append(make([]string, 0, len(due)+3), s.keys.timers(tenant), s.keys.timerKeys(tenant), s.keys.forgottenKeys(tenant))
	args = append(make([]any, 0, each*len(due)+1), "")
	for _, d := range due {
		args = append(args, d.Member)
	}
	stream := ""
	for i, d := range due {
		if i == 0 || d.Tenant != due[i-1].Tenant {
			stream = s.keys.stream(d.Tenant)
		}
		if d.Err != nil {
			fields := s.letter(d)
			keys = append(keys, s.keys.dead(tenant))
			args = append(append(args, from(d), "", len(fields)), anys(fields)...)
			continue
		}
		keys = append(keys, stream)
		args = s.firedFields(append(args, from(d), noted(d.Timer)), d)
	}
	if len(due) > 0 {
		args[0] = due[0].now.Format(time.RFC3339Nano)
	}
	return keys, args
}

// letter is the dead letter of what cannot be a timer.
func (s *Store) letter(d Due) []string {
	at := d.now.Format(time.RFC3339Nano)
	return []string{
		"timer", d.Member, "reason", d.Err.Error(), "attempts", "1", "service", TimerGroup,
		"first_failure", at, "last_failure", at,
	}
}

// firedFields appends the count of the fields of what a timer publishes, and these:
// of a delivery the entry that is to be delivered again, of all others TimerFired.
func (s *Store) firedFields(args []any, d Due) []any {
	if d.again != nil {
		fields := listed(d.again)
		return append(append(args, len(fields)), anys(fields)...)
	}
	id := make([]byte, 0, len(d.Execution)+len(d.TaskID)+len(d.Kind)+len(d.Key)+22)
	id = append(append(append(append(append(append(id, d.Execution...), d.TaskID...), '/'), d.Kind...), d.Key...), '/')
	id = strconv.AppendInt(id, d.FireAt.UnixNano(), 10)
	data := event.FiredText(&event.Fired{Timer: d.Timer, ScheduledFor: d.Due(), FiredAt: d.now})
	if d.Workflow == "" || d.Execution == "" || d.TaskID == "" {
		fields := s.fields(event.Event{
			ID: string(id), Source: "/flunq/timer", Type: event.TimerFired, Time: d.now,
			Tenant: d.Tenant, Workflow: d.Workflow, Execution: d.Execution, Task: d.TaskID, Data: json.RawMessage(data),
		})
		return append(append(args, len(fields)), anys(fields)...)
	}
	if s.sealer != nil {
		data = string(s.sealer.Seal(json.RawMessage(data)))
	}
	return append(args, 0, string(id), d.Tenant, d.Workflow, d.Execution, d.TaskID, data)
}
