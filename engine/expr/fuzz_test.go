package expr_test

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"flunq.io/flunq/engine/expr"
)

var (
	randoms     = flag.Int("expressions", 60, "number of random expressions")
	from        = flag.Uint64("from", 1, "seed of the first one")
	allocations = flag.Uint64("allocations", 0, "MB that one of them may allocate in all; 0: any number")
	worst       = flag.Duration("worst", 5*time.Second, "CPU time that one of them may take")
)

// grammar generates random expressions, preferably expensive ones.
type grammar struct {
	*rand.Rand
	left  int      // remaining parts
	vars  []string // variables in scope
	funcs []string // functions in scope: names, with ( for each argument
	outs  []string // labels in scope
}

func (g *grammar) one(of ...string) string { return of[g.IntN(len(of))] }

func (g *grammar) number() string {
	return g.one("0", "1", "2", "3", "7", "-1", "10", "100", "1000", "1e4", "1e5", "1e6", "1e9", "1e18", "1e300", "0.5", "infinite", "nan", "99999999999999999999", "50000")
}

func (g *grammar) text() string {
	return g.one(`""`, `"a"`, `"ab"`, `"a,b,c"`, `"x" * 1000`, `("ab" * 50000)`, `("a" * 1e6)`, `"é漢"`, `"[1,[2]]"`, `"2026-01-02T03:04:05Z"`, `"\(.)"`)
}

func (g *grammar) pattern() string {
	return g.one(`"a"`, `""`, `"a*"`, `"(a|b)*c"`, `"(a?){50}a{50}"`, `"(?<x>a)(?<y>b)?"`, `"[ab]{3,500}"`, `"."`, `"((a{100}){10})"`, `"\\w+"`, `("a" * 3000)`)
}

func (g *grammar) shallow() string {
	if len(g.vars) > 0 && g.IntN(3) == 0 {
		return g.vars[g.IntN(len(g.vars))]
	}
	if len(g.funcs) > 0 && g.IntN(3) == 0 {
		return g.call()
	}
	switch g.IntN(8) {
	case 0:
		return g.number()
	case 1:
		return g.text()
	case 2:
		return g.one("null", "true", "false", "[]", "{}", "empty", "error")
	case 3:
		return g.one("range(1e5)", "range(100)", "[range(1e5)]", "[range(1000)]", "[range(300)]", "{a: 1, b: [1, 2]}", "[limit(50000; repeat(1))]", "[range(30000) | {a: .}]")
	default:
		return g.one(".", ".", ".", ".a", ".[0]", ".[]", ".[]?", "..", ".b", "$x", "$item", "now")
	}
}

func (g *grammar) call() string {
	f := g.funcs[g.IntN(len(g.funcs))]
	name, args, _ := strings.Cut(f, "(")
	if args == "" {
		return name
	}
	parts := make([]string, len(args))
	for i := range parts {
		parts[i] = g.expr()
	}
	return name + "(" + strings.Join(parts, "; ") + ")"
}

func (g *grammar) within(add *[]string, names []string, body func() string) string {
	before := len(*add)
	*add = append(*add, names...)
	defer func() { *add = (*add)[:before:before] }()
	return body()
}

func (g *grammar) expr() string {
	if g.left--; g.left <= 0 || g.IntN(7) == 0 {
		return g.shallow()
	}
	e := g.expr
	switch g.IntN(34) {
	case 0, 1, 2, 3:
		return "(" + e() + " | " + e() + ")"
	case 4:
		return "(" + e() + ", " + e() + ")"
	case 5, 6:
		return "(" + e() + g.one(" + ", " - ", " * ", " / ", " % ", " == ", " < ", " and ", " or ", " // ") + e() + ")"
	case 7:
		return "[" + e() + "]"
	case 8:
		return "{a: " + e() + ", b: " + e() + g.one("", ", ("+g.text()+"): 1") + "}"
	case 9:
		return "(if " + e() + " then " + e() + " else " + e() + " end)"
	case 10:
		return "(try " + e() + " catch " + e() + ")"
	case 11:
		v := "$v" + strconv.Itoa(len(g.vars))
		of := e()
		return "(" + of + " as " + v + " | " + g.within(&g.vars, []string{v}, e) + ")"
	case 12:
		v := "$v" + strconv.Itoa(len(g.vars))
		of, start := e(), e()
		return "(reduce " + of + " as " + v + " (" + start + "; " + g.within(&g.vars, []string{v}, e) + "))"
	case 13:
		v := "$v" + strconv.Itoa(len(g.vars))
		of, start := e(), e()
		return "(foreach " + of + " as " + v + " (" + start + "; " + g.within(&g.vars, []string{v}, func() string { return e() + "; " + e() }) + "))"
	case 14, 15, 16, 17:
		return g.define()
	case 18:
		name := "$l" + strconv.Itoa(len(g.outs))
		return "(label " + name + " | " + g.within(&g.outs, []string{name}, e) + ")"
	case 19:
		if len(g.outs) == 0 {
			return "first(" + e() + ")"
		}
		return "(" + e() + " | break " + g.outs[g.IntN(len(g.outs))] + ")"
	case 20:
		return g.one("limit", "skip", "nth", "until", "while", "range", "IN", "combinations", "flatten", "recurse") + "(" + e() + "; " + e() + ")"
	case 21:
		return g.one("repeat", "recurse", "first", "last", "isempty", "walk", "map", "map_values", "select", "path", "paths", "del", "to_entries | map", "with_entries", "any", "all", "add", "pick", "tostream | [.] | fromstream", "limit(1e5; repeat", "[limit(3e4; repeat", "error", "getpath", "has", "splits", "env.x? | map", "INDEX", "GROUP_BY? // map", "combinations", "range", "flatten", "contains", "inside", "indices", "index", "join", "ltrimstr", "startswith", "split", "bsearch", "delpaths", "in") + "(" + e() + ")"
	case 22:
		return "(" + e() + " | " + g.one("sort_by", "group_by", "unique_by", "min_by", "max_by") + "(" + e() + "))"
	case 23:
		return "(" + e() + " | " + g.one("length", "keys", "values", "add", "any", "all", "flatten", "sort", "unique", "reverse", "min", "max", "tojson", "fromjson", "tostring", "tonumber", "explode", "implode", "ascii_downcase", "ascii_upcase", "transpose", "combinations", "to_entries", "from_entries", "tostream", "paths", "recurse", "first", "last", "type", "not", "trim", "ltrim", "utf8bytelength", "todate", "fromdate", "gmtime", "mktime", "abs", "toarray", "floor", "sqrt", "exp10", "significand", "gamma", "frexp", "ascii", "@base64d", "halt_error?", "getpath([\"a\", \"b\"])", "splits(\",\")", "have_literal_numbers") + ")"
	case 24:
		return "(" + e() + " | " + g.one("@json", "@html", "@uri", "@csv", "@tsv", "@sh", "@base64", "@text", "@base64d", "@urid") + g.one("", ` "x\(.)y\(.)"`) + ")"
	case 25:
		return "(" + g.text() + " | " + g.one("test", "scan", "match", "splits", "capture") + "(" + g.pattern() + g.one("", `; "g"`, `; "gi"`) + "))"
	case 26:
		return "(" + g.text() + " | " + g.one("sub", "gsub") + "(" + g.pattern() + "; " + e() + "))"
	case 27:
		return "setpath(" + g.one("[0]", `["a"]`, `["a", 0, "b"]`, "[99999]", "["+e()+"]") + "; " + e() + ")"
	case 28:
		return "(" + g.one(".a", ".[]", ".[0]", "..", ".[1:]", ".[99999]", "first", "paths", "("+e()+")") + g.one(" = ", " |= ", " += ", " *= ", " //= ") + e() + ")"
	case 29:
		return "(" + e() + g.one("[0]", "[]", "[]?", ".a", "[1:]", "[:-1]", "[50000]", "["+e()+"]", "["+e()+":]") + ")"
	case 30:
		return `"` + g.one("a", "") + `\(` + e() + `)\(` + e() + `)"`
	case 31:
		return "-" + "(" + e() + ")"
	case 32:
		return "limit(" + g.number() + "; " + e() + ")"
	default:
		return "[" + e() + " | " + e() + "]"
	}
}

// define generates a function, usually a recursive one.
func (g *grammar) define() string {
	name := "f" + strconv.Itoa(len(g.funcs))
	params, within := []string{}, []string{}
	args := g.IntN(3)
	for i := range args {
		p := "p" + strconv.Itoa(i) + name
		if g.IntN(4) == 0 {
			p = "$" + p
		}
		params, within = append(params, p), append(within, strings.TrimPrefix(p, "$"))
	}
	head := name
	sign := name + "("[:min(args, 1)] + strings.Repeat("(", max(args-1, 0))
	if args > 0 {
		head += "(" + strings.Join(params, "; ") + ")"
		sign = name + "(" + strings.Repeat("(", args)
	}
	inner := g.within(&g.funcs, append(within, sign, sign), g.expr)
	return "(def " + head + ": " + inner + "; " + g.within(&g.funcs, []string{sign}, g.expr) + ")"
}

// random returns the expression of a seed.
func random(seed uint64) string {
	g := &grammar{Rand: rand.New(rand.NewPCG(seed, 18)), left: 0}
	g.left = 3 + g.IntN(28)
	return g.expr()
}

// No random expression takes more than 256 MB or the CPU time -worst. A watchdog ends the test if one
// takes 20 seconds or 2 GB.
func TestRandomExpressions(t *testing.T) {
	if *randoms > 5000 {
		debug.SetGCPercent(100)
	}
	input := object{"a": list{1, object{"b": "text"}, nil, 2.5, list{list{}, "x"}}, "b": strings.Repeat("lorem ipsum ", 100)}
	wide := make(list, 20_000)
	for i := range wide {
		wide[i] = object{"a": i, "b": "item"}
	}
	var current atomic.Pointer[string]
	var peak atomic.Uint64
	stop := make(chan struct{})
	defer close(stop)
	go watch(stop, &current, &peak)
	compiled, ended := 0, 0
	before := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}, {Name: "/memory/classes/heap/objects:bytes"}}
	after := slices.Clone(before)
	var slow []string
	var longest, total time.Duration
	for i := range *randoms {
		seed := *from + uint64(i)
		src := random(seed)
		p, err := expr.Compile(src, known)
		if err != nil {
			continue
		}
		compiled++
		var dot any = input
		if seed%2 == 0 {
			dot = wide
		}
		if metrics.Read(before); before[1].Value.Uint64() > 48<<20 {
			runtime.GC()
			metrics.Read(before)
		}
		current.Store(&src)
		peak.Store(0)
		began, used := time.Now(), cpu()
		_, err = p.Eval(scope(dot))
		took, used := time.Since(began), cpu()-used
		longest = max(longest, used)
		memory := peak.Load()
		current.Store(nil)
		metrics.Read(after)
		allocated := (after[0].Value.Uint64() - before[0].Value.Uint64()) >> 20
		var failure *expr.Failure
		switch {
		case err != nil && !errors.As(err, &failure):
			t.Errorf("seed %d: got %v, %T", seed, err, err)
		case err == nil:
			ended++
		}
		total += used
		if used > *worst || memory > 256<<20 || *allocations > 0 && allocated > *allocations {
			slow = append(slow, fmt.Sprintf("seed %d: %v of CPU in %v, %d MB, %d MB in all: %s (%v)", seed, used.Round(time.Millisecond), took.Round(time.Millisecond), memory>>20, allocated, src, err))
			fmt.Fprintln(os.Stderr, slow[len(slow)-1])
		}
	}
	for _, line := range slow {
		t.Error(line)
	}
	t.Logf("%d compiled, %d with a result; %v of CPU at most, %v in all", compiled, ended, longest, total)
}

// watch records the memory of an evaluation, and terminates one that does not end.
func watch(stop chan struct{}, current *atomic.Pointer[string], peak *atomic.Uint64) {
	heap := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	var last *string
	var since time.Duration
	for {
		select {
		case <-stop:
			return
		case <-tick.C:
		}
		src := current.Load()
		if src != last {
			last, since = src, cpu()
		}
		if src == nil {
			continue
		}
		metrics.Read(heap)
		if n := heap[0].Value.Uint64(); n > peak.Load() {
			peak.Store(n)
		}
		if used := cpu() - since; used > 20*time.Second || peak.Load() > 2<<30 {
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			panic(fmt.Sprintf("%v, %d MB: %s", used, m.HeapAlloc>>20, *src))
		}
	}
}

// cpu returns the CPU time of the process, which other processes affect less than the wall
// clock.
func cpu() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
