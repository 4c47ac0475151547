package expr_test

import (
	"fmt"
	"math/big"
	"strings"
	"testing"

	"github.com/itchyny/gojq"

	"flunq.io/flunq/engine/expr"
	"flunq.io/flunq/engine/expr/canonical"
)

// plainJQ evaluates with unmodified gojq.
func plainJQ(src string, dot any) (results []any, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v", r)
		}
	}()
	query, err := gojq.Parse(src)
	if err != nil {
		return nil, err
	}
	vars := variables()
	code, err := gojq.Compile(query, gojq.WithVariables([]string{"$x", "$item", "$secrets"}))
	if err != nil {
		return nil, err
	}
	iter := code.Run(dot, vars["x"], vars["item"], vars["secrets"])
	for {
		v, ok := iter.Next()
		if !ok {
			return results, nil
		}
		if err, ok := v.(error); ok {
			return nil, err
		}
		results = append(results, v)
	}
}

func folded(results []any) any {
	switch len(results) {
	case 0:
		return nil
	case 1:
		return results[0]
	default:
		return results
	}
}

func same(t *testing.T, src string, dot any) {
	t.Helper()
	p, err := expr.Compile(src, known)
	if err != nil {
		t.Fatalf("compile %s: %v", src, err)
	}
	got, err := p.Eval(scope(dot))
	want, wantErr := plainJQ(src, dot)
	if (err != nil) != (wantErr != nil) {
		t.Errorf("%s of %s: got %s, %v, want %v, %v", src, canonical.Encode(dot), canonical.Encode(got), err, want, wantErr)
	}
	if err != nil {
		return
	}
	if a, b := string(canonical.Encode(got)), string(canonical.Encode(canonical.Form(folded(want)))); a != b {
		t.Errorf("%s of %s: got %s, want %s", src, canonical.Encode(dot), a, b)
	}
}

func samples() []any {
	return []any{
		nil, true, 0, -3, 2.5, "", "text", "a-b-c", "äöü€𝄞",
		list{},
		list{1, 2, 3},
		list{3, 1, list{2, nil}, "x", object{"a": 1}},
		object{},
		object{"a": object{"b": list{1, 2}, "c": "x"}, "n": 4, "s": "a,b"},
		list{object{"a": 1, "b": 2}, object{"a": 0, "b": 1}, object{"a": 1}},
		list{list{1, 2}, list{3, 4}},
		object{"a": list{object{"b": 1}, object{"b": nil}}},
		"2026-01-02T03:04:05Z", 1767323045,
	}
}

// Guards, the prelude and the fast path for paths do not change the meaning of an
// expression.
func TestSameAsJQ(t *testing.T) {
	t.Parallel()
	for src := range strings.SplitSeq(strings.TrimSpace(expressions), "\n") {
		t.Run(src, func(t *testing.T) {
			t.Parallel()
			for _, dot := range samples() {
				same(t, src, dot)
			}
		})
	}
}

// Operators have the same meaning as in gojq.
func TestSameOperators(t *testing.T) {
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
		for op := range strings.FieldsSeq("+ - * / % == != < <= > >= and or // |") {
			for _, right := range operands {
				for _, dot := range dots {
					same(t, left+" "+op+" "+right, dot)
				}
			}
		}
	}
}

// A regular expression finds the same characters as in gojq.
func TestSameRegex(t *testing.T) {
	t.Parallel()
	for _, pattern := range []string{"", "a", "a*", "(?<x>a)|b", "b*", "^", "$", "\\b", "[^,]*", "(a)(b)?", "ä|𝄞", "x?", ".", "(?<y>.)(?<z>.)?"} {
		for _, f := range []string{
			`[match(%s; "g")]`, `[match(%s)]`, `test(%s)`, `[scan(%s)]`, `[scan(%s; "i")]`, `sub(%s; "-")`, `gsub(%s; "<\(.x // .y)>")`, `[gsub(%s; "1", "2")]`, `[splits(%s)]`, `split(%s; "g")`, `[capture(%s; "g")]`,
			`sub(%s; empty)`, `gsub(%s; "a", empty)`, `[match([%s, "gi"])]`, `test([%s])`,
		} {
			quoted := string(canonical.Encode(pattern))
			src := strings.ReplaceAll(f, "%s", quoted)
			for _, dot := range []any{"", "a", "aab", "ä,aé𝄞a", "Abba", nil, 3} {
				same(t, src, dot)
			}
		}
	}
}

const expressions = `
.
.a
.a.b
.a.b[0]
.["a"]
."a"
.a["b"]
.a?
.a.b?
.a?.b
.a.b.c?
.[0]
.[0]?
.[1].a
.[-1]
.[1.7]
.["x"]?
$x
$x.y
$x.y.z?
$x["s"]
$item
$item[1]
"const"
"esc\n\u00e4"
1
null
false
-1
1.50
12345678901234567890
.[1:]
.[:2]
.[1:-1]
.[0.5:1.5]
.[-2:]?
.a[.n]?
.[.a]?
..
[..]
.[]?
[.[]?]
.a[]?
{a: 1, b: .}
{"x": 1, "y\(1)": 2, ("z"): 3}
{$item, a: .a?}
{a: (1, 2)}
[1, 2, .]
. + .
. + null
. + 1
. - 1
. - .
. * 2
2 * .
. * .
. * 0
. * 0.5
. * -1
. / 2
. / .
. / ","
. % 2
. % 0
. % 2.5
. == .
. == 1
. != null
. < 3
. >= "b"
. <= [2]
1 == 1.0
9223372036854775807 * 9223372036854775807
9223372036854775807 + 1 - 1
-9223372036854775808 * -1
-9223372036854775808 / -1
-9223372036854775808 % -1
7 % -2
-7 % 2
5.9 % -2.1
100000000000000000000 / 10
100000000000000000000 / 3
100000000000000000000 % 7
1e1000 % 3
nan % 1
nan < nan
[nan] | sort
. and true
. or false
not
.a // "d"
(.a, .n)? // 1
first(.[]?)
first?
last?
nth(1)?
nth(1; .[]?)
[limit(2; .[]?)]
[skip(1; .[]?)]
until(true; .)
[range(3)]
[range(0; 10; 3)]
[range(5; 0; -2)]
length?
utf8bytelength?
keys?
has(0)?
has("a")?
map(.)?
map(. + 1)?
map_values(.)?
map_values(empty)?
map_values(., .)?
add?
add(.[]?)
any?
all?
any(.[]?; . == 1)
flatten?
flatten(1)?
flatten(-1)?
sort?
sort_by(.a)?
sort_by(.a, .b)?
group_by(.a)?
unique?
unique_by(.a)?
min?
max?
min_by(.a)?
max_by(.b)?
reverse?
contains("a")?
contains([1])?
contains({a: {c: "x"}})?
inside([1, 2, 3])?
index("-")?
rindex("-")?
indices("-")?
indices(1)?
indices([1, 2])?
index(",", "b")?
join(",")?
join(",", "/")?
join(1)?
split("-")?
ascii_downcase?
ascii_upcase?
ltrimstr("a")
rtrimstr("c")
trimstr("a")?
trim?
startswith("a")?
endswith("c")?
explode?
(explode | implode)?
tojson
tostring
tonumber?
(tojson | fromjson)
fromjson?
type
@text
@json
@html
@uri
@urid?
@csv?
@tsv?
@sh?
@base64
@base64d?
@json "x\(.)y\(1)"
@uri "q=\(.)&\("a b")"
"\(.)"
"a\(.)b\(1 + 1)c"
"\(1, 2)-\(3, 4)"
format("json")
path(..)
[paths]
[paths(type == "number")]
path(.a?)
path(.[1:]?)
path(first(.a?, .b?))
[path(.a[]?)]
path(getpath(["a", "b"])?)
getpath(["a", "b"])?
getpath(["a"], ["n"])?
setpath(["a"]; 1)?
setpath(["a"], ["n"]; 1, 2)?
setpath([0]; 9)?
setpath([-1]; 9)?
setpath([]; 1)
delpaths([["a"]])?
delpaths([[0], [1]])?
delpaths([])
delpaths([[]])
delpaths([["a", "b"], ["a"]])?
delpaths([[{"start": 1, "end": 3}]])?
delpaths([[-1]])?
delpaths([[5]])?
del(.a)?
del(.[0])?
del(.[0, 2])?
del(.[])?
del(.[1:])?
del(.[:-1])?
del(.[0.5:1.5])?
del(.a.b, .n)?
del(.a[]?.b)?
del(..)?
del(.[1:][0])?
to_entries?
from_entries?
with_entries(.value |= 1)?
(to_entries | from_entries)?
tostream
[tostream] | fromstream(.[])
fromstream(tostream)
[1 | truncate_stream([[0], 1], [[1, 0], 2], [[1, 0]], [[1]])]
pick(.a)?
pick(.a.b)?
pick(first)?
pick(.[1])?
walk(.)
walk(if type == "number" then . + 1 else . end)
walk(if type == "object" then del(.a) else . end)
walk(select(. != 1))
transpose?
combinations?
[combinations(2)?]
[splits("-")?]
.a = 1
.a.b = 1
.[0] = 1
.[5] = 1
.[-1] = 1
.[] = 1
.a[] = 1
(.a, .b) = 1
.a = (1, 2)
.a |= 1
.a |= empty
.[] |= empty
.[0] |= empty
(.[0], .[2]) |= empty
.[1:] |= empty
.[1:] |= map(. + 1)
.[] |= (., .)
.[]? |= select(. == 1)
.a.b |= .[0]
.a += 1
.[] += 1
.[]? += 1
.n -= 1
.n *= 2
.n /= 2
.n %= 3
.a //= 1
.[] //= 0
.a += (1, 2)
.[1:] += [7]
.a.b[0] += 10
.. |= .
(.. | select(type == "number")) |= . + 1
.a.b.c.d = 1
.[2:4] = [1]
.a.x |= . + 1
limit(1; .[]?) = 5
first(.[]?) |= 5
if . then 1 else 2 end
if .a? then 1 elif .n? then 2 end
try error catch .
try error("x") catch .
try error({a: 1}) catch .a
error?
(error(null))?
try (1 + "a") catch "bad"
label $out | 1, break $out, 2
reduce .[]? as $i (0; . + 1)
reduce (1, 2, 3) as $i (0; . + $i)
[foreach (1, 2, 3) as $i (0; . + $i)]
[foreach (1, 2, 3) as $i (0; . + $i; [$i, .])]
. as [$a, $b] | [$a, $b]?
. as {a: $q} | $q?
. as {"a": $q, $n} | [$q, $n]
. as [$q] ?// {a: $q} ?// $q | [$q]
def f: 1; def g(h): h + f; g(2)
def f($a; b): $a + b; f(1; 2)
def fac: if . <= 1 then 1 else . * (. - 1 | fac) end; 20 | fac
def map(f): "mine"; map(.)
def add: "mine"; add
def paths: "mine"; paths
def f(add): add; f(3)
def tojson: 5; "\(1)", tojson
[.[]? | numbers, strings, nulls]
[.[]? | scalars]
todate?
fromdate?
strptime("%Y-%m-%dT%H:%M:%SZ")?
(strptime("%Y-%m-%dT%H:%M:%SZ") | mktime)?
strftime("%Y")?
gmtime?
floor?
sqrt?
pow(2; 10)
log2?
infinite, -infinite
nan | isnan
tojson | length
splits("a"; "g")?
IN(1, 2)
IN(.[]?; 1)
INDEX(.a)?
INDEX(.[]?; .a?)
[JOIN({"1": "x"}; .a? | tostring)?]
[JOIN({"1": "x"}; .[]?; tostring)]
[JOIN({"1": "x"}; .[]?; tostring; add?)]
getpath(["a", 0, "b"])?
bsearch(1)?
bsearch(2)?
toboolean?
abs?
significand?
jn(1; 2)
yn(0; 2)
[.[]?, 1] | @json
ltrimstr(1)
tojson as $t | $t
. as $d | [1, 2] | map($d)
$x | .y as $y | $y + 1
[.[]? as [$a] | $a]?
limit(0; 1)
limit(-1; 1)?
[.[]?.a?]
.a.b[1:]?
.s / ","
.a | keys?
"abc" | .[1:2]
"abc" | .[1]
"äöü" | .[1:]
[1, 2, 3] | .[1:] = [9]
[[1, 2], [3, 4]] | .[][0]
{} | .a.b.c = 1
{} | .["a", "b"] = 1
[3, 1, 2] | sort | first, last
{"a": [1, 2]} | .a[1:] |= map(. * 2)
def path(f): 7; {"a": 1} | (.a |= . + 1), path(.a), paths
def getpath(f): 7; {"a": 1} | (.a += 1), (.b = 3), (.c //= 4), getpath(1), path(getpath(["a"])?)
def getpath(path): def path(f): f; path(path); {"a": 1} | getpath(.a), (.a |= . + 1)
def empty: 7; {"a": 1} | .a.b?, empty, (.a |= empty), (try error("x"))
def f(empty): .a.b?, empty; {"a": 1} | f(3)
def _deep(f): if f > 3 then f else _deep(f + 1) end; _deep(1)
`

// For any path and data, the fast path agrees with gojq's machine.
func FuzzPath(f *testing.F) {
	for _, src := range []string{".", ".a.b", ".[0].a?", "$x.y", `."a"["b"]`, ".a?.b?", ".[3]", "$item[0]", `"x".a?`, ".a.[0]"} {
		for _, data := range []string{`{"a":{"b":1}}`, `[{"a":2}]`, `"text"`, "null"} {
			f.Add(src, []byte(data))
		}
	}
	f.Fuzz(func(t *testing.T, src string, data []byte) {
		dot, err := canonical.Decode(data)
		if err != nil || strings.Trim(src, `.[]?"$abcxyitem0123`) != "" || len(src) > 40 {
			return
		}
		if _, err := expr.Compile(src, known); err != nil {
			return
		}
		same(t, src, dot)
	})
}

// For any source and data, Compile and Eval return a value or one of their errors.
func FuzzEval(f *testing.F) {
	for src := range strings.SplitSeq(strings.TrimSpace(expressions), "\n") {
		f.Add(src, []byte(`{"a":{"b":[1,2]},"n":4}`))
	}
	f.Fuzz(func(t *testing.T, src string, data []byte) {
		dot, err := canonical.Decode(data)
		if err != nil {
			return
		}
		before := string(canonical.Encode(dot))
		p, err := expr.Compile(src, known)
		if err != nil {
			return
		}
		v, err := p.Eval(scope(dot))
		if size, _ := canonical.Measure(v); err == nil && size > 32<<20 {
			t.Errorf("%s: a result of %d bytes", src, size)
		}
		if after := string(canonical.Encode(dot)); before != after {
			t.Errorf("%s changed its input from %s to %s", src, before, after)
		}
	})
}
