package store

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"
)

// claim is what to take over.
type claim struct {
	tenant, first string
	lease         time.Duration
	count         int
}

// poisonCrashes is the crash count of a poison candidate: further crashes count only if the
// entry was handled in isolation.
const poisonCrashes = 2

// handedBack is the idle time that Release gives to an entry.
const handedBack = 24 * time.Hour

// claim takes over entries that have been idle for a lease.
func (s *Store) claim(ctx context.Context, r Reader, c claim, now time.Time) ([]Message, error) {
	keys := []string{s.keys.Stream(c.tenant), s.keys.crashes(c.tenant)}
	reply, err := claimScript.Run(ctx, s.rdb, keys, r.Group, r.Consumer, c.lease.Milliseconds(),
		handedBack.Milliseconds(), c.first, c.count, poisonCrashes, largeBudget, mostValue).Slice()
	if err != nil {
		return nil, failed("claim", err)
	}
	out := make([]Message, 0, len(reply))
	for _, item := range reply {
		id, fields, crashes, left, ok := claimed(item)
		if !ok {
			return nil, failed("claim", fmt.Errorf("the reply has %v", item))
		}
		m := s.message(r, c.tenant, id, fields, now)
		m.Claimed, m.Crashes = true, crashes
		if left > 0 {
			m.Err = errValue(left)
		}
		out = append(out, m)
	}
	return out, nil
}

// claimed reads an entry as the script returns it.
func claimed(item any) (id string, fields []string, crashes, left int, ok bool) {
	parts, _ := item.([]any)
	if len(parts) != 4 {
		return "", nil, 0, 0, false
	}
	id, ok = parts[0].(string)
	count, _ := parts[1].(string)
	crashes, err := strconv.Atoi(count)
	bytes, _ := parts[3].(string)
	left, wrong := strconv.Atoi(bytes)
	values, _ := parts[2].([]any)
	for _, v := range values {
		text, _ := v.(string)
		fields = append(fields, text)
	}
	return id, sortFields(fields), crashes, left, ok && err == nil && wrong == nil
}

// MarkIsolated records that a poison candidate is about to be handled in isolation, so
// that a crash of its consumer counts against it.
func (s *Store) MarkIsolated(ctx context.Context, m Message) error {
	err := s.rdb.HSet(ctx, s.keys.crashes(m.Tenant), "alone "+m.Group+" "+m.ID, "1").Err()
	return failed("mark a suspect", err)
}

// Renew keeps messages from being claimed for another lease, as far as they are
// still the consumer's. Those that are not come back: they are another's now, or
// were acknowledged.
func (s *Store) Renew(ctx context.Context, msgs ...Message) (lost []Message, err error) {
	return s.setIdle(ctx, 0, msgs)
}

// Release hands messages back: any consumer of the group may claim them at once.
func (s *Store) Release(ctx context.Context, msgs ...Message) error {
	_, err := s.setIdle(ctx, handedBack, msgs)
	return err
}

// ByOwner parts messages by whose they are: those of one part are renewed at once.
func ByOwner(msgs []Message) (parts [][]Message) {
	type owner struct{ tenant, group, consumer string }
	places := map[owner]int{}
	for _, m := range msgs {
		o := owner{m.Tenant, m.Group, m.Consumer}
		at, known := places[o]
		if !known {
			at = len(parts)
			places[o], parts = at, append(parts, nil)
		}
		parts[at] = append(parts[at], m)
	}
	return parts
}

func (s *Store) setIdle(ctx context.Context, idle time.Duration, msgs []Message) (lost []Message, err error) {
	for _, part := range ByOwner(msgs) {
		args := []any{part[0].Group, part[0].Consumer, idle.Milliseconds()}
		for _, m := range part {
			args = append(args, m.ID)
		}
		ids, err := renewScript.Run(ctx, s.rdb, []string{s.keys.Stream(part[0].Tenant)}, args...).StringSlice()
		if err != nil {
			return lost, failed("renew or release a lease", err)
		}
		for _, m := range part {
			if slices.Contains(ids, m.ID) {
				lost = append(lost, m)
			}
		}
	}
	return lost, nil
}
