package sim

import (
	"net"
	"sync"

	"github.com/redis/go-redis/v9"

	"flunq.io/flunq/sim/memory"
)

// pooledClient is a pooled go-redis client that serves one simulation after another. Hardly any
// simulation opens a connection, so a client keeps nothing of a simulation that has
// ended.
type pooledClient struct {
	simulation *simulation
	client     *redis.Client
	dialed     bool
}

//nolint:gochecknoglobals // a pool of idle clients
var clientPool sync.Pool

// connect gives the simulation a client.
func (w *simulation) connect() {
	l, ok := clientPool.Get().(*pooledClient)
	if !ok {
		l = &pooledClient{}
		l.client = memory.Client(l.dial)
		l.client.AddHook(hook{l})
	}
	l.simulation, w.line, w.client = w, l, l.client
}

func (l *pooledClient) dial() net.Conn {
	l.dialed = true
	return l.simulation.memory.Dial()
}

// disconnect returns the client to the pool, or closes it if it has connections.
func (l *pooledClient) disconnect() {
	l.simulation = nil
	if l.dialed {
		// The in-memory Redis needs no clean shutdown, so the error does not matter.
		_ = l.client.Close()
		return
	}
	clientPool.Put(l)
}
