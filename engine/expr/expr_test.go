package expr_test

import (
	"errors"
	"math/big"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"flunq.io/flunq/engine/expr"
	"flunq.io/flunq/engine/expr/canonical"
)

type (
	object = map[string]any
	list   = []any
)

// variables returns the variables of the tests' expressions.
func variables() object {
	return object{
		"x":       object{"y": 2, "s": "text"},
		"item":    "one",
		"secrets": object{"KEY": "hush", "EMPTY": nil},
	}
}

func scope(dot any) *expr.Scope {
	vars := variables()
	return &expr.Scope{
		Dot: dot,
		Now: time.Date(2026, 1, 2, 3, 4, 5, 500_000_000, time.UTC),
		Var: func(name string) (any, error) { return vars[name], nil },
	}
}

func known(name string) bool { _, ok := variables()[name]; return ok }

func compile(tb testing.TB, src string) *expr.Program {
	tb.Helper()
	p, err := expr.Compile(src, known)
	if err != nil {
		tb.Fatalf("compile %s: %v", src, err)
	}
	return p
}

// No result is null, one is itself, several are a list; variables and the time come from
// the scope.
func TestEval(t *testing.T) {
	t.Parallel()
	dot := object{"a": object{"b": 1}, "n": 41, "colors": list{"blue"}}
	tests := []struct {
		src  string
		want any
	}{
		{".a.b", 1},
		{"empty", nil},
		{".a?.b?", 1},
		{".n.x?", nil},
		{"1, 2", list{1, 2}},
		{".n + 1", 42},
		{`{x: .a, $item}`, object{"x": object{"b": 1}, "item": "one"}},
		{`.colors + ["red"]`, list{"blue", "red"}},
		{"$x.y * 10", 20},
		{"now", 1767323045.5},
		{"now | todate", "2026-01-02T03:04:05Z"},
		{"def now: 7; now", 7},
		{"1.0, 3.5", list{1, 3.5}},
		{"nan", nil},
		{"infinite", 1.7976931348623157e308},
		{"9007199254740993", 9007199254740993},
		{"9223372036854775807 + 1", new(big.Int).Lsh(big.NewInt(1), 63)},
		{`"[1.0]" | fromjson`, list{1}},
		{`. as {a: {b: $q}} | $q`, 1},
		{`. as [$q] ?// {n: $q} | $q`, 41},
		{`"a-b" | sub("(?<l>[a-z])-"; "\(.l)+", "\(.l)/")`, list{"a+b", "a/b"}},
		{`$x | .s |= empty`, object{"y": 2}},
		{`[1, 2, 3, 4] | .[1:3] |= empty`, list{1, 4}},
		{`[1, 2, 3, 4] | .[] |= select(. > 2)`, list{3, 4}},
		{`[[1, 2], [3]] | del(.[0][1], .[1])`, list{list{1}}},
	}
	for _, tt := range tests {
		t.Run(tt.src, func(t *testing.T) {
			t.Parallel()
			got, err := compile(t, tt.src).Eval(scope(dot))
			if err != nil {
				t.Fatal(err)
			}
			if !canonical.Equal(tt.want, got) {
				t.Errorf("got %s, want %s", canonical.Encode(got), canonical.Encode(tt.want))
			}
			if diff := cmp.Diff(canonical.Form(got), got, cmp.Comparer(sameBig)); diff != "" {
				t.Errorf("not canonical:\n%s", diff)
			}
		})
	}
}

func sameBig(a, b *big.Int) bool { return a.Cmp(b) == 0 }

// Only null and false are false, and the first result decides.
func TestTest(t *testing.T) {
	t.Parallel()
	for src, want := range map[string]bool{
		"true": true, "false": false, "null": false, "0": true, `""`: true, "[]": true,
		"empty": false, "false, true": false, "true, false": true, ".a": false, "$item": true,
		"true, error(\"later\")": true,
	} {
		got, err := compile(t, src).Test(scope(nil))
		if err != nil || got != want {
			t.Errorf("%s is %v, %v, want %v", src, got, err, want)
		}
	}
}

// Only free variables count, and each unknown one is reported.
func TestVars(t *testing.T) {
	t.Parallel()
	tests := []struct{ src, want string }{
		{"$x", "x"},
		{"$x.y + $item", "item x"},
		{"{$x}", "x"},
		{`"\($item)"`, "item"},
		{"1 as $x | $x", ""},
		{"(1 as $x | $x), $x", "x"},
		{"def f($x): $x; f(1)", ""},
		{"def f($x): $x; f($x)", "x"},
		{"reduce .[] as $x (0; . + $x)", ""},
		{"reduce .[] as $q ($x; . + $q)", "x"},
		{"foreach .[] as [$x] (0; $x; $x + $item)", "item"},
		{". as {a: $x, $item} | $x + $item", ""},
		{". as {($item): $x} | $x", "item"},
		{"@json \"\\($x)\"", "x"},
	}
	for _, tt := range tests {
		if got := strings.Join(compile(t, tt.src).Vars(), " "); got != tt.want {
			t.Errorf("%s uses %q, want %q", tt.src, got, tt.want)
		}
	}
	_, err := expr.Compile("$nope + $no", known)
	var unknown *expr.UnknownVariable
	if !errors.As(err, &unknown) || unknown.Name != "nope" || !strings.Contains(err.Error(), "$no\n") && !strings.HasSuffix(err.Error(), "$no") {
		t.Errorf("got %v", err)
	}
}

// Expressions that access the outside, or are not jq, are rejected at compile time.
func TestCompileRefuses(t *testing.T) {
	t.Parallel()
	for _, src := range []string{
		"input", "[inputs]", "debug", `debug("x")`, "stderr", "input_filename", "halt", "halt_error", "env", "$ENV", "env.PATH",
		"$__loc__", "$__meter", "$__now", "def __deep(f): .; 1", "__deep(1)", "_add(1; 2)", "localtime", `strflocaltime("%Y")`, `import "a" as a; 1`, `include "a"; 1`,
		"get_search_list", "", ".a +", "foo", "{", `"abc`, ".a[", "$x as", strings.Repeat("(", 70_000),
	} {
		p, err := expr.Compile(src, known)
		if err == nil {
			t.Errorf("%.40s compiles to %v", src, p.Source())
		}
	}
}

// A failed evaluation names its expression.
func TestFailure(t *testing.T) {
	t.Parallel()
	_, err := compile(t, ".a + 1").Eval(scope(object{"a": list{}}))
	var failure *expr.Failure
	if !errors.As(err, &failure) || failure.Source != ".a + 1" {
		t.Fatalf("got %v", err)
	}
	if want := `expression ".a + 1": cannot add: array ([]) and number (1)`; err.Error() != want {
		t.Errorf("got %s, want %s", err, want)
	}
}

// A missing secret is reported as such, unless the expression handles its absence.
func TestMissingSecret(t *testing.T) {
	t.Parallel()
	for src, want := range map[string]string{
		"$secrets.KEY":                       "",
		"$secrets.EMPTY":                     "",
		"$secrets.NO":                        "NO",
		`$secrets["NO"]`:                     "NO",
		`$secrets."NO".x`:                    "NO",
		`"Bearer \($secrets.NO)"`:            "NO",
		"$secrets.NO?":                       "",
		`$secrets.NO // "default"`:           "",
		"try $secrets.NO catch 1":            "",
		"$secrets[\"K\" + \"EY\"]":           "",
		"{KEY: 1} as $secrets | $secrets.NO": "",
	} {
		_, err := compile(t, src).Eval(scope(nil))
		var missing *expr.MissingSecret
		if got := errors.As(err, &missing); got != (want != "") || got && missing.Name != want {
			t.Errorf("%s: got %v, want %q", src, err, want)
		}
	}
}

// An error of Scope.Var is not a failure of the expression.
func TestVariableError(t *testing.T) {
	t.Parallel()
	boom := errors.New("boom")
	for _, src := range []string{"$x", "$x.y", "[$x]"} {
		_, err := compile(t, src).Eval(&expr.Scope{Var: func(string) (any, error) { return nil, boom }})
		if !errors.Is(err, boom) {
			t.Errorf("%s: got %v", src, err)
		}
	}
}

// No expression modifies its input, which others may be reading.
func TestInputStays(t *testing.T) {
	t.Parallel()
	data := func() any {
		return object{"a": object{"b": 1, "c": object{"d": list{3, 1, 2}}}, "l": list{3, list{2}, object{"x": 1}}, "z": nil}
	}
	shared := data()
	var wait sync.WaitGroup
	for _, src := range []string{
		".a.b = 5", ".a.c.d[0] |= . + 1", "del(.a.b)", "del(.l[0], .l[1][0])", ".l |= map(.)", ".a |= with_entries(.value = 1)", ".a.c.d |= sort",
		"delpaths([[\"a\", \"c\", \"d\", 0]])", ".l[] |= empty", "map_values(empty)", ".a.c.d += [4]", "walk(if type == \"number\" then . + 1 else . end)",
		".l[1:] = []", "[.l[] | .x? = 2]", ". * {a: {c: 1}}", "to_entries | from_entries", "[.l, .a.c.d] | add", "reduce .l[] as $v (.; .l += [$v])",
		".l | .[0] as $f | .[1:] + [$f]", ".l[1:] | .[0] = 9", "[.l[0:1][], 5] | sort", ".l | flatten | sort", "pick(.a.b) | .a.b = 9", ".a.c.d | .[1:] |= map(. * 2)",
		"tostream", "[paths]", "setpath([\"a\", \"b\"]; 3)", ".a.c.d | reverse | .[0] = 8", ".a += {b: 2}", ".a.b //= 3 | .z //= 4", ".l[0:1] += [7]",
	} {
		p := compile(t, src)
		wait.Go(func() {
			for range 3 {
				if _, err := p.Eval(scope(shared)); err != nil {
					t.Errorf("%s: %v", src, err)
				}
			}
		})
	}
	wait.Wait()
	if diff := cmp.Diff(data(), shared); diff != "" {
		t.Errorf("the input changed:\n%s", diff)
	}
}
