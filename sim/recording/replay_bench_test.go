package recording_test

import (
	"testing"

	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/sim"
	"flunq.io/flunq/sim/mock"
	"flunq.io/flunq/sim/recording"
)

// small is a workflow of ten tasks: some compute, some call, some wait.
const small = heading + `
do:
  - a: {set: {n: 1}}
  - b: {call: http, with: {method: get, endpoint: https://shop.example/item, output: content}}
  - c: {set: {n: "${ (.n // 0) + 1 }"}}
  - d: {wait: P1D}
  - e: {set: {n: "${ (.n // 0) + 1 }"}}
  - f: {call: http, with: {method: post, endpoint: https://shop.example/pay, body: {n: "${ .n }"}, output: content}}
  - g: {wait: P1D}
  - h: {set: {n: "${ (.n // 0) + 1 }"}}
  - i: {wait: PT5S}
  - j: {set: {n: "${ (.n // 0) + 1 }"}}
`

// BenchmarkReplay reads and replays recordings of a small workflow on one core; full uses
// the whole engine.
func BenchmarkReplay(b *testing.B) {
	def, _, err := dsl.Parse("small.yaml", []byte(small))
	if err != nil {
		b.Fatal(err)
	}
	mocks, err := mock.Parse("mocks.yaml", []byte(`{http: [{respond: {body: {n: 7}}}]}`))
	if err != nil {
		b.Fatal(err)
	}
	src := recorded(b, sim.Config{Definition: def, Mocks: mocks, Seed: 1})
	for name, opts := range map[string]recording.ReplayOptions{"decide": {}, "full": {Full: true}} {
		b.Run(name, func(b *testing.B) {
			r := recording.NewReplayer(opts)
			n := 0
			for b.Loop() {
				rec, err := recording.Read("x.jsonl", src, nil, "")
				if err != nil {
					b.Fatal(err)
				}
				v, err := r.Replay(b.Context(), rec)
				if err != nil || !v.Agrees {
					b.Fatal(err, v)
				}
				n++
			}
			b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "recordings/s")
			b.SetBytes(int64(len(src)))
		})
	}
}
