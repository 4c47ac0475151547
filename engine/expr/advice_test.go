package expr_test

import (
	"strings"
	"testing"

	"flunq.io/flunq/engine/expr"
)

// The failure of an expression on unsuitable data has a suggestion.
func TestAdvice(t *testing.T) {
	t.Parallel()
	for detail, want := range map[string]string{
		`expression ".items.length": expected an object but got: array ([1])`:                                                          "write: .items | length",
		`expression ".items.name": expected an object but got: array ([1])`:                                                            ".[].name",
		`expression ".a - 1": cannot subtract: null and number (1)`:                                                                    "// 0",
		`expression "now - .t": cannot subtract: number (1) and null`:                                                                  "// 0",
		`expression ".items | map(.x)": cannot iterate over: null`:                                                                     "(.items // [])",
		`expression ".a + 1": cannot add: string ("x") and number (1)`:                                                                 "tonumber",
		`expression ".a / .b": cannot divide number (1) by: number (0)`:                                                                "if .b == 0",
		`expression ".a | ascii_downcase": ascii_downcase cannot be applied to: null`:                                                  `(.name // "")`,
		`expression ".t | fromdate": strptime("%Y-%m-%dT%H:%M:%S%z") cannot be applied to "2026-01-02T03:04:05.123Z": failed to parse`: `sub("\\.[0-9]+"; "")`,
		`expression "error(\"boom\")": error: boom`:                                                                                    "",
		`expression ".a + .b": cannot add: object ({"a":null}) and number (1)`:                                                         "",
	} {
		got := expr.Advice(detail)
		if want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("%s: got %q, want %q", detail, got, want)
		}
	}
}
