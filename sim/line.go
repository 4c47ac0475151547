package sim

import (
	"net"
	"sync"

	"github.com/redis/go-redis/v9"

	"flunq.io/flunq/sim/memory"
)

// line is a client of go-redis, which serves one world after the other: hardly any of
// them has it open a connection, and so it holds nothing of a world that has ended.
type line struct {
	simulation *simulation
	client     *redis.Client
	dialed     bool
}

//nolint:gochecknoglobals // a pool of what is idle
var lines sync.Pool

// connect gives a world its client.
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

// hangUp ends its work for a world.
func (l *line) hangUp() {
	l.simulation = nil
	if l.dialed {
		// The in-memory Redis ends with the process' memory; an error of its end is nobody's concern.
		_ = l.client.Close()
		return
	}
	lines.Put(l)
}
