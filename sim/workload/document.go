package workload

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"time"

	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/sim"
	"flunq.io/flunq/sim/mock"
)

// modelled is a document with a known result.
type modelled struct {
	text string
	cfg  sim.Config
	want modelEnd
}

// modelOf generates document number n; false if its result is ambiguous.
func modelOf(n uint64, with []*dsl.Definition) (modelled, bool) {
	a := &generator{Rand: rand.New(rand.NewPCG(n, 2))}
	text, run, mocks := a.document()
	want := run()
	if want.never {
		return modelled{}, false
	}
	m, err := mock.Parse("mocks.yaml", []byte(mocks))
	if err != nil {
		panic(fmt.Sprintf("workload: mocks of modelled document %d: %v", n, err))
	}
	return modelled{text, sim.Config{
		Definition: parsed(text), ID: "x", Processes: 2, Executors: 64, Mocks: m, With: with, Remote: n%3 == 0, Seed: n, MaxTurns: 100_000,
		MaxTime: 100 * 24 * time.Hour,
	}, want}, true
}

// wrong returns how a trial differs from the expected result.
func (m modelled) wrong(got *sim.Trial) (out []string) {
	out = errorsOf(got.Broken)
	if took := got.Lasted(); took != m.want.at {
		out = append(out, fmt.Sprintf("it took %v, want %v", took, m.want.at))
	}
	if m.want.err != nil {
		if got.Status != decide.Faulted || got.Error == nil || got.Error.Status != m.want.err.status {
			out = append(out, fmt.Sprintf("it is %s, %s, %v, want an error with status %d", got.Status, got.Output, got.Error, m.want.err.status))
		}
		return out
	}
	var v struct {
		N int            `json:"n"`
		C map[string]int `json:"c"`
	}
	if err := json.Unmarshal(got.Output, &v); got.Status != decide.Completed || err != nil || v.N*modulus+digest(v.C) != m.want.n {
		out = append(out, fmt.Sprintf("it is %s, %s, %v, want %d", got.Status, got.Output, got.Error, m.want.n/modulus))
	}
	return out
}

// modelledChildren returns the child documents that modelled documents run.
func modelledChildren() []*dsl.Definition {
	return append(children(), parsed("document: {dsl: '1.0.3', namespace: test, name: failing, version: '1.0.0'}\ndo: [{one: {wait: PT0.2S}}, {two: {raise: {error: {type: https://a.example/no, status: 500}}}}]"))
}

// children returns the child documents that generated documents run.
func children() []*dsl.Definition {
	return []*dsl.Definition{
		parsed("document: {dsl: '1.0.3', namespace: test, name: child, version: '1.0.0'}\ndo: [{one: {set: {n: '${ .n + 1 }'}}}, {two: {wait: PT0.1S}}]"),
		parsed("document: {dsl: '1.0.3', namespace: test, name: sleeper, version: '1.0.0'}\ndo: [{two: {wait: P200D}}]"),
	}
}

// parsed parses one of the simulator's own documents.
func parsed(text string) *dsl.Definition {
	def, _, err := dsl.Parse("workload.yaml", []byte(text))
	if err != nil {
		panic(fmt.Sprintf("workload: %v\n%s", err, text))
	}
	return def
}
