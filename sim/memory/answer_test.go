package memory_test

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"flunq.io/flunq/sim/memory"
)

// Arguments are spelled as a connection would carry them, so that no command has to go
// over one.
func TestAnswerSpellsTimes(t *testing.T) {
	t.Parallel()
	server := memory.New(time.Unix(0, 0))
	defer server.Close()
	at := time.Date(2026, time.January, 1, 0, 0, 0, 5000, time.UTC)
	set := redis.NewStatusCmd(t.Context(), "set", "at", at)
	wait := redis.NewStatusCmd(t.Context(), "set", "wait", 3*time.Second)
	if !server.Answer(set) || !server.Answer(wait) {
		t.Fatal("it does not know a time or a duration")
	}
	for key, want := range map[string]string{"at": "2026-01-01T00:00:00.000005Z", "wait": "3000000000"} {
		if got := server.Do("get", key); got.Text != want {
			t.Errorf("%s is %q, want %q", key, got.Text, want)
		}
	}
}
