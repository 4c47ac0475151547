package canonical_test

import (
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/itchyny/gojq"

	"flunq.io/flunq/engine/expr/canonical"
)

type (
	object = map[string]any
	list   = []any
)

func sameBig(a, b *big.Int) bool { return a.Cmp(b) == 0 }

func large(digits string) *big.Int {
	n, _ := new(big.Int).SetString(digits, 10)
	return n
}

// JSON decodes to the values that expressions work on.
func TestDecode(t *testing.T) {
	t.Parallel()
	tests := []struct {
		in   string
		want any
	}{
		{" null ", nil},
		{"true", true},
		{"false", false},
		{"0", 0},
		{"-0", 0},
		{"-0.0", 0},
		{"-12", -12},
		{"9223372036854775807", math.MaxInt64},
		{"-9223372036854775808", math.MinInt64},
		{"9223372036854775808", large("9223372036854775808")},
		{"1.0", 1},
		{"1e3", 1000},
		{"2.5", 2.5},
		{"1e20", large("100000000000000000000")},
		{"1e21", 1e21},
		{"1e999", math.MaxFloat64},
		{"-1e999", -math.MaxFloat64},
		{"1e-999", 0},
		{`"a\u00e4\n\"\\\/"`, "aä\n\"\\/"},
		{`"\ud83d\ude00 \ud800"`, "😀 \ufffd"},
		{"\"a\xffb\"", "a\ufffdb"},
		{`"ä"`, "ä"},
		{"[]", list{}},
		{"{}", object{}},
		{`[1, [2, {"a": null}]]`, list{1, list{2, object{"a": nil}}}},
		{`{"a":1,"a":2}`, object{"a": 2}},
	}
	for _, tt := range tests {
		got, err := canonical.Decode([]byte(tt.in))
		if err != nil {
			t.Errorf("%s: %v", tt.in, err)
		}
		if diff := cmp.Diff(tt.want, got, cmp.Comparer(sameBig)); diff != "" {
			t.Errorf("%s: -want +got:\n%s", tt.in, diff)
		}
	}
}

// Anything but one JSON document of a sensible size is rejected with its position.
func TestDecodeRefuses(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"": "JSON at byte 0: ends", " ": "ends where a value", "nul": "byte 0", "1 2": "byte 2: more", "[1,]": "byte 3", "{\"a\"}": "a colon", "{a:1}": "a key",
		"01": "not a number", "1.": "not a number", "-": "not a number", "+1": "a value", "1e": "not a number", "\"a": "end of a string", "\"\\x\"": "string", "\"a\nb\"": "string", "[1": "a comma", `{"a":1`: "a comma", "\"\\": "end of a string",
		strings.Repeat("[", 2000): "1000 levels", strings.Repeat("9", 2000): "digits", "nulll": "more", `"a" "b"`: "more",
	} {
		if v, err := canonical.Decode([]byte(in)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: got %v, %v, want an error with %q", in, v, err, want)
		}
	}
}

// Encoding is compact, sorted and deterministic, including for types that only Go code
// builds.
func TestEncode(t *testing.T) {
	t.Parallel()
	tests := []struct {
		in   any
		want string
	}{
		{object{"b": 1, "a": list{nil, true, 2.5}, "ä": object{}}, `{"a":[null,true,2.5],"b":1,"ä":{}}`},
		{"<&>\u2028\x00\x7f\"\\\b\f\n\r\t", "\"<&>\u2028\\u0000\\u007f\\\"\\\\\\b\\f\\n\\r\\t\""},
		{"a\xffb", "\"a\ufffdb\""},
		{math.NaN(), "null"},
		{math.Inf(-1), "-1.7976931348623157e+308"},
		{math.Copysign(0, -1), "0"},
		{1e-7, "1e-7"},
		{1e21, "1e+21"},
		{1e20, "100000000000000000000"},
		{0.1, "0.1"},
		{int64(math.MinInt64), "-9223372036854775808"},
		{uint64(math.MaxUint64), "18446744073709551615"},
		{json.Number("1.50"), "1.5"},
		{float32(0.5), "0.5"},
		{[]string{"a"}, `["a"]`},
		{map[string]string{"a": "b"}, `{"a":"b"}`},
		{[]map[string]any{{"a": int32(1)}}, `[{"a":1}]`},
		{list(nil), "[]"},
		{object(nil), "{}"},
	}
	for _, tt := range tests {
		if got := string(canonical.Encode(tt.in)); got != tt.want {
			t.Errorf("got %s, want %s", got, tt.want)
		}
		form := canonical.Form(tt.in)
		decoded, err := canonical.Decode(canonical.Encode(tt.in))
		if diff := cmp.Diff(decoded, form, cmp.Comparer(sameBig)); err != nil || diff != "" {
			t.Errorf("%s: %v, -decoded +canonical:\n%s", tt.want, err, diff)
		}
	}
	if got := string(canonical.Append([]byte("x"), 1)); got != "x1" {
		t.Errorf("got %s", got)
	}
}

// Form returns values that are already canonical unchanged, and modifies nothing.
func TestFormShares(t *testing.T) {
	t.Parallel()
	fine := object{"a": list{1, "x"}}
	mixed := object{"fine": fine, "not": list{1, 2.0}}
	got, ok := canonical.Form(mixed).(object)
	if !ok {
		t.Fatal("no object")
	}
	fine["a"] = "seen"
	if got["fine"].(object)["a"] != "seen" {
		t.Error("a part without a difference is copied")
	}
	if mixed["not"].(list)[1] != 2.0 || got["not"].(list)[1] != 2 {
		t.Errorf("got %v of %v", got, mixed)
	}
}

// Equal agrees with jq.
func TestEqual(t *testing.T) {
	t.Parallel()
	tests := []struct {
		a, b any
		want bool
	}{
		{1, 1.0, true},
		{1, 2, false},
		{nil, nil, true},
		{nil, false, false},
		{"a", "a", true},
		{"1", 1, false},
		{large("9223372036854775808"), 9223372036854775808.0, true},
		{math.NaN(), math.NaN(), false},
		{list{1, object{"a": 2}}, list{1.0, object{"a": 2.0}}, true},
		{list{1}, list{1, 2}, false},
		{object{"a": nil}, object{}, false},
		{object{"a": nil}, object{"b": nil}, false},
		{object{}, list{}, false},
		{int64(3), 3, true},
		{3, uint64(3), true},
		{[]string{"a"}, list{"a"}, true},
		{list{"a"}, []string{"a"}, true},
		{true, true, true},
		{json.Number("1.0"), 1, true},
	}
	for _, tt := range tests {
		if got := canonical.Equal(tt.a, tt.b); got != tt.want {
			t.Errorf("%v == %v is %v, want %v", tt.a, tt.b, got, tt.want)
		}
		if got := canonical.Equal(tt.b, tt.a); got != tt.want {
			t.Errorf("%v == %v is %v, want %v", tt.b, tt.a, got, tt.want)
		}
	}
}

// Whatever is accepted is encoded in a stable form that other JSON parsers read in the
// same way.
func FuzzCodec(f *testing.F) {
	for _, s := range []string{`{"b":[1,2.5e10,-0],"a":"\u00e4\ud800"}`, "[1e999,12345678901234567890,1e20,1.0,0.000001]", "\"\xff\x7f\"", `{"a":1,"a":{}}`, "{\"\xff\":1,\"\xfe\":2}", "123456789012345678", "01"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		v, err := canonical.Decode(data)
		if err == nil != json.Valid(data) && (err == nil || !strings.Contains(err.Error(), "want at most") && !strings.Contains(err.Error(), "levels")) {
			t.Fatalf("Decode says %v, encoding/json %v", err, json.Valid(data))
		}
		if err != nil {
			return
		}
		encoded := canonical.Encode(v)
		again, err := canonical.Decode(encoded)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(v, again, cmp.Comparer(sameBig)); diff != "" {
			t.Errorf("-once +twice:\n%s", diff)
		}
		if diff := cmp.Diff(v, canonical.Form(v), cmp.Comparer(sameBig)); diff != "" {
			t.Errorf("-decoded +canonical:\n%s", diff)
		}
		theirs, err := gojq.Marshal(v)
		if err != nil || string(theirs) != string(encoded) {
			t.Errorf("gojq writes %s, we %s", theirs, encoded)
		}
		if size, _ := canonical.Measure(v); size > 16*len(encoded)+16 || len(encoded) > 8*size {
			t.Errorf("size of %s is %d", encoded, size)
		}
	})
}

// A float survives Encode and Decode unchanged, after Form.
func FuzzFloat(f *testing.F) {
	for _, n := range []float64{0, 1.5, -1e300, 5e-324, 1 << 53, 1<<53 + 2, 9.007199254740993e15, 1e20, 123456789012345680000, 1e21, math.MaxFloat64} {
		f.Add(n)
	}
	f.Fuzz(func(t *testing.T, n float64) {
		decoded, err := canonical.Decode(canonical.Encode(n))
		if diff := cmp.Diff(decoded, canonical.Form(n), cmp.Comparer(sameBig)); err != nil || diff != "" {
			t.Errorf("%v: %v, -decoded +canonical:\n%s", n, err, diff)
		}
	})
}

// Differences are as deep as possible, and in order.
func TestDifferences(t *testing.T) {
	t.Parallel()
	decoded := func(text string) any {
		v, err := canonical.Decode([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	for _, test := range []struct{ a, b, want string }{
		{`{"a": 1}`, `{"a": 1.0}`, ""},
		{`1`, `"1"`, "=1/1 "},
		{`{"a": [1, {"b c": 2}], "d": 3}`, `{"a": [1, {"b c": 4}, 5], "e": 3}`, `.a[1]."b c"=2/4 .a[2]=-/5 .d=3/- .e=-/3 `},
		{`{"a": {}}`, `{"a": []}`, ".a={}/[] "},
	} {
		var got strings.Builder
		for d := range canonical.Differences(decoded(test.a), decoded(test.b)) {
			a, b := "-", "-"
			if d.InA {
				a = canonical.Text(d.A)
			}
			if d.InB {
				b = canonical.Text(d.B)
			}
			fmt.Fprintf(&got, "%s=%s/%s ", d.Path, a, b)
		}
		if got.String() != test.want {
			t.Errorf("%s and %s: %q, want %q", test.a, test.b, got.String(), test.want)
		}
	}
}
