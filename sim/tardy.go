package sim

import (
	"net/http"
	"strings"

	"flunq.io/flunq/engine/dsl"
)

// How calls that go out side by side are late, by the seed: none is, any is, or those
// of one branch are behind those of another one.
const (
	lateCalls    = 1
	lateBranches = 2
	lateWays     = 4 // as many worlds have late branches as the others together
)

// tardy lets a call be on its way until nothing else happens at this moment: how long
// calls take nobody says for whom the mocks state no latency, so that what runs side by
// side can be any order of them. No time passes by it.
func (w *simulation) tardy(req *http.Request) error {
	s := w.current
	if s == nil || !w.beside {
		return nil
	}
	if s.late = w.lateness(req); s.late == 0 {
		return nil
	}
	w.relieve(s)
	if !s.pause() {
		return errStopped
	}
	if s.process.dead {
		return errCrashed
	}
	return req.Context().Err() //nolint:wrapcheck // it is a transport's
}

// lateness is how late a call is; what is less so arrives before. It is 0 if it is not.
func (w *simulation) lateness(req *http.Request) uint64 {
	const few = 4
	from := w.originOf(req)
	switch way := Choice(w.cfg.Seed, "late") % lateWays; {
	case way == lateCalls:
		return mix(w.cfg.Seed, hashed(from.Execution+" "+from.Run.String()+" "+req.Method+" "+req.URL.String()), way) % few
	case way >= lateBranches:
		return mix(w.cfg.Seed, hashed(from.Execution+" "+branchIn(from.Run.Ref)), way) % few
	default:
		return 0
	}
}

// branchIn is the innermost branch in which a task stands, as a reference.
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

// relent lets the call go on that is the least late, now that nothing else happens. It
// reports whether there was one.
func (w *simulation) relent() bool {
	var next *service
	var lowest uint64
	for _, s := range w.active {
		if s.late == 0 || w.clock.now.Before(s.process.frozen) {
			continue
		}
		h := mix(w.cfg.Seed, s.hash, s.turns)
		if next == nil || s.late < next.late || s.late == next.late && h < lowest {
			next, lowest = s, h
		}
	}
	if next == nil {
		return false
	}
	next.late = 0
	return true
}

// besides reports whether calls of an execution can be under way side by side.
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
