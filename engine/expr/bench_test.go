package expr_test

import (
	"testing"

	"github.com/itchyny/gojq"

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

func document() any {
	items := make(list, 100)
	for i := range items {
		items[i] = object{"id": i, "name": "an item with a name", "price": 12.5, "tags": list{"a", "b", nil, true}}
	}
	return object{"items": items, "total": 1250}
}

func BenchmarkEncode(b *testing.B) {
	doc := document()
	size := int64(len(expr.Encode(doc)))
	b.Run("ours", func(b *testing.B) {
		b.SetBytes(size)
		b.ReportAllocs()
		var buffer []byte
		for b.Loop() {
			buffer = expr.AppendJSON(buffer[:0], doc)
		}
	})
	b.Run("gojq", func(b *testing.B) {
		b.SetBytes(size)
		b.ReportAllocs()
		for b.Loop() {
			if _, err := gojq.Marshal(doc); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkDecode(b *testing.B) {
	data := expr.Encode(document())
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := expr.Decode(data); err != nil {
			b.Fatal(err)
		}
	}
}
