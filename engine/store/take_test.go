package store_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/redis/go-redis/v9"

	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/redistest"
)

// wanted is what each group is for, in these tests.
var wanted = map[string][]event.Type{
	store.WorkerGroup:   {event.ExecutionStarted, event.TaskCompleted},
	store.ExecutorGroup: {event.TaskRequested},
	store.TimerGroup:    {event.TimerScheduled},
}

// sharer is a process that reads for several groups.
type sharer struct {
	st   *store.Store
	name string
}

func newSharer(rdb *redis.Client, name string) sharer {
	return sharer{store.New(rdb, store.Options{Share: 1}), name}
}

// read reads for one of the groups, and acknowledges what that does not want.
func (s sharer) read(t *testing.T, group string, count int) []store.Message {
	t.Helper()
	var notes store.Notes
	r := store.Reader{Group: group, Consumer: s.name, Tenants: []string{tenant}, Notes: &notes}
	r.Wants = func(typ event.Type) bool { return slices.Contains(wanted[group], typ) }
	msgs, now, err := s.st.Read(t.Context(), r, count, 0)
	must(t, err)
	if now.IsZero() {
		t.Error("read without a time")
	}
	r.Spent = notes.Unwanted
	must(t, s.st.Acknowledge(t.Context(), r))
	return msgs
}

// publish appends an event of a type.
func (s sharer) publish(t *testing.T, n int, typ event.Type) {
	t.Helper()
	e := happened(fmt.Sprintf("e%d", n), typ)
	e.Ext = map[string]string{"traceparent": "00-1"}
	must(t, s.st.Publish(t.Context(), e))
}

// commit publishes events in a transition.
func (s sharer) commit(t *testing.T, events ...event.Event) {
	t.Helper()
	c := step(0, nil)
	c.Execution = "x" + events[0].ID
	for i := range events {
		events[i].Execution = c.Execution
	}
	c.History, c.Publish = events[:1], events
	done, err := s.st.CommitAll(t.Context(), []store.Commit{c, c, step(7, nil)}) // the others are not made
	must(t, err)
	if done[0].Outcome != store.Committed || done[1].Outcome != store.Conflict || done[2].Outcome != store.Conflict {
		t.Fatalf("committed: %v", done)
	}
}

// groupOf is how a group stands.
func groupOf(t *testing.T, rdb *redis.Client, name string) redis.XInfoGroup {
	t.Helper()
	groups, err := rdb.XInfoGroups(t.Context(), streamKey).Result()
	must(t, err)
	i := slices.IndexFunc(groups, func(g redis.XInfoGroup) bool { return g.Name == name })
	if i < 0 {
		t.Fatalf("there is no group %s", name)
	}
	return groups[i]
}

// twoSharers are two processes on a Redis that knows the scripts.
func twoSharers(t *testing.T) (rdb *redis.Client, one, other sharer) {
	t.Helper()
	rdb = redistest.Start(t)
	for _, script := range store.Scripts() {
		must(t, script.Load(t.Context(), rdb).Err())
	}
	one, other = newSharer(rdb, "one"), newSharer(rdb, "other")
	must(t, one.st.Groups(t.Context(), tenant))
	return rdb, one, other
}

// What was read for one group is given to the others as if they had read it.
func TestTakenAsIfRead(t *testing.T) {
	t.Parallel()
	rdb, one, other := twoSharers(t)
	for n, typ := range []event.Type{event.ExecutionStarted, event.TaskRequested, event.TimerScheduled, event.TaskRequested, event.WorkflowCompleted} {
		one.publish(t, n, typ)
	}
	one.read(t, store.ExecutorGroup, 1) // it is known that it reads
	if msgs := one.read(t, store.WorkerGroup, 100); len(msgs) != 1 {
		t.Fatalf("%d messages for the worker, want 1", len(msgs))
	}
	must(t, rdb.ConfigResetStat(t.Context()).Err())
	got := one.read(t, store.ExecutorGroup, 100)
	if info := rdb.Info(t.Context(), "commandstats").Val(); len(got) != 2 || strings.Contains(info, "cmdstat_xreadgroup:") {
		t.Errorf("%d messages, want 2, without a read of the stream: %s", len(got), info)
	}
	at := groupOf(t, rdb, store.ExecutorGroup)
	if at.Pending != 2 || at.Lag != 0 || at.EntriesRead != 5 {
		t.Errorf("the group is %+v, want 2 pending, and all 5 entries read", at)
	}
	must(t, rdb.XGroupSetID(t.Context(), streamKey, store.ExecutorGroup, "0").Err())
	read := other.read(t, store.ExecutorGroup, 100)
	ignored := cmp.Options{cmpopts.IgnoreFields(store.Message{}, "Read", "Consumer"), cmpopts.IgnoreUnexported(store.Message{})}
	if diff := cmp.Diff(read, got, ignored); diff != "" {
		t.Error(diff)
	}
	for i := range got {
		if diff := cmp.Diff(read[i].Fields(), got[i].Fields()); diff != "" {
			t.Error(diff)
		}
	}
}

// Whoever reads what of a stream, and in which order, each group is given what it wants
// of it once, in the order of the stream, and holds it until it is acknowledged.
func TestTakenOnce(t *testing.T) {
	t.Parallel()
	rdb := redistest.Start(t)
	types := []event.Type{
		event.ExecutionStarted, event.TaskRequested, event.TaskCompleted, event.TimerScheduled, event.WorkflowCompleted, "com.example.paid",
	}
	groups := []string{store.WorkerGroup, store.ExecutorGroup, store.TimerGroup}
	for seed := range uint64(30) {
		must(t, rdb.FlushAll(t.Context()).Err())
		chance := rand.New(rand.NewPCG(seed, 1))
		processes := []sharer{newSharer(rdb, "p0"), newSharer(rdb, "p1"), {store.New(rdb, store.Options{}), "p2"}}
		must(t, processes[0].st.Groups(t.Context(), tenant))
		sent, got, gone := map[string][]string{}, map[string][]string{}, map[string]bool{}
		take := func(s sharer, group string, count int) int {
			msgs := s.read(t, group, count)
			for _, m := range msgs {
				if m.Consumer != s.name || m.Group != group {
					t.Fatalf("seed %d: %s of %s was given a message of %s of %s", seed, s.name, group, m.Consumer, m.Group)
				}
				got[group] = append(got[group], m.Event.ID)
			}
			return len(msgs)
		}
		for n := range 120 {
			if chance.IntN(2) == 0 {
				typ := types[chance.IntN(len(types))]
				if chance.IntN(2) == 0 {
					processes[0].publish(t, n, typ)
				} else {
					processes[chance.IntN(len(processes))].commit(t, happened(fmt.Sprintf("e%d", n), typ), happened("", event.TimerFired))
				}
				for _, group := range groups {
					if slices.Contains(wanted[group], typ) {
						sent[group] = append(sent[group], fmt.Sprintf("e%d", n))
					}
				}
				continue
			}
			take(processes[chance.IntN(len(processes))], groups[chance.IntN(len(groups))], 1+chance.IntN(7))
			if chance.IntN(40) == 0 { // somebody deletes an entry, which nobody else need be given
				if all := rdb.XRange(t.Context(), streamKey, "-", "+").Val(); len(all) > 0 {
					one := all[chance.IntN(len(all))]
					must(t, rdb.XDel(t.Context(), streamKey, one.ID).Err())
					id, _ := one.Values["id"].(string)
					gone[id] = true
				}
			}
		}
		for _, group := range groups {
			for range 200 {
				take(processes[chance.IntN(len(processes))], group, 7)
			}
			missing := slices.DeleteFunc(slices.Clone(sent[group]), func(id string) bool { return gone[id] && !slices.Contains(got[group], id) })
			if diff := cmp.Diff(missing, got[group]); diff != "" {
				t.Errorf("seed %d: %s (-sent +given): %s", seed, group, diff)
			}
			if at := groupOf(t, rdb, group); at.Pending != int64(len(got[group])) {
				t.Errorf("seed %d: %s has %d pending, want %d", seed, group, at.Pending, len(got[group]))
			}
		}
	}
}

// What a process has written is given to its groups as if they had read it.
func TestWrittenIsTaken(t *testing.T) {
	t.Parallel()
	rdb, one, other := twoSharers(t)
	for _, group := range []string{store.WorkerGroup, store.ExecutorGroup} {
		one.read(t, group, 1) // it is known that it reads
	}
	asked, fails := happened("e1", event.TaskRequested), happened("e2", event.WorkflowFailed)
	asked.Ext, asked.Task = map[string]string{event.DefinitionAttribute: "abc"}, "/do/0/a"
	one.commit(t, asked, fails, happened("e3", event.TaskRequested))
	must(t, rdb.ConfigResetStat(t.Context()).Err())
	got := one.read(t, store.ExecutorGroup, 100)
	if len(got) != 2 {
		t.Fatalf("%d messages for the executor, want 2", len(got))
	}
	given, err := one.st.Replies(t.Context(), []store.Answer{
		{&got[0], new(happened("e4", event.TaskCompleted))}, {&got[0], new(happened("e5", event.TaskCompleted))}, {&got[1], new(happened("e6", event.TaskCompleted))},
	})
	must(t, err)
	if diff := cmp.Diff([]bool{true, false, true}, given); diff != "" {
		t.Error(diff)
	}
	answers := append(one.read(t, store.WorkerGroup, 100), one.read(t, store.WorkerGroup, 100)...)
	if info := rdb.Info(t.Context(), "commandstats").Val(); len(answers) != 2 || strings.Contains(info, "cmdstat_xreadgroup:") {
		t.Errorf("%d answers, want 2, without a read of the stream: %s", len(answers), info)
	}
	for group, msgs := range map[string][]store.Message{store.ExecutorGroup: got, store.WorkerGroup: answers} {
		must(t, rdb.XGroupSetID(t.Context(), streamKey, group, "0").Err())
		read := other.read(t, group, 100)
		ignored := cmp.Options{cmpopts.IgnoreFields(store.Message{}, "Read", "Consumer"), cmpopts.IgnoreUnexported(store.Message{})}
		if diff := cmp.Diff(read, msgs, ignored); diff != "" {
			t.Error(diff)
		}
		for i := range msgs {
			if diff := cmp.Diff(read[i].Fields(), msgs[i].Fields()); diff != "" {
				t.Error(diff)
			}
		}
	}
}

// A group that is removed reads from the beginning, whatever was known.
func TestTakenFromNobody(t *testing.T) {
	t.Parallel()
	rdb := redistest.Start(t)
	one := newSharer(rdb, "one")
	must(t, one.st.Groups(t.Context(), tenant))
	one.publish(t, 1, event.TaskRequested)
	one.read(t, store.ExecutorGroup, 1)
	one.publish(t, 2, event.TaskRequested)
	one.read(t, store.WorkerGroup, 100)
	must(t, rdb.XGroupDestroy(t.Context(), streamKey, store.ExecutorGroup).Err())
	if msgs := one.read(t, store.ExecutorGroup, 100); len(msgs) != 2 {
		t.Errorf("%d messages, want both", len(msgs))
	}
	must(t, rdb.Del(t.Context(), streamKey).Err())
	if msgs := one.read(t, store.ExecutorGroup, 100); len(msgs) != 0 {
		t.Errorf("%d messages of a stream that is gone", len(msgs))
	}
	one.publish(t, 3, event.TaskRequested)
	one.read(t, store.WorkerGroup, 100)
	if msgs := one.read(t, store.ExecutorGroup, 100); len(msgs) != 1 {
		t.Errorf("%d messages of a stream that is new, want 1", len(msgs))
	}
}

// A Redis that cannot move a group is read as ever.
func TestTakenFromASmallRedis(t *testing.T) {
	t.Parallel()
	rdb := redis.NewClient(&redis.Options{Addr: miniredis.RunT(t).Addr()})
	one := newSharer(rdb, "one")
	must(t, one.st.Groups(t.Context(), tenant))
	one.read(t, store.ExecutorGroup, 100)
	for n := range 3 {
		one.publish(t, n, event.TaskRequested)
		one.read(t, store.WorkerGroup, 100)
		if msgs := one.read(t, store.ExecutorGroup, 100); len(msgs) != 1 {
			t.Errorf("%d messages, want 1", len(msgs))
		}
	}
}
