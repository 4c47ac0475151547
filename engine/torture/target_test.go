//go:build unix

package torture_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"path"
	"strings"
	"sync"
	"testing"
	"time"
)

// target is the server that tasks call. It records the calls.
type target struct {
	*httptest.Server

	pause, long time.Duration

	mu    sync.Mutex
	calls map[string][]call // by idempotency key
}

// call is one run of a task.
type call struct {
	path, process string
	began         time.Time
	answered      bool
}

// newTarget returns a target that answers after a pause, and below /long/ after a long one.
func newTarget(t *testing.T, pause, long time.Duration) *target {
	t.Helper()
	g := &target{pause: pause, long: long, calls: map[string][]call{}}
	g.Server = httptest.NewServer(g)
	t.Cleanup(g.Close)
	return g
}

// ServeHTTP answers with the last element of the path.
func (g *target) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	key := req.Header.Get("Idempotency-Key")
	g.mu.Lock()
	n := len(g.calls[key])
	g.calls[key] = append(g.calls[key], call{req.URL.Path, req.Header.Get(processHeader), time.Now(), false})
	g.mu.Unlock()
	pause := g.pause
	switch {
	case strings.HasPrefix(req.URL.Path, "/long/"):
		pause = g.long
	case strings.HasPrefix(req.URL.Path, poisonPath):
		pause = 0
	}
	select {
	case <-time.After(pause):
	case <-req.Context().Done():
		return
	}
	g.mu.Lock()
	g.calls[key][n].answered = true
	g.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer{path.Base(req.URL.Path)})
}

// answer is the body of the target's answers.
type answer struct {
	Done string `json:"done"`
}

// runs returns the number of runs of tasks below a path: the most for one task, and all together.
func (g *target) runs(below string) (peak, all int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, calls := range g.calls {
		if strings.HasPrefix(calls[0].path, below) {
			peak, all = max(peak, len(calls)), all+len(calls)
		}
	}
	return peak, all
}

// needless returns how many runs repeated a task that a running process was performing, or
// whose response a running process had received.
func (g *target) needless(died func(process string) time.Time) (n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, calls := range g.calls {
		for i := 1; i < len(calls); i++ {
			if at := died(calls[i-1].process); at.IsZero() || at.After(calls[i].began) {
				n++
			}
		}
	}
	return n
}
