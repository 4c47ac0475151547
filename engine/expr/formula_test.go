package expr_test

import (
	"math/big"
	"strings"
	"testing"

	"flunq.io/flunq/engine/expr"
	"flunq.io/flunq/engine/expr/canonical"
)

// Formulas have the same meaning as in gojq.
func TestFormulas(t *testing.T) {
	t.Parallel()
	operands := strings.Fields(`.n .m 1 2.5 null "a" . (.n//0) (.n*.m)`)
	dots := []any{
		nil, true, "text",
		list{1},
		3,
		object{"n": 4, "m": 2.5},
		object{"n": 1 << 40, "m": -(1 << 62)},
		object{"n": new(big.Int).Lsh(big.NewInt(1), 80), "m": 1},
		object{"n": 1e308, "m": 1e308},
		object{"n": "a", "m": false},
		object{"n": list{1, object{"a": 2}}, "m": list{1, object{"a": 2}}},
		object{"n": object{"a": 1}},
	}
	for _, left := range operands {
		for op := range strings.FieldsSeq("+ - * == != < <= > >= and or // |") {
			for _, right := range operands {
				for _, dot := range dots {
					same(t, left+" "+op+" "+right, dot)
				}
			}
		}
	}
}

// Nested formulas have the same meaning as in gojq.
func FuzzFormula(f *testing.F) {
	for _, src := range []string{"(.n // 0) + 1", ".n > 1 and .m < 3", ".m | . * 2 == .", "(.n|.m) or (1 - .n)", "$x + .n"} {
		f.Add(src, []byte(`{"n":1,"m":2.5}`))
	}
	f.Fuzz(func(t *testing.T, src string, data []byte) {
		dot, err := canonical.Decode(data)
		if err != nil || strings.Trim(src, ` .nm0123()+-*=!<>/|ador$xy"`) != "" || len(src) > 40 {
			return
		}
		if _, err := expr.Compile(src, known); err != nil {
			return
		}
		same(t, src, dot)
	})
}
