package actions_test

import (
	"context"
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"flunq.io/flunq/cmd/actions"
	"flunq.io/flunq/cmd/dev"
	"flunq.io/flunq/engine/store/wire"
)

// busy is a flunq dev in which a call does not end. Its clock runs at real speed between moves.
type busy struct{ wire.Redis }

func (busy) Do(ctx context.Context, args ...any) *redis.Cmd {
	cmd := redis.NewCmd(ctx, args...)
	now := time.Now()
	time.Sleep(2 * time.Second)
	text, err := json.Marshal(dev.Move{From: now, Now: now, Busy: "a call"})
	cmd.SetVal(string(text))
	cmd.SetErr(err)
	return cmd
}

func TestMoveClockGivesUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began := time.Now()
		move, err := actions.MoveClock(ctx, busy{}, began, began.Add(time.Hour))
		if err != nil || move.Done || move.Busy != "a call" {
			t.Fatalf("%+v, %v", move, err)
		}
		if took := time.Since(began); took > 15*time.Second {
			t.Errorf("it gave up after %v, want 10 s", took)
		}
	})
}
