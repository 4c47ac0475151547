package redistest

import (
	"path/filepath"
	"testing"
)

// A server whose port another server has taken does not mistake that server for itself.
func TestPortOfAnother(t *testing.T) {
	t.Parallel()
	first := Serve(t)
	second := *first
	second.config = filepath.Join(t.TempDir(), "redis.conf")
	if !first.own(t, first.Client(t)) || second.own(t, first.Client(t)) {
		t.Error("a server is not identified by its own configuration")
	}
	if second.start(t) {
		t.Error("a server answers on the port of another")
	}
	<-second.gone
}
