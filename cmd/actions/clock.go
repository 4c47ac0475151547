package actions

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"flunq.io/flunq/cmd/dev"
	"flunq.io/flunq/engine/store/wire"
)

// Errors about clocks that callers distinguish.
var (
	ErrClock  = errors.New("the clock cannot be moved")
	ErrSilent = errors.New("the clock does not respond")
)

// clockError wraps ErrClock or ErrSilent with a message of its own.
type clockError struct{ kind, err error }

func (e *clockError) Error() string   { return e.err.Error() }
func (e *clockError) Unwrap() []error { return []error{e.kind, e.err} }

// AskClock sends a command to the clock of a flunq dev and decodes the reply. The error wraps
// ErrClock if the clock refuses the command, and ErrSilent if it does not respond.
func AskClock(ctx context.Context, rdb wire.Redis, into any, args ...any) error {
	text, err := rdb.Do(ctx, append([]any{dev.Command}, args...)...).Text()
	var refused redis.Error
	switch {
	case err != nil && strings.Contains(err.Error(), "unknown command"):
		return &clockError{ErrClock, errors.New("this Redis keeps real time: only 'flunq dev --clock virtual' has a clock that can be moved")}
	case errors.As(err, &refused):
		return &clockError{ErrClock, errors.New(strings.TrimPrefix(err.Error(), "ERR "))}
	case err != nil:
		return &clockError{ErrSilent, fmt.Errorf("query the clock: %w", err)}
	}
	if err := json.Unmarshal([]byte(text), into); err != nil {
		return fmt.Errorf("decode the reply of the clock: %w", err)
	}
	return nil
}

// stallTimeout is how long the clock may make no progress.
const stallTimeout = 10 * time.Second

// MoveClock moves the clock until it reaches the target or makes no progress for 10 s. Each
// request moves it for a limited time, so ctx can end the move.
func MoveClock(ctx context.Context, rdb wire.Redis, from, target time.Time) (dev.Move, error) {
	all := dev.Move{From: from, Now: from, Target: target}
	if err := dev.CheckTime(target); err != nil {
		return all, &clockError{ErrClock, err}
	}
	for changed := time.Now(); ; {
		left := max(0, target.Sub(all.Now))
		var move dev.Move
		if err := AskClock(ctx, rdb, &move, "ADVANCE", (left + time.Millisecond - 1).Milliseconds()); err != nil {
			return all, err
		}
		// Between slices the clock runs at real speed, which is no progress.
		if move.Now.After(move.From) || move.Fired+move.Events+move.Dead > 0 {
			changed = time.Now()
		}
		all.Now, all.Done, all.Busy = move.Now, move.Done, move.Busy
		all.Fired += move.Fired
		all.Events += move.Events
		all.Dead += move.Dead
		all.Timers = append(all.Timers, move.Timers...)
		if all.Done || time.Since(changed) > stallTimeout {
			return all, nil
		}
		if ctx.Err() != nil {
			return all, ctx.Err()
		}
	}
}
