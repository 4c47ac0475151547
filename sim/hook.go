package sim

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"
)

// hook lets another service have its turn before each command, and has the
// in-memory Redis answer it.
type hook struct{ *line }

// DialHook is redis.Hook's.
func (h hook) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook is redis.Hook's.
func (h hook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if err := h.simulation.misbehave(ctx, cmd); err != nil {
			cmd.SetErr(err)
			return err
		}
		err := h.simulation.command(sending{ctx: ctx, one: cmd, nextOne: next})
		if err != nil && cmd.Err() == nil {
			cmd.SetErr(err)
		}
		if err == nil {
			h.simulation.disowned(cmd)
		}
		return err
	}
}

// ProcessPipelineHook is redis.Hook's.
func (h hook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		for _, cmd := range cmds {
			if err := h.simulation.misbehave(ctx, cmd); err != nil {
				return err
			}
		}
		err := h.simulation.command(sending{ctx: ctx, all: cmds, nextAll: next})
		if errors.Is(err, errLost) || errors.Is(err, errCrashed) || errors.Is(err, errStopped) {
			for _, cmd := range cmds { // as the client does, which has seen none of the replies
				cmd.SetErr(err)
			}
		}
		return err
	}
}

// sending is a command, or a pipeline of them, on its way to Redis.
type sending struct {
	ctx     context.Context //nolint:containedctx // that of the command
	one     redis.Cmder
	nextOne redis.ProcessHook
	all     []redis.Cmder
	nextAll redis.ProcessPipelineHook
}

// cmds are all of its commands.
func (x sending) cmds() []redis.Cmder {
	if x.one != nil {
		return []redis.Cmder{x.one}
	}
	return x.all
}

// perform lets Redis answer. The error is the first of those of the commands.
func (w *simulation) perform(x sending) error {
	if x.one != nil {
		if w.memory.Answer(x.one) {
			return x.one.Err()
		}
		return x.nextOne(x.ctx, x.one)
	}
	var first error
	for i, cmd := range x.all {
		if err := w.await(cmd); err != nil {
			return err
		}
		if !w.memory.Answer(cmd) {
			return cmp.Or(first, x.nextAll(x.ctx, x.all[i:]))
		}
		first = cmp.Or(first, cmd.Err())
	}
	return first
}

// command carries out what a service, or the world itself, asks of Redis.
func (w *simulation) command(x sending) error {
	s := w.current
	if s == nil {
		return w.perform(x)
	}
	if s.process.dead {
		return errCrashed
	}
	if err := w.pass(); err != nil {
		return err
	}
	s.commands++
	var faults []Fault
	if w.cfg.Plan != nil {
		faults = w.draw(s, s.commands, func(k FaultKind) bool { return k != CallLost })
	}
	for _, f := range faults {
		w.strike(f, wording(x.cmds()))
	}
	// What stands still goes on only when its time has come.
	for w.clock.now.Before(s.process.frozen) {
		if err := w.pass(); err != nil {
			return err
		}
	}
	if s.process.dead || len(faults) > 0 || w.clock.now.Before(w.outage) {
		return w.faulty(x, faults)
	}
	if x.reads() {
		w.share(s)
	}
	w.unconfirmed.sent(w, x.one)
	return w.perform(x)
}

// reads reports whether it asks for new events.
func (x sending) reads() bool {
	read := func(cmd redis.Cmder) bool { return cmd.Name() == "xreadgroup" }
	return x.one != nil && read(x.one) || slices.ContainsFunc(x.all, read)
}

// await lets a read wait until there is something to read, or its time is over.
func (w *simulation) await(cmd redis.Cmder) error {
	s := w.current
	if s == nil || w.cfg.Waits == 0 || !s.consumerGroup.fires() || cmd.Name() != "xreadgroup" {
		return nil
	}
	args, block := cmd.Args(), int64(0)
	for i, arg := range args {
		if arg == "block" {
			block, _ = args[i+1].(int64)
		}
	}
	until := w.clock.now.Add(time.Duration(block) * time.Millisecond)
	for w.clock.now.Before(until) && !w.unread(s) {
		s.waits, s.wake = true, until
		if !s.pause() {
			return errStopped
		}
		s.waits, s.called = false, false
		switch {
		case s.process.dead:
			return errCrashed
		case w.clock.now.Before(w.outage):
			return errLost
		}
	}
	return nil
}

// unread reports whether there is an event that nobody of a service's group was given.
func (w *simulation) unread(s *service) bool {
	for _, stream := range w.streams {
		if unread, _ := w.memory.Open(stream, s.consumerGroup.reads(), s.consumer, func([]string) bool { return true }); unread > 0 {
			return true
		}
	}
	return false
}

// errStopped ends a service whose world has ended.
var errStopped = errors.New("the simulation has ended")

// pass is a point at which another service can have its turn.
func (w *simulation) pass() error {
	s := w.current
	if s == nil || w.stays(s) {
		return nil
	}
	if !s.pause() {
		return errStopped
	}
	return nil
}

// stays reports whether the next turn is again that of the service that has it: it
// is taken without the way through the world.
func (w *simulation) stays(s *service) bool {
	if w.bodies || w.failure != nil || w.limit(s.context) != "" {
		return false
	}
	if w.next = w.choose(); w.next != s {
		return false
	}
	w.next = nil
	s.turns++
	w.turns++
	return true
}
