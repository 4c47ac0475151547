package expr

import (
	"strings"
	"testing"

	"github.com/itchyny/gojq"
)

// These are examples of the rules in rewrite.go and rewrite.jq.
func TestRewrites(t *testing.T) {
	t.Parallel()
	for src, want := range map[string]string{
		".a + .b":     "(__add(.a; .b; $__meter))",
		"keys":        "(__shallow($__meter) | keys)",
		"sort_by(.a)": "(__each($__meter) | sort_by(.a | __sort($__meter)))",
		".[$i]":       "(. | __chars($__meter))[__key($i; $__meter)]",
		`"at \(.a)"`:  `(__add("at "; (.a) | __deep(1; $__meter) | tostring; $__meter))`,
		".a = 1":      "(1 as $__value | __update($__meter) as $__update | _assign(getpath(__path(path(.a); $__update)); $__value))",
	} {
		query, err := gojq.Parse(src)
		if err != nil {
			t.Fatal(err)
		}
		p := &Program{src: src}
		if err := p.resolve(query, func(string) bool { return true }); err != nil || query.String() != want {
			t.Errorf("%s becomes %s, %v; want %s", src, query, err, want)
		}
	}
}

// cheap are the functions without a guard: gojq's steps account for their work, whatever their input.
const cheap = `abs/0 acos/0 acosh/0 all/2 any/2 arrays/0 asin/0 asinh/0 atan/0 atan2/2 atanh/0 booleans/0 builtins/0 cbrt/0 ceil/0
	copysign/2 cos/0 cosh/0 drem/2 empty/0 erf/0 erfc/0 exp/0 exp10/0 exp2/0 expm1/0 fabs/0 fdim/2 finites/0 first/1 floor/0 fma/3
	fmax/2 fmin/2 fmod/2 frexp/0 gamma/0 has/1 hypot/2 in/1 infinite/0 isempty/1 isfinite/0 isinfinite/0 isnan/0 isnormal/0
	iterables/0 j0/0 j1/0 last/1 ldexp/2 lgamma/0 limit/2 log/0 log10/0 log1p/0 log2/0 logb/0 modf/0 nan/0 nearbyint/0 nextafter/2
	nexttoward/2 normals/0 not/0 nth/2 nulls/0 numbers/0 objects/0 pow/2 range/1 range/2 range/3 recurse/1 recurse/2 remainder/2
	repeat/1 rint/0 round/0 scalars/0 scalb/2 scalbln/2 select/1 significand/0 sin/0 sinh/0 skip/2 sqrt/0 strings/0 tan/0 tanh/0
	tgamma/0 toboolean/0 trunc/0 type/0 until/2 utf8bytelength/0 values/0 while/2 y0/0 y1/0`

// Each function of this version of gojq pays for its work.
func TestFunctionsPay(t *testing.T) {
	t.Parallel()
	free := map[string]bool{}
	for sign := range strings.FieldsSeq(cheap) {
		free[sign] = true
	}
	for name, counts := range builtins() {
		for _, n := range counts {
			f := &gojq.Func{Name: name}
			for range n {
				f.Args = append(f.Args, identity())
			}
			term := &gojq.Term{Type: gojq.TermTypeFunc, Func: f}
			functionCall(term)
			sign := signature(name, n)
			if _, ours := prelude()[sign]; !ours && term.Func == f && !free[sign] {
				t.Errorf("%s has no guard: give it one, or add it to the cheap functions", sign)
			}
		}
	}
}
