package wire

import (
	"context"
	"net"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// Passive returns a client that does nothing on its own, for simulations: it resolves no names,
// retries no commands, starts no goroutines and reads no clock. dial makes its connections.
//
//go:noinline
func Passive(dial func() net.Conn) Redis {
	return redis.NewClient(&redis.Options{
		Addr:                     "127.0.0.1:6379",
		Dialer:                   func(context.Context, string, string) (net.Conn, error) { return dial(), nil },
		Protocol:                 2,
		DisableIdentity:          true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
		MaxRetries:               -1,
		DialerRetries:            1,
		ReadTimeout:              -1,
		WriteTimeout:             -1,
		ReadBufferSize:           8 << 10,
		WriteBufferSize:          8 << 10,
		PipelinePoolSize:         -1,
		PoolSize:                 8,
		PoolTimeout:              time.Hour,
		ConnMaxIdleTime:          -1,
		ConnMaxLifetime:          -1,
	})
}
