package expr_test

import (
	"testing"

	"flunq.io/flunq/engine/expr"
)

func BenchmarkEval(b *testing.B) {
	dot := object{"a": object{"b": 1}, "n": 41, "colors": list{"blue"}, "order": object{"id": "o-1", "total": 12.5, "items": list{1, 2, 3}}}
	for _, src := range []string{
		".", ".a.b", "$item", "$x.y", `"text"`, "{x: .a}", ".n + 1", `.colors + ["red"]`, ".n > 40", `"Hello \(.order.id)"`, ".order.total |= . + 1", "[.colors[] | ascii_upcase]", `.order.id | test("^o-")`,
	} {
		b.Run(src, func(b *testing.B) {
			p := compile(b, src)
			s := scope(dot)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := p.Eval(s); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkCompile(b *testing.B) {
	for _, src := range []string{".a.b", ".n + 1", `{a: .b, c: "x\(.d)"}`, ".a |= map(. + 1)", `gsub("a"; "b")`} {
		b.Run(src, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := expr.Compile(src, known); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
