package sim

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// memory is a Redis inside the process: no port, no socket, a clock that stands
// still until it is moved, and every command carried out before Write returns.
type memory struct {
	// lock makes one command, and so one script, the unit of interleaving.
	lock     sync.Mutex
	mini     *miniredis.Miniredis
	server   *server.Server
	lua      *luaEngine
	handlers map[string]memoryHandler
	clock    time.Time
	expiring bool
	closed   bool
}

// memoryHandler carries out a command that miniredis cannot be left alone with.
type memoryHandler func(m *memory, peer *server.Peer, args []string)

// newMemory makes an empty Redis whose clock shows start.
func newMemory(start time.Time) (*memory, error) {
	m := &memory{mini: miniredis.NewMiniRedis()}
	// Dial is what starts a miniredis that has no listener; the pipe it returns
	// is of no use, since a pipeline of a few KiB blocks on it.
	pipe, err := m.mini.Dial()
	if err != nil {
		return nil, fmt.Errorf("start the in-memory redis: %w", err)
	}
	if err := pipe.Close(); err != nil {
		return nil, fmt.Errorf("start the in-memory redis: %w", err)
	}
	m.mini.Seed(1)
	m.server = m.mini.Server()
	m.lua = newLuaEngine(m)
	m.handlers = memoryHandlers()
	m.setTime(start)
	return m, nil
}

// close ends it: connections fail from then on.
func (m *memory) close() {
	m.lock.Lock()
	defer m.lock.Unlock()
	if m.closed {
		return
	}
	m.closed = true
	m.lua.close()
	m.mini.Close()
}

// setTime moves the clock that TIME, stream ids, idle times and expiry follow.
func (m *memory) setTime(t time.Time) {
	m.lock.Lock()
	defer m.lock.Unlock()
	m.clock = t
	m.mini.SetTime(t)
}

// now is the time that was set last.
func (m *memory) now() time.Time {
	m.lock.Lock()
	defer m.lock.Unlock()
	return m.clock
}

// options are those of a go-redis client that does nothing by itself: it looks
// up no name, repeats no command, starts no goroutine and reads no clock.
func (m *memory) options() *redis.Options {
	return &redis.Options{
		Addr:                     "127.0.0.1:6379",
		Dialer:                   func(context.Context, string, string) (net.Conn, error) { return m.dial(), nil },
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
	}
}

// client returns a client whose one connection is open already, because
// go-redis dials on a goroutine of its own.
func (m *memory) client(ctx context.Context) (*redis.Client, error) {
	client := redis.NewClient(m.options())
	if err := client.Ping(ctx).Err(); err != nil {
		return nil, fmt.Errorf("connect to the in-memory redis: %w", err)
	}
	return client, nil
}

// dial opens a connection with a state of its own.
func (m *memory) dial() net.Conn {
	c := &memoryConn{memory: m}
	c.peer = server.NewPeer(bufio.NewWriterSize(&c.replies, 512))
	return c
}

// command carries out what a client sent.
func (m *memory) command(c *memoryConn, args []string) {
	if len(args) == 0 {
		return
	}
	name := strings.ToUpper(args[0])
	if c.queuing {
		m.queue(c, name, args)
		return
	}
	if name == "MULTI" {
		c.queuing = true
	}
	m.carryOut(c.peer, name, args)
}

// queue leaves a transaction to miniredis. A script in it could not run on the
// state that is kept, so it is refused, and the transaction with it.
func (m *memory) queue(c *memoryConn, name string, args []string) {
	switch name {
	case "EXEC", "DISCARD":
		c.queuing = false
	case "EVAL", "EVALSHA", "SCRIPT":
		c.peer.WriteError("ERR the simulator runs no scripts inside MULTI")
		m.spoil(c)
		return
	}
	m.server.Dispatch(c.peer, args)
}

// spoil makes the EXEC to come fail, as any error while queuing does.
func (m *memory) spoil(c *memoryConn) {
	var nowhere memoryConn
	other := server.NewPeer(bufio.NewWriter(&nowhere.replies))
	other.Ctx = c.peer.Ctx
	m.server.Dispatch(other, []string{"GET"})
}

// carryOut is the way of every command outside a transaction, a script's too.
func (m *memory) carryOut(peer *server.Peer, name string, args []string) {
	if handle, ok := m.handlers[name]; ok {
		handle(m, peer, args)
		return
	}
	m.server.Dispatch(peer, args)
}
