package expr_test

import (
	"testing"

	"flunq.io/flunq/engine/expr"
)

func eval(t *testing.T, src string, dot any) (any, error) {
	t.Helper()
	p, err := expr.Compile(src, func(n string) bool { return n == "x" })
	if err != nil {
		return nil, err
	}
	return p.Eval(&expr.Scope{Dot: dot, Var: func(string) (any, error) { return map[string]any{"y": 2}, nil }})
}

var attacks = []string{
	`def f: f; f`, `def f: 1 + f; f`, `def f: f, f; f`, `def f: [f]; f`, `def f: {a: f}; f`, `def f: f | .; f`,
	`[recurse]|length`, `null|[recurse(.a)]|length`, `[limit(1e9; repeat(1))]|length`, `until(false; .)`, `"x" * 1e9`, `"x" * 16000000 | length`, `[range(1e9)] | length`,
	`.[1e8] = 1`, `setpath([1e8]; 1)`, `[.[1e8]?] `, `[] | .[1e8:] = [1]`, `null|.[1e8] |= 3`, `reduce range(1e6) as $i (null; .[99999] = 1)`,
	`reduce range(1000) as $i (2; . * .)`, `reduce range(1e6) as $i (1; . * 3)|tostring|length`, `pow(10; 1e9)`, `[[range(10)]|combinations(30)]|length`, `[[range(100000)|[1]] | combinations]|length`,
	`reduce range(100) as $i (1; [., .])`, `reduce range(100) as $i (1; [., .]) | tojson`, `reduce range(100) as $i (1; [., .]) | . == .`, `reduce range(100) as $i (1; [., .]) | flatten`,
	`reduce range(100) as $i (1; [., .]) | "\(.)"`, `reduce range(100) as $i (1; [., .]) | error`, `reduce range(100) as $i (1; [., .]) | [.. ]`, `reduce range(100) as $i (1; [., .]) | del(.[0])`, `reduce range(100) as $i (1; [., .]) | .[0] |= empty`, `reduce range(100) as $i (1; [., .]) | sort`, `reduce range(100) as $i (1; [., .]) | [.,.] | unique_by(.)`, `reduce range(100) as $i (1; [., .]) | contains([1])`, `reduce range(100) as $i (1; [., .]) | [tostream]`, `reduce range(100) as $i (1; [., .]) | walk(.)`, `reduce range(100) as $i (1; [., .]) | [paths]`,
	`reduce range(100) as $i (1; {a:., b:.}) | . * .`,
	`reduce range(1e6) as $i (null; [.])`, `reduce range(1e6) as $i (null; [.]) | tojson`, `reduce range(1e6) as $i (null; [.]) | flatten`, `reduce range(1e6) as $i (null; [.]) | . == [.]`,
	`("a" * 100000) as $s | reduce range(1e6) as $i (0; $s | length)`, `("a" * 100000) as $s | reduce range(1e6) as $i (0; $s[50000])`, `("a" * 100000) as $s | reduce range(1e6) as $i (0; $s[5:$i])`,
	`("a" * 1000000) | [match("a"; "g")] | length`, `("a" * 1000000) | gsub("a"; "b") | length`, `("a" * 200000) | gsub("a"; "b") | length`, `("a" * 1000000) | test("(a{100}){10}b")`, `("a" * 10000) | [match("(a)?(b)?(c)?" * 500; "g")] | length`, `test("((a{1000}){1000}){1000}")`, `reduce range(1e6) as $i (0; "x" | test("a\($i)b"))`,
	`("a" * 100000) | indices("a" * 50000) | length`, `[range(100000)] | indices([1])`, `[range(100000)] - [range(100000)] | length`, `[range(3000)] - [range(3000)] | length`, `[range(100000)] | transpose`, `[[range(10000)], (range(10000)|[])] | transpose | length`,
	`("[" * 100000) | fromjson`, `("9" * 100000) | tonumber`, `("9" * 100000) | fromjson`, `"1e99999"|tonumber`,
	`[range(100000)] as $b | reduce range(1e6) as $i (0; $b | .[0] = 1)`, `[range(100000)] as $b | reduce range(1e6) as $i ($b; .[0] = 1)|length`, `[range(100000)] as $b | reduce range(1e6) as $i (0; $b | del(.[0]))`, `[range(100000)] as $b | reduce range(1e6) as $i (0; $b + $b)`, `[range(100000)] as $b | reduce range(1e6) as $i (0; $b == $b)`, `[range(100000)] as $b | reduce range(1e6) as $i (0; $b|sort)`,
	`reduce range(1e6) as $i (""; . + "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx") | length`, `[limit(100000; null|path(recurse(.a)))]|length`, `[null|limit(100000; path(recurse(.a)))]|length`, `[paths]`,
	`[limit(1e6; repeat("a"*1000))] | add | length`, `[range(100000)|tostring] | join("abc" * 1000) | length`, `"%10000000d" as $f | 0 | strftime($f)`, `0|strftime("%9999999999Y")`, `1e300|todate`, `yn(1e9; 1e9)`, `jn(1e9;1e9)`, `[splits("a")]`, `("a"*100000)|[splits("")]|length`, `("a,"*10000)|split(",")|length`, `("a"*1000000)/""|length`, `"abc"|ascii`, `@base32d`, `("a"*1000000)|explode|length`, `("\u0001"*1000000)|tojson|length`, `range(1e6)`, `range(99999)`, `def f(g): f(g|g); f(.)`, `def f(g): g | f(f(g)); f(.)`, `[range(50000)] | map_values(.+1) | length`, `[range(50000)] | .[] += 1 | length`, `[range(50000)|{a:.}] | .[].a |= .+1 | length`, `[range(50000)] | map_values(empty) | length`, `[range(50000)] | del(.[]) | length`, `[range(50000)|{a:.}] | map(.a = 2) | length`, `[range(50000)] | to_entries | from_entries? `, `[range(50000)|tostring] | sort | unique | length`, `[range(50000)|{a:.,b:"x"}] | group_by(.a) | length`, `[range(20000)|{a:.,b:"x"}] | .[] |= (.c = 1) | length`,
}

func TestQuick(t *testing.T) {
	for _, src := range []string{".", ".a.b", "$x.y", "1,2", "empty", "now", "[.a[]|.+1]", `.a.b = 1`, `{$x}`, `"\(.a)"`, `.a|= 3`, `$nope`, `input`, `.a +`, `1e999`, `.[2000000]=1|length`,
		`path(getpath(["a","b"]))`, `.a.b |= .+1`, `.a.b += 1`, `.a |= empty`, `del(.a)`, `[1,2,3] | .[1:] |= empty`, `[1,2,3,4]|.[] |= (select(.>2))`, `"abc" | sub("b";"x")`, `"aXbX"|gsub("(?<l>[a-z])X";"\(.l)-")`, `"abc"[1:2]`, `[1,2][0]`, `[1,2,3] | first, last, nth(1)`, `path(.a|first?)`, `[[1,[2]],{"a":[{}]}] | [paths]`, `path(..)`, `"abc"|test("B";"i")`, `[.[]?]`, `.a?.b`, `{"a":1} * {"a":{"b":2}}`, `10/4, 10/5, 7%3, 1-2, "a,b"/","`, `[1,2]-[2]`, `.a as {b:$q} | $q`, `"x" as $y | {$y, "a\($y)":1, ("b"+$y):2}`, `@json`, `@base64 "x\(1)"`, `[3,1]|sort`, `tojson|fromjson`, `to_entries`, `path(first(.a,.b))`, `.a["b"]`, `.["a"].b`, `.[.a|keys[0]]`, `limit(2;.a,.b,.c)`, `first(.[])`, `.a // 3`, `1 as $x | [$x,$x+1]`, `reduce (1,2) as $i (0;.+$i)`, `label $f | 1, break $f`, `try error("x") catch .`, `error({a:1})`, `.[0]`, `.a.b.c`, `[limit(3;range(10))]`,
	} {
		v, err := eval(t, src, map[string]any{"a": map[string]any{"b": 1}})
		t.Logf("%s => %s %v", src, expr.Encode(v), err)
	}
}
