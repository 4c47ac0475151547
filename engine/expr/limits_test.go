package expr_test

import (
	"errors"
	"testing"

	"flunq.io/flunq/engine/expr"
	"flunq.io/flunq/engine/expr/canonical"
)

const (
	dag  = `reduce range(100) as $i (1; [., .]) | `
	deep = `reduce range(50000) as $i (null; [.]) | `
	long = `("a" * 100000) as $s | reduce range(1e6) as $i (0; `
	wide = `[range(100000)] as $b | reduce range(1e6) as $i (0; `
)

// No expression takes unbounded time or memory: it fails, in the same way everywhere. A hang or a
// crash of this test is a failure.
func TestLimits(t *testing.T) {
	t.Parallel()
	for _, src := range []string{
		`def f: f; f`, `def f: 1 + f; f`, `def f: f, f; f`, `def f: [f]; f`, `def f: {a: f}; f`, `def f(g): f(g | g); f(.)`, `def f(g): g | f(f(g)); f(.)`,
		`[recurse(.)]`, `[limit(1e9; repeat(1))]`, `until(false; .)`, `[range(1e9)]`, `range(200000)`, `try until(false; .) catch 1`, `first(range(10; infinite; 0) | empty)`,
		`def f(g): def h: g|f(h); h; f(.)`, `def f: label $a|f|f; f`, `def f: label $a|f,f; f`, `def f: def g: f; g + 1; f`, `def f: try f catch f; f`, `[range(1000)] as $b | def f: $b[] as $x | f,f; f`,
		`[range(1e6) | {a: .}]`, wide + `$b | first(.[]))`, wide + `$b | first(..|numbers))`, wide + `$b | label $f | map(break $f))`, wide + `$b | label $f | sort_by(break $f))`, `[limit(50000; .[]?)] | "a\([range(50000)])\(.[])\(range(1e5))"`,
		`("a" * 100000) | [match("a.*z|a"; "g")]`, `reduce range(1e6) as $i (0; "x" | test("a{\($i % 1000)}"))`, `"" | test("a{1000}" * 500)`, `("ab" * 50000) | [splits("(a?){50}a{50}"; "g")]`, `("{}," * 1000000 | "[" + .[:-1] + "]") | fromjson`,
		`"x" * 1e9`, `1e9 * "x"`, `.[1e8] = 1`, `setpath([1e8]; 1)`, `[] | .[1e8:] = [1]`, `.[1e8] |= 3`, `.[1e8] += 3`, `reduce range(1e6) as $i (null; .[99999] = 1)`,
		`reduce range(1000) as $i (2; . * .)`, `reduce range(1e6) as $i (1; . * 3)`, `reduce range(1e6) as $i (1; . - 9e18 * 7 | . * -1000000007)`,
		`[[range(10)] | combinations(30)]`, `[[range(100000) | [1]] | combinations]`,
		dag + `.`, dag + `tojson`, dag + `. == .`, dag + `flatten`, dag + `"\(.)"`, dag + `error`, dag + `error(.)`, dag + `[..]`, dag + `.[0] |= empty`, dag + `sort`, dag + `[., .] | unique_by(.)`,
		dag + `contains([1])`, dag + `[tostream]`, dag + `walk(.)`, dag + `[paths]`, dag + `@text`, dag + `@base64 "\(.)"`, dag + `{a: .} * {a: {}} | tostring`, dag + `index([1])`, dag + `[.] - [.]`, dag + `bsearch(1)`, dag + `max`, dag + `IN(., .)`, dag + `INDEX(.)`, dag + `tojson | fromjson`, dag + `[., .] | join(",")`,
		deep + `.`, deep + `tojson`, deep + `flatten`, deep + `. == [.]`, deep + `[leaf_paths?]`, deep + `[paths]`,
		long + `$s | length)`, long + `$s[50000])`, long + `$s[5:$i])`, long + `$s | test("b"))`, long + `$s + "b" | 1)`, long + `$s | explode | 1)`, long + `$s / "," | 1)`, long + `$s | ascii_upcase | 1)`, long + `$s | ltrimstr("b") | 1)`, long + `"\($s)" | 1)`, long + `$s | first | 1)`,
		`("a" * 1000000) | [match("a"; "g")]`, `("a" * 1000000) | gsub("a"; "b")`, `("a" * 1000000) | test("(a{100}){10}b")`, `("a" * 10000) | [match("(a)?(b)?(c)?" * 500; "g")]`, `"" | test("((a{1000}){1000}){1000}")`, `reduce range(1e6) as $i (0; "x" | test("a\($i)b"))`, `("a" * 2000000) | test("a")`, `"a" | test("a" * 5000)`,
		`("a" * 100000) | indices("a" * 50000)`, `[range(100000)] - [range(100000)]`, `[[range(10000)], (range(10000) | [])] | transpose`, `[range(100000)] | .[[1, 2]]`,
		`("[" * 100000) | fromjson`, `("9" * 100000) | tonumber`, `("9" * 100000) | fromjson`,
		wide + `$b | .[0] = 1)`, wide + `$b | del(.[0]) | 1)`, wide + `$b + $b | 1)`, wide + `$b == $b)`, wide + `$b | sort | 1)`, wide + `$b | .[0] |= 1 | 1)`, wide + `$b | .[0] += 1 | 1)`, wide + `$b | reverse | 1)`, wide + `$b | getpath($b) | 1)`, wide + `try ($b | setpath([0]; 1)) catch 1)`, wide + `$b | add)`, wide + `$b | tojson | 1)`, wide + `$b | contains([5]))`,
		`[null | limit(100000; path(recurse(.a)))]`, `[null | limit(100000; paths(recurse(.a)))]`, `[range(100000) | tostring] | join("abc" * 1000)`, `yn(1e9; 1e9)`, `jn(1e9; 1e9)`, `[limit(1e6; repeat("a" * 1000))]`, `0 | strftime("%Y" * 10000)`, `label $f | range(1e9) | if . < 0 then break $f else empty end | 1, error`,
	} {
		p, err := expr.Compile(src, known)
		if err != nil {
			continue // such as a function that gojq lacks
		}
		t.Run(src, func(t *testing.T) {
			v, err := p.Eval(scope(nil))
			var failure *expr.Failure
			if err != nil && !errors.As(err, &failure) {
				t.Errorf("got %v, %T", err, err)
			}
			if size, _ := canonical.Measure(v); err == nil && size > 1<<20 {
				t.Errorf("no error, but %d bytes", size)
			}
		})
	}
}

// Ordinary work on much data stays well within the limits.
func TestLimitsAreWide(t *testing.T) {
	t.Parallel()
	items := make([]any, 20_000)
	for i := range items {
		items[i] = object{"id": i, "name": "item", "price": float64(i) + 0.5, "tags": list{"a", "b"}}
	}
	for _, src := range []string{
		"range(100000)", "def f: if . == 0 then 0 else (. - 1 | f) + 1 end; 1000 | f", "def sum: if length == 0 then 0 else .[0] + (.[1:] | sum) end; [range(1000)] | sum", "map(.price) | add", "map(select(.id > 100)) | length", "group_by(.id) | length", "sort_by(.price) | .[0]", ".[] |= (.id += 1) | length", "map_values(.id) | length",
		"map(.name | ascii_upcase) | unique", "[.[] | tojson] | length", "tojson | fromjson | length", "map(del(.tags)) | length", "to_entries | map(.value |= .id) | length", "INDEX(.id) | length",
		"[.[] | .name | test(\"it\")] | all", "map(.name | gsub(\"t\"; \"T\"))[0]", "map({key: (.id | tostring), value: .name}) | from_entries | length", "[limit(10; .[])] | length", "map(. + {x: 1}) | length", "[.[].tags] | flatten | length",
	} {
		if _, err := compile(t, src).Eval(scope(items)); err != nil {
			t.Error(err)
		}
	}
}
