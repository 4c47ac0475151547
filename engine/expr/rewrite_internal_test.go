package expr

import (
	"testing"

	"github.com/itchyny/gojq"
)

// These are the examples in rewrite.go.
func TestRewrites(t *testing.T) {
	t.Parallel()
	for src, want := range map[string]string{
		".a + .b":     "(__add(.a; .b; $__meter))",
		"keys":        "(__shallow($__meter) | keys)",
		"sort_by(.a)": "(__each($__meter) | sort_by((.a | __sort($__meter))))",
		".[$i]":       "(. | __chars($__meter))[__key($i; $__meter)]",
		`"at \(.a)"`:  `(__add("at "; ((.a) | __deep(1; $__meter)) | tostring; $__meter))`,
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
