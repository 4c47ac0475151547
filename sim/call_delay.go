package sim

import (
	"net/http"
	"strings"

	"flunq.io/flunq/engine/dsl"
)

// How parallel calls are delayed, by the seed: not at all, individually, or all those of
// one branch.
const (
	delayCalls    = 1
	delayBranches = 2
	delayWays     = 4 // half of the simulations delay branches
)

// delayCall delays a call until nothing else happens at this moment. Without a latency in the
// mocks nobody knows how long calls take, so parallel calls can finish in any order. No
// virtual time passes.
func (w *simulation) delayCall(req *http.Request) error {
	s := w.current
	if s == nil || !w.beside {
		return nil
	}
	if s.callRank = w.callRank(req); s.callRank == 0 {
		return nil
	}
	w.wakeSubstitute(s)
	if !s.pause() {
		return errStopped
	}
	if s.process.dead {
		return errCrashed
	}
	return req.Context().Err() //nolint:wrapcheck // the transport's own error
}

// callRank returns the rank of a delayed call: lower ranks go first. It is 0 for a call
// that is not delayed.
func (w *simulation) callRank(req *http.Request) uint64 {
	const few = 4
	from := w.originOf(req)
	switch way := Choice(w.cfg.Seed, "late") % delayWays; {
	case way == delayCalls:
		return mix(w.cfg.Seed, hashed(from.Execution+" "+from.Run.String()+" "+req.Method+" "+req.URL.String()), way) % few
	case way >= delayBranches:
		return mix(w.cfg.Seed, hashed(from.Execution+" "+branchIn(from.Run.Ref)), way) % few
	default:
		return 0
	}
}

// branchIn returns the reference of the innermost branch around a task.
func branchIn(ref string) string {
	const branches = "/branches/"
	at := strings.LastIndex(ref, branches)
	if at < 0 {
		return ""
	}
	at += len(branches)
	number, _, _ := strings.Cut(ref[at:], "/")
	return ref[:at+len(number)]
}

// releaseCall releases the delayed call with the lowest rank once nothing else happens. It
// reports whether there was one.
func (w *simulation) releaseCall() bool {
	var next *service
	var lowest uint64
	for _, s := range w.active {
		if s.callRank == 0 || w.clock.now.Before(s.process.frozen) {
			continue
		}
		h := mix(w.cfg.Seed, s.hash, s.turns)
		if next == nil || s.callRank < next.callRank || s.callRank == next.callRank && h < lowest {
			next, lowest = s, h
		}
	}
	if next == nil {
		return false
	}
	next.callRank = 0
	return true
}

// besides reports whether calls of an execution can run in parallel.
func (cfg Config) besides() bool {
	if cfg.Plan == nil || cfg.Mocks == nil || cfg.replay != nil {
		return false
	}
	for _, t := range cfg.Definition.Tasks() {
		if t.Kind == dsl.Fork {
			return true
		}
	}
	return len(cfg.With) > 0
}
