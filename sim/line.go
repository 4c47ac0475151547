package sim

import (
	"net"
	"sync"

	"github.com/redis/go-redis/v9"

	"flunq.io/flunq/sim/memory"
)

// line is a pooled go-redis client that serves one simulation after another. Hardly any
// simulation opens a connection, so a client keeps nothing of a simulation that has
// ended.
type line struct {
	simulation *simulation
	client     *redis.Client
	dialed     bool
}

//nolint:gochecknoglobals // a pool of idle clients
var lines sync.Pool

// connect gives the simulation a client.
func (w *simulation) connect() {
	l, ok := lines.Get().(*line)
	if !ok {
		l = &line{}
		l.client = memory.Client(l.dial)
		l.client.AddHook(hook{l})
	}
	l.simulation, w.line, w.client = w, l, l.client
}

func (l *line) dial() net.Conn {
	l.dialed = true
	return l.simulation.memory.Dial()
}

// hangUp returns the client to the pool, or closes it if it has connections.
func (l *line) hangUp() {
	l.simulation = nil
	if l.dialed {
		// The in-memory Redis needs no clean shutdown, so the error does not matter.
		_ = l.client.Close()
		return
	}
	lines.Put(l)
}
