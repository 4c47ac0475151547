package wire

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"

	"github.com/redis/go-redis/v9"
)

// silence is a hook of a client of one node of a cluster. Once a command has timed out, it makes further
// ones fail at once until the node answers again, so that a node that hangs delays only the first
// commands: most steps of the services are about tenants on several nodes.
type silence struct {
	node node
	err  atomic.Pointer[error] // nil while the node answers
}

// noticeSilence adds the hook to a client of a node.
func noticeSilence(client *redis.Client) { client.AddHook(&silence{node: nodeOf(client)}) }

// DialHook implements redis.Hook.
func (*silence) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook implements redis.Hook.
func (s *silence) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if silent := s.err.Load(); silent != nil {
			cmd.SetErr(*silent)
			return *silent
		}
		err := next(ctx, cmd)
		s.notice(ctx, err)
		return err
	}
}

// ProcessPipelineHook implements redis.Hook.
func (s *silence) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if silent := s.err.Load(); silent != nil {
			for _, cmd := range cmds {
				cmd.SetErr(*silent)
			}
			return *silent
		}
		err := next(ctx, cmds)
		if len(cmds) > 0 {
			s.notice(ctx, cmds[len(cmds)-1].Err())
		}
		return err
	}
}

// notice begins to refuse commands if the error of one says that it has timed out.
func (s *silence) notice(ctx context.Context, err error) {
	if ctx.Err() != nil || !timedOut(err) {
		return
	}
	err = fmt.Errorf("%s does not answer: %w", s.node.address, err)
	if s.err.CompareAndSwap(nil, &err) {
		go s.end(context.WithoutCancel(ctx))
	}
}

// end ends the silence when the node answers, or refuses connections, which delays nobody.
func (s *silence) end(ctx context.Context) {
	for {
		conn, err := connect(ctx, s.node)
		if err == nil {
			_ = conn.conn.Close()
		}
		if !timedOut(err) {
			s.err.Store(nil)
			return
		}
	}
}

func timedOut(err error) bool {
	wrong, is := errors.AsType[net.Error](err)
	return is && wrong.Timeout()
}
