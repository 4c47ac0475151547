package tui

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"flunq.io/flunq/tui/canvas"
)

func drawData(v *dataView, w, h int) string {
	c := canvas.New(w, h)
	v.draw(c.All(), canvas.Theme{Palette: paletteOf(Dark)}, true)
	return picture(c)
}

const order = `{"order":7,"paid":true,"note":null,"items":[{"name":"kettle","price":12.5},{"name":"cup","price":1e3,"tags":[]}],
"text":"a text that is longer than there is room for in a line of a screen of sixty columns, so that it is cut","empty":{},"wide":"水は青い","lines":"one\ntwo\nthree"}`

// JSON is shown with one member per line, and folds; long strings are truncated until opened.
func TestDataView(t *testing.T) {
	t.Parallel()
	var v dataView
	v.resize(60, 24)
	v.set(order)
	compare(t, "data", drawData(&v, 60, 24))
	v.To(4)
	v.fold(false)
	v.To(5)
	v.fold(true)
	compare(t, "data-folded", drawData(&v, 60, 24))
	if got := v.label(); got != ".text" {
		t.Errorf("the cursor is on %q, want .text", got)
	}
	v.foldAll(noneOpen)
	compare(t, "data-closed", drawData(&v, 60, 24))
	v.set("no JSON at all:\n\x1b[31mred\x07 \u202eturned\n" + strings.Repeat("long ", 30))
	compare(t, "data-text", drawData(&v, 60, 12))
}

// The title names the value at the cursor by its path in jq.
func TestDataPath(t *testing.T) {
	t.Parallel()
	var v dataView
	v.resize(60, 24)
	v.set(`[{"items": [1, {"a b": null}], "2": {"n_1": 5}}]`)
	got := []string{}
	for line := range v.lines {
		v.To(line)
		got = append(got, v.label())
	}
	want := []string{".", ".[0]", ".[0].items", ".[0].items[0]", ".[0].items[1]", `.[0].items[1]."a b"`, ".[0].items[1]", ".[0].items", `.[0]."2"`, `.[0]."2".n_1`, `.[0]."2"`, ".[0]", "."}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// Any value can be shown in any width, even if it is not JSON.
func TestDataViewHostile(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"", "null", `""`, `"`, "{", "[[[[[[[[[[]]]]]]]]]]", `{"":{"":[0]}}`, "\xff\xfe\x00", `{"a\u0000\u001b[2J":"\u001b[2J\ud800"}`,
		`["` + strings.Repeat("水", 500) + `"]`, strings.Repeat("[", 9000) + strings.Repeat("]", 9000),
		strings.Repeat("é", 3000), "\t\t\t", `[1,2`, " \n {\"a\" : [ 1 , 2 ] , \"b\" : -0.5e-7 } \n",
		`{"a":"` + strings.Repeat(`\"`, 500) + `"}`, strings.Repeat("́", 100),
	} {
		for _, size := range [][2]int{{0, 0}, {1, 1}, {2, 3}, {7, 2}, {40, 10}} {
			var v dataView
			v.resize(size[0], size[1])
			v.set(text)
			v.foldAll(allOpen)
			for range 12 {
				if got := drawData(&v, size[0], size[1]); strings.ContainsAny(got, "\x1b\x07\x00") || !utf8.ValidString(got) {
					t.Fatalf("%q is shown as %q", text, got)
				}
				v.fold(true)
				v.Move(1)
				v.label()
			}
			v.End()
			v.fold(false)
			drawData(&v, size[0], size[1])
		}
	}
}

func megabyte() string {
	var b strings.Builder
	b.WriteString(`{"rows":[`)
	for i := 0; b.Len() < 1<<20; i++ {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"id":%d,"name":"row %d","tags":["a","b"],"ok":true}`, i, i)
	}
	b.WriteString(`],"more":1}`)
	return b.String()
}

// Large values are folded far enough to be browsed.
func TestDataViewOfMuch(t *testing.T) {
	t.Parallel()
	var v dataView
	v.resize(60, 8)
	v.set(megabyte())
	if n := len(v.lines); n > fewItems {
		t.Errorf("%d lines are open, want %d at most", n, fewItems)
	}
	v.foldAll(allOpen)
	v.End()
	compare(t, "data-much", drawData(&v, 60, 8))
}

func BenchmarkDataSet(b *testing.B) {
	text := megabyte()
	for b.Loop() {
		var v dataView
		v.resize(80, 40)
		v.set(text)
	}
}

func BenchmarkDataDraw(b *testing.B) {
	var v dataView
	v.resize(80, 40)
	v.set(megabyte())
	v.foldAll(allOpen)
	v.To(50_000)
	c := canvas.New(80, 40)
	for b.Loop() {
		v.draw(c.All(), canvas.Theme{}, true)
	}
}

func BenchmarkDataDrawLongText(b *testing.B) {
	var v dataView
	v.resize(80, 40)
	v.set(`["` + strings.Repeat("waterfall ", 1<<17) + `"]`)
	v.foldAll(allOpen)
	v.To(1)
	v.fold(true)
	c := canvas.New(80, 40)
	for b.Loop() {
		v.draw(c.All(), canvas.Theme{}, true)
	}
}
