package schema_test

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"runtime/metrics"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"flunq.io/flunq/engine/expr/canonical"
	"flunq.io/flunq/engine/schema"
)

var (
	schemas = flag.Int("schemas", 60, "number of random schemas")
	from    = flag.Uint64("from", 1, "seed of the first one")
	worst   = flag.Duration("worst", 5*time.Second, "CPU time that one of them may take")
)

// chain returns a schema of n definitions, each of which refers to the next one twice.
func chain(keyword string, n int) object {
	defs := object{}
	for i := range n {
		next := object{"$ref": "#/$defs/d" + strconv.Itoa(i+1)}
		defs["d"+strconv.Itoa(i)] = object{keyword: list{next, next}}
	}
	defs["d"+strconv.Itoa(n)] = object{"type": "object"}
	return object{"$defs": defs, "$ref": "#/$defs/d0"}
}

// nested returns v inside n lists.
func nested(n int, v any) any {
	for range n {
		v = list{v}
	}
	return v
}

func numbers(n int) list {
	out := make(list, n)
	for i := range out {
		out[i] = i
	}
	return out
}

// A validation that would take too long ends with the error of a limit.
func TestSchemaLimits(t *testing.T) {
	t.Parallel()
	recursive := func(keyword string) object {
		lists := object{"type": "array", "items": object{"$ref": "#"}}
		return object{keyword: list{lists, lists}}
	}
	tests := []struct {
		name   string
		schema any
		data   any
	}{
		{"allOf", chain("allOf", 31), object{}},
		{"anyOf", chain("anyOf", 31), 1},
		{"oneOf", chain("oneOf", 31), object{}},
		{"wide allOf", chain("allOf", 40), numbers(100_000)},
		{"lists in oneOf", recursive("oneOf"), nested(40, 1)},
		{"lists in anyOf", recursive("anyOf"), nested(40, 1)},
		{"lists in allOf", recursive("allOf"), nested(900, list{})},
		{"dynamic", object{
			"$dynamicAnchor": "node", "allOf": list{object{"items": object{"$dynamicRef": "#node"}}, object{"items": object{"$dynamicRef": "#node"}}},
		}, nested(40, list{})},
		{"unevaluated", object{"unevaluatedProperties": false, "allOf": func() list {
			out := list{}
			for range 1900 {
				out = append(out, object{"properties": object{"x": true}})
			}
			return out
		}()}, func() object {
			out := object{}
			for i := range 5000 {
				out["k"+strconv.Itoa(i)] = i
			}
			return out
		}()},
		{"enum of numbers", object{"items": object{"enum": numbers(20_000)}}, func() list {
			out := list{}
			for range 20_000 {
				out = append(out, -1)
			}
			return out
		}()},
		{"pattern", object{"items": object{"pattern": "(a?){200}a{200}$"}}, func() list {
			out := list{}
			for range 500 {
				out = append(out, strings.Repeat("a", 5000)+"b")
			}
			return out
		}()},
		{"many items", object{"items": object{"type": "string"}}, numbers(500_000)},
	}
	for _, tt := range tests {
		began := cpu()
		s, err := schema.Compile(tt.schema)
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		err = s.Validate(tt.data)
		var invalid *schema.Invalid
		if !errors.As(err, &invalid) || !strings.Contains(err.Error(), "(limit schema-steps)") {
			t.Errorf("%s: got %.200v, want the limit", tt.name, err)
		}
		t.Logf("%s: %v of CPU", tt.name, (cpu() - began).Round(time.Millisecond))
	}
	if _, err := schema.Compile(object{"pattern": strings.Repeat("a{1000}", 500)}); err == nil {
		t.Error("a pattern of 500,000 states is compiled")
	}
}

// A large payload of ordinary data stays well within the limits.
func TestSchemaLimitsAreWide(t *testing.T) {
	t.Parallel()
	s, err := schema.Compile(object{"type": "array", "items": object{
		"type": "object", "required": list{"id", "name"}, "additionalProperties": false,
		"properties": object{
			"id": object{"type": "integer", "minimum": 0}, "name": object{"type": "string", "maxLength": 50, "pattern": "^[a-z ]+$"},
			"kind": object{"enum": list{"a", "b", "c"}}, "tags": object{"type": "array", "items": object{"type": "string"}, "uniqueItems": true},
			"at": object{"type": "string", "format": "date-time"}, "price": object{"oneOf": list{object{"type": "number"}, object{"type": "null"}}},
		},
	}})
	if err != nil {
		t.Fatal(err)
	}
	items := make(list, 10_000)
	for i := range items {
		items[i] = object{"id": i, "name": "an ordinary item", "kind": "b", "tags": list{"a", "b"}, "at": "2026-01-02T03:04:05Z", "price": 1.5}
	}
	if err := s.Validate(items); err != nil {
		t.Error(err)
	}
}

// grammar generates random schemas, and values for them.
type grammar struct {
	*rand.Rand
	left, defs int
}

func (g *grammar) schema() any {
	if g.left--; g.left <= 0 {
		return []any{true, false, object{"type": "string"}, object{"$ref": "#"}, object{}}[g.IntN(5)]
	}
	out := object{}
	for range 1 + g.IntN(3) {
		g.keyword(out)
	}
	return out
}

func (g *grammar) several() list {
	out := list{}
	for range 1 + g.IntN(4) {
		out = append(out, g.schema())
	}
	return out
}

func (g *grammar) keyword(out object) {
	switch g.IntN(20) {
	case 0, 1:
		out["allOf"] = g.several()
	case 2:
		out["anyOf"] = g.several()
	case 3, 4:
		out["oneOf"] = g.several()
	case 5:
		out["not"] = g.schema()
	case 6:
		out["if"], out["then"], out["else"] = g.schema(), g.schema(), g.schema()
	case 7, 8, 9:
		out["$ref"] = "#/$defs/d" + strconv.Itoa(g.IntN(g.defs))
	case 10:
		out["items"] = g.schema()
	case 11:
		out["prefixItems"] = g.several()
	case 12:
		out["properties"] = object{"a": g.schema(), "b": g.schema()}
	case 13:
		out["patternProperties"] = object{[]string{"a", "^k", "(a?){50}a{50}", ".*x"}[g.IntN(4)]: g.schema()}
	case 14:
		out[[]string{"additionalProperties", "unevaluatedProperties", "unevaluatedItems", "propertyNames", "contains"}[g.IntN(5)]] = g.schema()
	case 15:
		out["uniqueItems"] = true
	case 16:
		out["pattern"] = []string{"a", "^(a|b)*$", "(a?){50}a{50}", "[ab]{3,500}"}[g.IntN(4)]
	case 17:
		out["enum"] = numbers(g.IntN(3000))
	case 18:
		out["type"] = []string{"object", "array", "string", "number", "null"}[g.IntN(5)]
	default:
		out[[]string{"minimum", "maxLength", "minItems", "multipleOf", "minProperties"}[g.IntN(5)]] = 1 + g.IntN(5)
	}
}

func (g *grammar) value() any {
	if g.left--; g.left <= 0 {
		return []any{nil, true, 1, "a", strings.Repeat("ab", 1000), list{}, object{}}[g.IntN(7)]
	}
	switch g.IntN(6) {
	case 0:
		return nested(g.IntN(200), list{})
	case 1:
		return numbers(g.IntN(20_000))
	case 2:
		out := object{}
		for i := range g.IntN(3000) {
			out["k"+strconv.Itoa(i)] = i
		}
		return out
	case 3:
		out := list{}
		for range g.IntN(50) {
			out = append(out, g.value())
		}
		return out
	default:
		return object{"a": g.value(), "b": g.value()}
	}
}

func (g *grammar) document() object {
	g.defs = 1 + g.IntN(30)
	g.left = 5 + g.IntN(100)
	defs := object{}
	for i := range g.defs {
		defs["d"+strconv.Itoa(i)] = g.schema()
	}
	out := object{"$defs": defs}
	g.keyword(out)
	g.keyword(out)
	return out
}

// No validation of random data takes more than 256 MB or the CPU time -worst. A watchdog ends the test if
// one takes 20 seconds.
func TestRandomSchemas(t *testing.T) {
	heap := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	var peak atomic.Uint64
	var now atomic.Uint64
	stop := make(chan struct{})
	defer close(stop)
	go func() {
		began, last := time.Now(), uint64(0)
		for {
			select {
			case <-stop:
				return
			case <-time.After(time.Millisecond):
			}
			samples := []metrics.Sample{{Name: heap[0].Name}}
			metrics.Read(samples)
			peak.Store(max(peak.Load(), samples[0].Value.Uint64()))
			if seed := now.Load(); seed != last {
				began, last = time.Now(), seed
			}
			if time.Since(began) > 20*time.Second {
				panic(fmt.Sprintf("seed %d does not end", last))
			}
		}
	}()
	compiled, valid := 0, 0
	var longest time.Duration
	for i := range *schemas {
		seed := *from + uint64(i)
		g := &grammar{Rand: rand.New(rand.NewPCG(seed, 6))}
		document := g.document()
		g.left = 1 + g.IntN(60)
		data := g.value()
		if metrics.Read(heap); heap[0].Value.Uint64() > 48<<20 {
			runtime.GC()
		}
		now.Store(seed)
		peak.Store(0)
		began := cpu()
		s, err := schema.Compile(document)
		if err == nil {
			compiled++
			err = s.Validate(data)
			if err == nil {
				valid++
			} else if _, ok := errors.AsType[*schema.Invalid](err); !ok {
				t.Errorf("seed %d: got %v, %T", seed, err, err)
			}
		}
		used := cpu() - began
		longest = max(longest, used)
		if used > *worst || peak.Load() > 256<<20 {
			text := "nil"
			if err != nil {
				text, _, _ = strings.Cut(err.Error(), "\n")
			}
			line := fmt.Sprintf("seed %d: %v of CPU, %d MB, %.300s: %s", seed, used.Round(time.Millisecond), peak.Load()>>20, text, canonical.Encode(document))
			fmt.Fprintln(os.Stderr, line)
			t.Error(line)
		}
	}
	t.Logf("%d compiled, %d valid; %v of CPU at most", compiled, valid, longest)
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
