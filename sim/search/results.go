package search

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"slices"
	"time"
)

// results adds the runs of a search to its report: their number, their failures and their
// orders of events.
type results struct {
	*Search

	report        *Report
	hints         *hints
	found         map[string]*Finding // by signature
	orders        map[uint64]struct{}
	trace         hash.Hash // hash of the orders of all runs
	seeds, faults int
}

func newResults(s *Search, report *Report, h *hints) *results {
	return &results{Search: s, report: report, hints: h, found: map[string]*Finding{}, orders: map[uint64]struct{}{}, trace: sha256.New()}
}

// over reports whether the search must stop early, and records why.
func (r *results) over(ctx context.Context) bool {
	switch {
	case r.report.Stopped != "":
	case ctx.Err() != nil:
		r.report.Stopped = Interrupted
	case r.More != nil && !r.More():
		r.report.Stopped = OutOfTime
	case r.FailFast && slices.ContainsFunc(r.report.Findings, r.Fails):
		r.report.Stopped = FailedFast
	case len(r.found) >= maxFindings:
		r.report.Stopped = EnoughFound
	}
	return r.report.Stopped != ""
}

// note adds a verdict to the report.
func (r *results) note(v *verdict) {
	if v.scenario.Companion != "" {
		r.report.Companions++
		r.noteFailures(v)
		return
	}
	for _, kind := range v.injected {
		r.report.Faults[kind]++
	}
	r.faults += len(v.injected)
	if v.faultFree() {
		r.report.FaultFree++
	}
	r.trace.Write(binary.BigEndian.AppendUint64(nil, v.order))
	if len(r.orders) < maxOrders {
		r.orders[v.order] = struct{}{}
	}
	r.report.Seconds += int64(v.elapsed / time.Second)
	r.noteFailures(v)
	for _, signature := range v.known {
		r.found[signature].Runs++
		r.found[signature].FaultFree++
	}
	if len(v.unmocked) > 0 {
		r.report.UnmockedRuns++
		r.report.Unmocked = append(r.report.Unmocked, r.unmockedTexts(v.unmocked)...)
		slices.Sort(r.report.Unmocked)
		r.report.Unmocked = slices.Compact(r.report.Unmocked)
	}
	r.hints.add(v)
}

// noteFailures adds the failures of a run to the report, one per signature.
func (r *results) noteFailures(v *verdict) {
	seen := map[string]bool{}
	for _, f := range v.failures {
		if !seen[v.scenario.signature(f)] {
			seen[v.scenario.signature(f)] = true
			r.fail(f, v.scenario, 1, v.faultFree())
		}
	}
}

// fail records a failure: the first of its signature becomes a finding.
func (r *results) fail(f failure, sc Scenario, runs int, faultFree bool) {
	known := r.found[sc.signature(f)]
	if known == nil {
		known = &Finding{Class: f.Class, Violation: f.Violation, Task: f.task, Companion: sc.Companion, Seen: sc, Small: sc, Tasks: map[string]int{}, signature: sc.signature(f)}
		r.found[sc.signature(f)] = known
		r.report.Findings = append(r.report.Findings, known)
	}
	if known.Runs += runs; faultFree {
		known.FaultFree += runs
	}
	known.Tasks[f.task] += runs
}

func (r *results) show(phase string, runs, of int) {
	if r.Progress != nil {
		r.Progress(Progress{phase, runs, of, r.seeds, r.faults, len(r.orders), len(r.found)})
	}
}
