package wire

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// AllReplicas waits for all replicas that are connected.
const AllReplicas = -1

// ErrUnconfirmed is wrapped by errors of writes that too few replicas have confirmed in time. Such
// writes were made, and are lost only if the master is lost before its replicas have them.
var ErrUnconfirmed = errors.New("the write is not on enough replicas yet (REDIS_WAIT)")

// confirmation says which commands must have reached how many replicas before they count as done.
type confirmation struct {
	replicas int           // or AllReplicas
	patience time.Duration // after which such a command fails
	confirms func(cmd redis.Cmder) bool

	mu    sync.Mutex
	known map[*redis.Client]replicas
}

// replicas is the last known number of replicas of a node.
type replicas struct {
	count int
	asked time.Time
}

// replicasFor is how long a known number of replicas is trusted. Zero is not: the first one may
// connect at any moment, and be promoted the next.
const replicasFor = time.Second

// Confirm makes the client wait, after each command for which needed returns true, until count replicas
// have it, or AllReplicas, by WAIT on the same connection. If that takes longer than patience, the command
// fails. Call it before using the client.
func Confirm(rdb Redis, count int, patience time.Duration, needed func(cmd redis.Cmder) bool) {
	c := &confirmation{replicas: count, patience: patience, confirms: needed, known: map[*redis.Client]replicas{}}
	switch client := rdb.(type) {
	case *cluster:
		client.router.confirm = c
	case *redis.Client:
		client.AddHook(confirming{c, client})
	}
}

// send calls exec with the commands and, if one of them needs it, a WAIT after them. Commands that
// too few replicas have confirmed get an error.
func (c *confirmation) send(ctx context.Context, node *redis.Client, cmds []redis.Cmder, exec func([]redis.Cmder) error) error {
	if c == nil || !c.needed(cmds) {
		return exec(cmds)
	}
	want := c.wanted(ctx, node, false)
	if want == 0 {
		return exec(cmds)
	}
	wait := redis.NewIntCmd(ctx, "wait", want, c.patience.Milliseconds())
	err := exec(append(slices.Clip(cmds), wait))
	got, failed := int(wait.Val()), wait.Err()
	if failed == nil && (got >= want || c.replicas == AllReplicas && got >= c.wanted(ctx, node, true)) {
		return err
	}
	unconfirmed := fmt.Errorf("%w: %d of %d", ErrUnconfirmed, got, want)
	if failed != nil {
		unconfirmed = fmt.Errorf("%w: %w", ErrUnconfirmed, failed)
	}
	for _, cmd := range cmds {
		if cmd.Err() == nil && c.confirms(cmd) {
			cmd.SetErr(unconfirmed)
		}
	}
	return unconfirmed
}

func (c *confirmation) needed(cmds []redis.Cmder) bool {
	if len(cmds) > 0 && cmds[0].Name() == "multi" {
		return false
	}
	return slices.ContainsFunc(cmds, c.confirms)
}

// wanted returns how many replicas of a node must confirm a write.
func (c *confirmation) wanted(ctx context.Context, node *redis.Client, anew bool) int {
	if c.replicas != AllReplicas {
		return c.replicas
	}
	c.mu.Lock()
	known, ok := c.known[node]
	c.mu.Unlock()
	if ok && !anew && known.count > 0 && time.Since(known.asked) < replicasFor {
		return known.count
	}
	info, err := node.Info(ctx, "replication").Result()
	if err != nil {
		return max(known.count, 1)
	}
	known = replicas{strings.Count(info, "state=online"), time.Now()}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.known[node] = known
	return known.count
}

// confirming is the hook of a client of a single Redis.
type confirming struct {
	confirm *confirmation
	client  *redis.Client
}

// DialHook implements redis.Hook.
func (confirming) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook implements redis.Hook.
func (h confirming) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if !h.confirm.confirms(cmd) {
			return next(ctx, cmd)
		}
		pipe := h.client.Pipeline() // which confirms it
		_ = pipe.Process(ctx, cmd)
		_, _ = pipe.Exec(ctx)
		return cmd.Err()
	}
}

// ProcessPipelineHook implements redis.Hook.
func (h confirming) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		return h.confirm.send(ctx, h.client, cmds, func(cmds []redis.Cmder) error { return next(ctx, cmds) })
	}
}

// ParseReplicas reads a number of replicas, or all.
func ParseReplicas(text string) (int, error) {
	if text == "all" {
		return AllReplicas, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || n > 100 {
		return 0, errors.New("want a number of replicas, or all")
	}
	return n, nil
}
