package memory_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"flunq.io/flunq/sim/memory"
)

// Arguments are formatted as a connection would send them, so no command needs a
// connection.
func TestAnswerFormatsTimes(t *testing.T) {
	t.Parallel()
	server := memory.New(time.Unix(0, 0))
	defer server.Close()
	at := time.Date(2026, time.January, 1, 0, 0, 0, 5000, time.UTC)
	set := redis.NewStatusCmd(t.Context(), "set", "at", at)
	wait := redis.NewStatusCmd(t.Context(), "set", "wait", 3*time.Second)
	if !server.Answer(set) || !server.Answer(wait) {
		t.Fatal("it does not support a time or a duration")
	}
	for key, want := range map[string]string{"at": "2026-01-01T00:00:00.000005Z", "wait": "3000000000"} {
		if got := server.Do("get", key); got.Text != want {
			t.Errorf("%s is %q, want %q", key, got.Text, want)
		}
	}
}

// The next server reuses the buffers of a closed one, but sees none of their content.
func TestNothingOutlivesAServer(t *testing.T) {
	t.Parallel()
	for round := range 3 {
		server := memory.New(time.Unix(0, 0))
		for i := range 100 {
			text := strconv.Itoa(1000*round + i)
			server.Do("xadd", "s", "*", "number", text, "again", text)
		}
		found := redis.NewXMessageSliceCmd(t.Context(), "xrange", "s", "-", "+")
		if !server.Answer(found) || len(found.Val()) != 100 {
			t.Fatalf("round %d: %d entries, %v", round, len(found.Val()), found.Err())
		}
		for i, entry := range found.Val() {
			if want := strconv.Itoa(1000*round + i); entry.Values["number"] != want || entry.Values["again"] != want {
				t.Errorf("round %d: entry %d is %v", round, i, entry.Values)
			}
		}
		server.Close()
	}
}
