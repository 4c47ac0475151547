package telemetry

import (
	"errors"
	"fmt"
	"net"
	"testing"

	"flunq.io/flunq/engine"
	"flunq.io/flunq/engine/store"
)

// The error of a service names the kind of server that does not respond, and not its address.
func TestErrorOfServer(t *testing.T) {
	t.Parallel()
	dial := &net.OpError{Op: "dial", Net: "tcp", Addr: &net.TCPAddr{Port: 9092}, Err: errors.New("i/o timeout")}
	for want, err := range map[string]error{
		"Redis: dial: i/o timeout":    store.Failed("read the time", dial),
		"a broker: dial: i/o timeout": fmt.Errorf("ask Kafka: %w", dial),
	} {
		h := serviceHealth{}
		if h.add(engine.Health{Err: err}); h.LastError != want {
			t.Errorf("%q, want %q", h.LastError, want)
		}
	}
}
