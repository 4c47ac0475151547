package wire

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"

	"github.com/redis/go-redis/v9"
)

// breaker is a circuit breaker for one node of a cluster, as a hook of its client. A command that times
// out opens it, and commands fail at once until the node responds again. A node that hangs thus
// delays only the first commands; most steps of the services are about tenants on several nodes.
type breaker struct {
	node node
	open atomic.Pointer[error] // the error of all commands; nil while the breaker is closed
}

// addBreaker adds a breaker to the client of a node.
func addBreaker(client *redis.Client) { client.AddHook(&breaker{node: nodeOf(client)}) }

// DialHook implements redis.Hook.
func (*breaker) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook implements redis.Hook.
func (b *breaker) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if refusal := b.open.Load(); refusal != nil {
			cmd.SetErr(*refusal)
			return *refusal
		}
		err := next(ctx, cmd)
		b.record(ctx, err)
		return err
	}
}

// ProcessPipelineHook implements redis.Hook.
func (b *breaker) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if refusal := b.open.Load(); refusal != nil {
			for _, cmd := range cmds {
				cmd.SetErr(*refusal)
			}
			return *refusal
		}
		err := next(ctx, cmds)
		if len(cmds) > 0 { // a time-out is the error of all commands without a reply
			b.record(ctx, cmds[len(cmds)-1].Err())
		}
		return err
	}
}

// record opens the breaker if the error of a command says that it has timed out.
func (b *breaker) record(ctx context.Context, err error) {
	if ctx.Err() != nil || !timedOut(err) {
		return
	}
	err = fmt.Errorf("%s does not respond: %w", b.node.address, err)
	if b.open.CompareAndSwap(nil, &err) {
		go b.probe(context.WithoutCancel(ctx))
	}
}

// probe connects to the node until it responds or refuses the connection, and closes the breaker. It does
// not use the client, whose pool may still hold connections that have timed out.
func (b *breaker) probe(ctx context.Context) {
	for {
		conn, err := connect(ctx, b.node)
		if err == nil {
			_ = conn.conn.Close()
		}
		if !timedOut(err) {
			b.open.Store(nil)
			return
		}
	}
}

func timedOut(err error) bool {
	wrong, is := errors.AsType[net.Error](err)
	return is && wrong.Timeout()
}
