package schedule_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"flunq.io/flunq/engine/schedule"
)

const id = "6ba7b810-9dad-41d1-80b4-00c04fd430c8"

func now() time.Time { return time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC) }

func content() schedule.Content {
	return schedule.Content{Due: now().Add(time.Hour), Topic: "orders", Payload: []byte("x")}
}

// Every mistake in a request is named, and valid requests pass.
func TestCheck(t *testing.T) {
	t.Parallel()
	limits := schedule.DefaultLimits()
	for _, c := range []struct {
		name   string
		id     string
		change func(*schedule.Content)
		want   string // part of the error; "": none
	}{
		{"valid", id, func(*schedule.Content) {}, ""},
		{"upper case", strings.ToUpper(id), func(*schedule.Content) {}, ""},
		{"no id", "", func(*schedule.Content) {}, "event_id is missing"},
		{"no UUID", "order-7", func(*schedule.Content) {}, `event_id "order-7" is not a UUID`},
		{"braces", "{" + id[:34] + "}", func(*schedule.Content) {}, "is not a UUID"},
		{"no time", id, func(c *schedule.Content) { c.Due = time.Time{} }, "execute_at is missing"},
		{"past", id, func(c *schedule.Content) { c.Due = now().Add(-time.Second) }, "has passed"},
		{"too early", id, func(c *schedule.Content) { c.Due = now().Add(59 * time.Second) }, "too early: want at least 1m00s"},
		{"1 ms too early", id, func(c *schedule.Content) { c.Due = now().Add(time.Minute - time.Millisecond) }, "59.999Z is too early: want at least 1m00s"},
		{"earliest", id, func(c *schedule.Content) { c.Due = now().Add(time.Minute) }, ""},
		{"latest", id, func(c *schedule.Content) { c.Due = now().Add(360 * time.Hour) }, ""},
		{"too late", id, func(c *schedule.Content) { c.Due = now().Add(361 * time.Hour) }, "too late: want at most 15d00h"},
		{"milliseconds", id, func(c *schedule.Content) { c.Due = time.Unix(now().UnixMilli(), 0) }, "in seconds and not milliseconds since 1970"},
		{"no topic", id, func(c *schedule.Content) { c.Topic = "" }, "topic is missing"},
		{"topic", id, func(c *schedule.Content) { c.Topic = "a b" }, `topic "a b": want [a-zA-Z0-9._-]{1,249}`},
		{"dots", id, func(c *schedule.Content) { c.Topic = ".." }, "topic"},
		{"long topic", id, func(c *schedule.Content) { c.Topic = strings.Repeat("a", 250) }, "topic"},
		{"event", id, func(c *schedule.Content) { c.Topic = "event:com.shop.paid" }, ""},
		{"event without type", id, func(c *schedule.Content) { c.Topic = "event:" }, "want event:TYPE"},
		{"event of the engine", id, func(c *schedule.Content) { c.Topic = "event:io.flunq.timer.fired" }, "does not begin with io.flunq."},
		{"workflow", id, func(c *schedule.Content) { c.Topic = "workflow:shop.order:1.0.0" }, ""},
		{"workflow with build metadata", id, func(c *schedule.Content) { c.Topic = "workflow:order:1.0.0-rc.1+build.7" }, ""},
		{"workflow with spaces", id, func(c *schedule.Content) { c.Topic = "workflow:my order" }, "want workflow:NAME"},
		{"workflow without version", id, func(c *schedule.Content) { c.Topic = "workflow:order:" }, "want workflow:NAME"},
		{"workflow with two versions", id, func(c *schedule.Content) { c.Topic = "workflow:order:1.0.0:2.0.0" }, "want workflow:NAME"},
		{"workflow of version only", id, func(c *schedule.Content) { c.Topic = "workflow::1.0.0" }, "want workflow:NAME"},
		{"event with control character", id, func(c *schedule.Content) { c.Topic = "event:paid\n" }, "want event:TYPE"},
		{"event not in UTF-8", id, func(c *schedule.Content) { c.Topic = "event:paid\xff" }, "want event:TYPE"},
		{"event in another language", id, func(c *schedule.Content) { c.Topic = "event:bezahlt.größer" }, ""},
		{"workflow without name", id, func(c *schedule.Content) { c.Topic = "workflow:" }, "want workflow:NAME"},
		{"no payload", id, func(c *schedule.Content) { c.Payload = nil }, "payload is missing"},
		{"most payload", id, func(c *schedule.Content) { c.Payload = make([]byte, 256<<10) }, ""},
		{"too large", id, func(c *schedule.Content) { c.Payload = make([]byte, 256<<10+1) }, "payload has 262145 bytes"},
		{"key", id, func(c *schedule.Content) { c.Key = strings.Repeat("k", 1025) }, "key has 1025 bytes"},
		{"binary key", id, func(c *schedule.Content) { c.Key = "\x00\x01\xff" }, `key "\x00\x01\xff": want text in UTF-8`},
		{"binary header", id, func(c *schedule.Content) { c.Headers = map[string]string{"trace": "\xff"} }, `header "trace": want a name and a value in UTF-8`},
		{"tenant", id, func(c *schedule.Content) { c.Tenant = "shop-7" }, ""},
		{"bad tenant", id, func(c *schedule.Content) { c.Tenant = "Shop {7}" }, `tenant "Shop {7}": want [a-z0-9]`},
		{"long tenant", id, func(c *schedule.Content) { c.Tenant = strings.Repeat("t", 64) }, "tenant"},
		{"header", id, func(c *schedule.Content) { c.Headers = map[string]string{"ce_id": "7"} }, "are set by the scheduler"},
		{"attribute", id, func(c *schedule.Content) { c.Topic, c.Headers = "event:paid", map[string]string{"order": "7"} }, ""},
		{"own attribute", id, func(c *schedule.Content) { c.Topic, c.Headers = "event:paid", map[string]string{"source": "7"} }, "CloudEvents attributes"},
		{"no attribute", id, func(c *schedule.Content) { c.Topic, c.Headers = "event:paid", map[string]string{"X-Order": "7"} }, "CloudEvents attributes"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			one := content()
			c.change(&one)
			err := limits.Check(c.id, one, now())
			if got := fmt.Sprint(err); c.want == "" && err != nil || c.want != "" && !strings.Contains(got, c.want) {
				t.Errorf("Check = %v, want %q", err, c.want)
			}
		})
	}
	late := now().Add(999 * time.Millisecond) // a client that adds a minute in whole seconds
	if err := limits.CheckDue(now().Add(time.Minute), late); err != nil {
		t.Errorf("a minute after the second of %s: %v", late, err)
	}
	allowing := limits
	allowing.Topics = []string{"orders"}
	other := content()
	other.Topic = "users"
	if err := allowing.Check(id, other, now()); err == nil || !strings.Contains(err.Error(), "SCHEDULER_TOPICS") {
		t.Errorf("a topic that is not allowed: %v", err)
	}
	all := limits.Check("x", schedule.Content{}, now())
	for _, want := range []string{"event_id", "execute_at", "topic", "payload"} {
		if !strings.Contains(all.Error(), want) {
			t.Errorf("%v does not mention %s", all, want)
		}
	}
}

// Settle returns what follows from the outcome of a publication.
func TestSettle(t *testing.T) {
	t.Parallel()
	retry := schedule.Retry{Attempts: 3, First: 10 * time.Millisecond, Longest: 25 * time.Millisecond}
	broken := errors.New("connection lost")
	for _, c := range []struct {
		name               string
		attempts, failures int // before
		err                error
		known              bool
		status             schedule.Status
		after, failed      int
		pause              time.Duration
	}{
		{"published", 0, 0, nil, true, schedule.Fired, 1, 0, 0},
		{"away", 1, 1, schedule.ErrUnreachable, true, schedule.Scheduled, 1, 1, 25 * time.Millisecond},
		{"later", 1, 1, schedule.ErrUnavailable, true, schedule.Scheduled, 1, 1, 25 * time.Millisecond},
		{"refused", 0, 0, schedule.ErrRefused, true, schedule.Dead, 1, 1, 0},
		{"first failure", 0, 0, schedule.ErrNotPublished, true, schedule.Scheduled, 1, 1, 10 * time.Millisecond},
		{"second failure", 1, 1, schedule.ErrNotPublished, true, schedule.Scheduled, 2, 2, 20 * time.Millisecond},
		{"last failure", 2, 2, schedule.ErrNotPublished, true, schedule.Dead, 3, 3, 0},
		{"unknown", 0, 0, broken, false, "", 0, 0, 0},
		// An earlier attempt may have published it, so it cannot be cancelled. The next claim of a FIRING
		// event adds an attempt.
		{"failure after unknown", 1, 0, schedule.ErrNotPublished, true, schedule.Firing, 1, 1, 10 * time.Millisecond},
		{"away after unknown", 1, 0, schedule.ErrUnreachable, true, schedule.Firing, 0, 0, 25 * time.Millisecond},
		{"many unknown", 50, 0, broken, false, "", 0, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			e := schedule.Event{ID: id, Version: 7, Status: schedule.Firing, Attempts: c.attempts, Failures: c.failures}
			got, known := retry.Settle(&e, c.err, now())
			if known != c.known {
				t.Fatalf("known is %v, want %v", known, c.known)
			}
			if !known {
				return
			}
			want := schedule.Settled{ID: id, Version: 7, Status: c.status, Attempts: c.after, Failures: c.failed}
			if c.pause > 0 {
				want.Next = now().Add(c.pause)
			}
			if c.err != nil {
				want.Error = c.err.Error()
			}
			if got != want {
				t.Errorf("Settle = %+v, want %+v", got, want)
			}
		})
	}
}

// Only an event that has certainly not been published can be cancelled or changed.
func TestChangeAllows(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		kind               schedule.ChangeKind
		status             schedule.Status
		attempts, failures int
		want               schedule.Code // Success: allowed
	}{
		{schedule.Cancel, schedule.Scheduled, 0, 0, schedule.Success},
		{schedule.Cancel, schedule.Scheduled, 2, 2, schedule.Success},
		{schedule.Cancel, schedule.Scheduled, 2, 1, schedule.Conflict},
		{schedule.Cancel, schedule.Firing, 0, 0, schedule.Conflict},
		{schedule.Cancel, schedule.Fired, 1, 0, schedule.Conflict},
		{schedule.Cancel, schedule.Dead, 1, 1, schedule.Conflict},
		{schedule.Cancel, schedule.Cancelled, 0, 0, schedule.NoContent},
		{schedule.Move, schedule.Scheduled, 0, 0, schedule.Success},
		{schedule.Move, schedule.Cancelled, 0, 0, schedule.Conflict},
		{schedule.Replace, schedule.Firing, 0, 0, schedule.Conflict},
		{schedule.Replay, schedule.Dead, 3, 3, schedule.Success},
		{schedule.Replay, schedule.Scheduled, 0, 0, schedule.Conflict},
	} {
		e := schedule.Event{Content: content(), ID: id, Status: c.status, Version: 4, Attempts: c.attempts, Failures: c.failures}
		change := schedule.Change{Kind: c.kind, Due: now().Add(2 * time.Hour), Content: content()}
		out, ok := change.Allows(&e)
		if ok != (c.want == schedule.Success) || !ok && out.Code != c.want {
			t.Errorf("%s of %s with %d attempts and %d failures: %v, %d, want %d", c.kind, c.status, c.attempts, c.failures, ok, out.Code, c.want)
		}
		if !ok {
			continue
		}
		after := change.Apply(e, now())
		if after.Version != 5 || !after.Updated.Equal(now()) {
			t.Errorf("%s: version %d, updated %s", c.kind, after.Version, after.Updated)
		}
		if c.kind != schedule.Cancel && (after.Status != schedule.Scheduled || after.Attempts+after.Failures > 0 || after.MayBePublished()) {
			t.Errorf("%s: %+v", c.kind, after)
		}
	}
}

// Partitions are those of FNV-1a in any implementation, and have similar sizes.
func TestPartition(t *testing.T) {
	t.Parallel()
	if got := schedule.Partition("a", 1<<30); got != 0xe40c292c%(1<<30) {
		t.Errorf("Partition(a) = %#x", got)
	}
	const count, ids = 16, 16_000
	var found [count]int
	for i := range ids {
		found[schedule.Partition(fmt.Sprintf("%08x-9dad-41d1-80b4-00c04fd430c8", i), count)]++
	}
	for p, n := range found {
		if n < ids/count*9/10 || n > ids/count*11/10 {
			t.Errorf("partition %d holds %d of %d", p, n, ids)
		}
	}
}
