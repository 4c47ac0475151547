package schema

import (
	"errors"
	"fmt"
	"regexp/syntax"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

const (
	maxSteps  = 400_000 // visits of a part of a schema with a part of the data, or work that is worth them
	maxParts  = 4_000   // objects in a document; the library's time grows with their square
	maxStates = 20_000  // of one regular expression, all repetitions written out
	maxAll    = 200_000 // of all regular expressions of a document
)

// errSteps is told to people as it stands.
var errSteps = fmt.Errorf("takes too long to check: more than %d steps (limit schema-steps)", maxSteps)

// instance is a compiled schema with a meter of its own, for one validation at a time.
type instance struct {
	compiled *jsonschema.Schema
	left     int
	price    int                         // of a step: errors name their place, which takes memory by its depth
	inPlace  map[*jsonschema.Schema]int  // how many schemas may be applied to the same value before this one
	walked   map[*jsonschema.Schema]bool // while the graph is prepared
}

// exhausted is what the meter panics with; the library offers no other way out.
type exhausted struct{}

// newInstance puts the meter into every part of a compiled schema. The library asks a
// part's format about each value before it goes on to what is inside.
func newInstance(compiled *jsonschema.Schema, anchors []*jsonschema.Schema) *instance {
	i := &instance{compiled: compiled, inPlace: map[*jsonschema.Schema]int{}, walked: map[*jsonschema.Schema]bool{}}
	i.prepare(compiled, 0)
	for _, s := range anchors {
		i.prepare(s, 1)
	}
	i.walked = nil
	return i
}

// prepare visits all parts once for each greater depth, up to a bound.
func (i *instance) prepare(s *jsonschema.Schema, depth int) {
	type visit struct {
		schema *jsonschema.Schema
		depth  int
	}
	const deepest = 10_000
	todo := []visit{{s, depth}}
	visits := 0
	for len(todo) > 0 {
		v := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if v.schema == nil || i.walked[v.schema] && i.inPlace[v.schema] >= v.depth {
			continue
		}
		if i.inPlace[v.schema] = v.depth; !i.walked[v.schema] {
			i.walked[v.schema] = true
			i.meter(v.schema)
		}
		if visits++; v.depth < deepest && visits < 20*deepest {
			for _, sub := range sameValue(v.schema) {
				todo = append(todo, visit{sub, v.depth + 1})
			}
		}
		for _, sub := range otherValues(v.schema) {
			if !i.walked[sub] {
				todo = append(todo, visit{sub, 0})
			}
		}
	}
}

// sameValue are the parts that apply to the value itself.
func sameValue(s *jsonschema.Schema) []*jsonschema.Schema {
	var out []*jsonschema.Schema
	add := func(subs ...*jsonschema.Schema) {
		for _, sub := range subs {
			if sub != nil {
				out = append(out, sub)
			}
		}
	}
	add(s.Ref, s.RecursiveRef, s.Not, s.If, s.Then, s.Else)
	if s.DynamicRef != nil {
		add(s.DynamicRef.Ref)
	}
	add(s.AllOf...)
	add(s.AnyOf...)
	add(s.OneOf...)
	for _, sub := range s.DependentSchemas {
		add(sub)
	}
	for _, dependency := range s.Dependencies {
		if sub, ok := dependency.(*jsonschema.Schema); ok {
			add(sub)
		}
	}
	return out
}

// otherValues are the parts that apply to what is inside the value.
func otherValues(s *jsonschema.Schema) []*jsonschema.Schema {
	var out []*jsonschema.Schema
	add := func(subs ...*jsonschema.Schema) {
		for _, sub := range subs {
			if sub != nil {
				out = append(out, sub)
			}
		}
	}
	add(s.PropertyNames, s.UnevaluatedProperties, s.Contains, s.Items2020, s.UnevaluatedItems, s.ContentSchema)
	add(s.PrefixItems...)
	for _, sub := range s.Properties {
		add(sub)
	}
	for _, sub := range s.PatternProperties {
		add(sub)
	}
	for _, one := range []any{s.AdditionalProperties, s.Items, s.AdditionalItems} {
		switch one := one.(type) {
		case *jsonschema.Schema:
			add(one)
		case []*jsonschema.Schema:
			add(one...)
		}
	}
	return out
}

// meter makes a part of the schema charge for what it does with a value.
func (i *instance) meter(s *jsonschema.Schema) {
	own := s.Format
	same := 0
	for _, sub := range sameValue(s) {
		same += entry(sub)
	}
	fields, others, items := prices(s)
	tracked := len(sameValue(s)) / 4
	format := &jsonschema.Format{Name: "steps"}
	if own != nil {
		format.Name = own.Name
	}
	format.Validate = func(v any) error {
		cost := same + i.inPlace[s]/32 // the visit itself is paid for outside
		switch v := v.(type) {
		case map[string]any:
			cost += len(v) * (1 + others + tracked)
			if len(fields) > 0 {
				for name := range v {
					cost += fields[name]
				}
			}
		case []any:
			cost += len(v) * (items + tracked)
			if s.UniqueItems {
				cost += min(len(v), 20) * weight(v, i.left) / 2
			}
		case string:
			cost += len(v) / 16
			if s.Pattern != nil {
				cost += len(v) * matching(s.Pattern) / 32
			}
		}
		i.charge(cost)
		if own == nil {
			return nil
		}
		if own.Name == "regex" {
			if text, ok := v.(string); ok {
				_, err := pattern(text)
				return err
			}
		}
		return own.Validate(v)
	}
	s.Format = format
}

// prices are what the members of an object cost by their names, beyond a step, what each
// member costs, and each item of a list.
func prices(s *jsonschema.Schema) (fields map[string]int, others, items int) {
	for name, sub := range s.Properties {
		if cost := entry(sub) - 1; cost > 0 {
			if fields == nil {
				fields = map[string]int{}
			}
			fields[name] = cost
		}
	}
	price := func(sub *jsonschema.Schema) int {
		if sub == nil {
			return 0
		}
		return entry(sub)
	}
	for pattern, sub := range s.PatternProperties {
		others += entry(sub) + matching(pattern)/4
	}
	others += price(s.PropertyNames) + price(s.UnevaluatedProperties)
	if sub, ok := s.AdditionalProperties.(*jsonschema.Schema); ok {
		others += entry(sub) - 1
	}
	items += price(s.Items2020) + price(s.Contains) + price(s.UnevaluatedItems)
	dearest := 0
	for _, sub := range s.PrefixItems {
		dearest = max(dearest, entry(sub))
	}
	for _, one := range []any{s.Items, s.AdditionalItems} {
		switch one := one.(type) {
		case *jsonschema.Schema:
			items += entry(one)
		case []*jsonschema.Schema:
			for _, sub := range one {
				dearest = max(dearest, entry(sub))
			}
		}
	}
	return fields, others, items + dearest
}

func (i *instance) charge(cost int) {
	if i.left -= cost * i.price; i.left < 0 {
		panic(exhausted{})
	}
}

// entry is what the library does with a part of the schema before it asks for its format.
func entry(s *jsonschema.Schema) int {
	cost := 1
	if s.Const != nil {
		cost += constant(*s.Const)
	}
	if s.Enum != nil {
		for _, value := range s.Enum.Values {
			cost += constant(value)
		}
	}
	return cost
}

// constant is what a comparison with a value of the schema costs; numbers are slow.
func constant(v any) int {
	switch v := v.(type) {
	case []any, map[string]any:
		return 4 * weight(v, maxSteps)
	case nil, bool, string:
		return 0
	default:
		return 4
	}
}

// weight is how many parts a value has, as far as it matters.
func weight(v any, most int) int {
	sum := 1
	switch v := v.(type) {
	case []any:
		for _, item := range v {
			if sum += weight(item, most-sum); sum > most {
				break
			}
		}
	case map[string]any:
		for _, item := range v {
			if sum += weight(item, most-sum); sum > most {
				break
			}
		}
	case string:
		sum += len(v) / 64
	}
	return sum
}

// check validates within the meter's bounds.
func (i *instance) check(data any) (err error) {
	i.left, i.price = maxSteps, 1+depth(data)/16
	defer func() {
		switch r := recover().(type) {
		case nil:
		case exhausted:
			err = errSteps
		default:
			panic(r)
		}
	}()
	return i.compiled.Validate(data)
}

// depth is how many lists and objects are within each other.
func depth(v any) int {
	deepest := 0
	switch v := v.(type) {
	case []any:
		for _, item := range v {
			deepest = max(deepest, 1+depth(item))
		}
	case map[string]any:
		for _, item := range v {
			deepest = max(deepest, 1+depth(item))
		}
	}
	return deepest
}

// errParts is told to people as it stands.
var errParts = fmt.Errorf("JSON schema: more than %d objects (limit schema-parts)", maxParts)

// errStates is told to people as it stands.
var errStates = fmt.Errorf("regular expression of more than %d states, all repetitions written out (limit schema-states)", maxStates)

// errAllStates is told to people as it stands.
var errAllStates = errors.New("regular expressions of too many states in one schema, all repetitions written out (limit schema-states)")

// states is about how many a regular expression of a schema has.
func states(r jsonschema.Regexp) int {
	if r, ok := r.(regex); ok {
		return r.states
	}
	return maxStates
}

// matching is what a byte of text costs with a regular expression: Go takes a slow way
// through large ones.
func matching(r jsonschema.Regexp) int {
	n := states(r)
	if n > 200 {
		return 4 * n
	}
	return n
}

// stateCount is about how many states a regular expression is compiled to.
func stateCount(re *syntax.Regexp) int {
	size := 1 + len(re.Rune)/2
	for _, sub := range re.Sub {
		size += stateCount(sub)
	}
	if re.Op == syntax.OpRepeat {
		size *= max(re.Min, re.Max, 1)
	}
	return min(size, 10*maxStates)
}
