package canonical_test

import (
	"testing"

	"github.com/itchyny/gojq"

	"flunq.io/flunq/engine/expr/canonical"
)

func document() any {
	items := make(list, 100)
	for i := range items {
		items[i] = object{"id": i, "name": "an item with a name", "price": 12.5, "tags": list{"a", "b", nil, true}}
	}
	return object{"items": items, "total": 1250}
}

func BenchmarkEncode(b *testing.B) {
	doc := document()
	size := int64(len(canonical.Encode(doc)))
	b.Run("ours", func(b *testing.B) {
		b.SetBytes(size)
		b.ReportAllocs()
		var buffer []byte
		for b.Loop() {
			buffer = canonical.Append(buffer[:0], doc)
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
	data := canonical.Encode(document())
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := canonical.Decode(data); err != nil {
			b.Fatal(err)
		}
	}
}
