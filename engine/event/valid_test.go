package event_test

import (
	"encoding/json"
	"strings"
	"testing"

	"flunq.io/flunq/engine/event"
)

// Whatever the bytes, Valid says the same as json.Valid.
func FuzzValid(f *testing.F) {
	for _, text := range []string{
		``, ` `, `{}`, `[]`, `{"a":1}`, `{"a":1`, `{"a":1,}`, `{"a",1}`, `{1:1}`, `[1,2,]`, `[1 ,2]`, `{"a" :1}`, `"`, `"a`, `"a"b`,
		`"\"`, `"\\"`, `"\u00e9"`, `"\x"`, "\"\x01\"", "\"\x7f\xff\"", `"0123456789\"`, "\"01234567\n\"", `"é€ and much more of it"`,
		`0`, `-`, `-0`, `01`, `1.`, `1.5`, `1.5e3`, `1e`, `.5`, `-1.25}`, `true`, `tru`, `truer`, `null`, `nul`, `falsE`, `[true,false,null]`,
		`[[[[{"a":[{}]}]]]]`, `[]]`, `{}}`, `{"a":{"b":"c"},"d":[1,"x",{"e":-0.5}]}`,
		strings.Repeat("[", 63) + strings.Repeat("]", 63), strings.Repeat("[", 100) + strings.Repeat("]", 100), strings.Repeat("[", 100),
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if got, want := event.Valid(data), json.Valid(data); got != want {
			t.Errorf("Valid(%q) = %v, want %v", data, got, want)
		}
	})
}

func BenchmarkValid(b *testing.B) {
	data := event.Encode(event.Timer{Tenant: "acme", Workflow: "shop.order", Execution: "x-0000001", TaskID: "/do/0/pause", TaskName: "pause", DurationMS: 3_600_000})
	for b.Loop() {
		if !event.Valid(data) {
			b.Fatal("it is JSON")
		}
	}
}
