package run

import "testing"

// A value that differs is shown as it is, not as JSON that is safe in HTML.
func TestValueText(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		value any
		want  string
	}{{nil, "nothing"}, {"a < b & c > d", `"a < b & c > d"`}, {map[string]any{"b": 1.5, "a": []any{true}}, `{"a":[true],"b":1.5}`}} {
		if got := valueText(test.value); got != test.want {
			t.Errorf("valueText(%v) = %s, want %s", test.value, got, test.want)
		}
	}
}
